"""The examples for systemd, Slurm and Prometheus: verified by the tools, and run where they can."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.asking import run_of
from tests.operations.processes import PROGRAM, until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SYSTEMD = shutil.which("systemd-analyze")
PROMTOOL = shutil.which("promtool")


def on_fakes(folder: Path) -> dict[str, str]:
    """The environment of an example, in which ``kernelsmith`` is the one on fakes; a ``scontrol``
    that notes what it is asked."""
    tools = folder / "tools"
    tools.mkdir()
    program = tools / "kernelsmith"
    words = " ".join(f"'{word}'" for word in PROGRAM)
    program.write_text(
        "#!/bin/sh\nfor word; do shift\n"
        'case "$word" in rms_norm) word=toy;; linear) word=other;; esac\n'
        f'set -- "$@" "$word"; done\nexec {words} "$@"\n'
    )
    control = tools / "scontrol"
    control.write_text(f'#!/bin/sh\necho "$@" >> {folder}/scontrol.txt\n')
    for each in (program, control):
        each.chmod(0o755)
    return {
        **os.environ,
        "KERNELSMITH": str(program),
        "NIGHT": str(EXAMPLES / "night.sh"),
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KS_SLEEP_S": "0.05",
        "SLURM_SUBMIT_DIR": str(folder),
        "SLURM_JOB_ID": "77",
    }


def job(folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(EXAMPLES / "kernelsmith.sbatch")],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kinds(folder: Path) -> list[str]:
    path = folder / "runs.db"
    if not path.exists():
        return []
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        return [row[0] for row in database.execute("SELECT kind FROM steps ORDER BY seq")]
    except sqlite3.OperationalError:  # it is being made
        return []
    finally:
        database.close()


@pytest.mark.slow
def test_a_preempted_job_pauses_is_queued_again_and_goes_on(tmp_path: Path) -> None:
    environment = on_fakes(tmp_path)
    first = job(tmp_path, environment)
    until(lambda: kinds(tmp_path).count("verdict") >= 2)
    first.send_signal(signal.SIGTERM)
    out, _ = first.communicate(timeout=60)
    assert first.returncode == 0, out
    assert "kernelsmith ended with 75" in out
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 77\n"
    assert kinds(tmp_path)[-1] == "paused"
    judged = kinds(tmp_path).count("verdict")
    second = job(tmp_path, {**environment, "SLURM_RESTART_COUNT": "1"})
    until(lambda: kinds(tmp_path).count("verdict") > judged)
    stopped = subprocess.run(
        [environment["KERNELSMITH"], "stop", "latest"], cwd=tmp_path, check=False
    )
    out, _ = second.communicate(timeout=60)
    assert (stopped.returncode, second.returncode) == (0, 0), out
    assert kinds(tmp_path).count("run") == 1, "the second start began another run"
    assert kinds(tmp_path)[-1] == "finished"
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 77\n"


@pytest.mark.slow
def test_stop_now_reaches_the_run_of_a_job_and_is_not_queued_again(tmp_path: Path) -> None:
    environment = on_fakes(tmp_path)
    begun = job(tmp_path, environment)
    until(lambda: "verdict" in kinds(tmp_path))
    words = [environment["KERNELSMITH"], "stop", "latest", "--now"]
    assert subprocess.run(words, cwd=tmp_path, check=False).returncode == 0
    out, _ = begun.communicate(timeout=60)
    assert (begun.returncode, "ended with 130" in out) == (130, True)
    assert not (tmp_path / "scontrol.txt").exists()


@pytest.mark.parametrize(
    ("state", "age_h", "resumes"),
    [("finished", 1, False), ("paused", 1, True), ("paused", 30, False)],
)
def test_a_night_goes_on_only_with_a_run_that_was_cut_not_long_ago(
    kernelsmith: Any, tmp_path: Path, state: str, age_h: float, resumes: bool
) -> None:
    run = run_of(kernelsmith)
    began = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(time.time() - age_h * 3600))
    with sqlite3.connect(tmp_path / "runs.db") as database:
        payload = '{"level": "journal"}' if state == "paused" else "{}"
        words = "UPDATE events SET kind = ?, payload = ? WHERE kind = 'finished'"
        database.execute(words, (state, payload))
        database.execute("UPDATE runs SET started_at = ?", (began,))
    database.close()
    program = tmp_path / "asked"
    ask = " ".join(f"'{word}'" for word in PROGRAM)
    program.write_text(f'#!/bin/sh\n[ "$1" = runs ] && exec {ask} "$@"\necho "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["sh", str(EXAMPLES / "night.sh"), "rms_norm", "--time-limit", "8h"],
        env={**os.environ, "KERNELSMITH": str(program)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = f"resume {run['id']}" if resumes else "run rms_norm --time-limit 8h"
    assert done.stdout == expected + "\n"


@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("name", ["kernelsmith.service", "kernelsmith-user.service"])
def test_the_units_are_what_systemd_takes(tmp_path: Path, name: str) -> None:
    assert SYSTEMD is not None
    text = (EXAMPLES / name).read_text()
    assert "/opt/kernelsmith" in text
    text = text.replace("/opt/kernelsmith/.venv/bin", str(Path(sys.executable).parent))
    text = text.replace("/opt/kernelsmith", str(ROOT))
    shutil.copy(EXAMPLES / "kernelsmith.timer", tmp_path)

    def verify(unit: str) -> str:
        (tmp_path / "kernelsmith.service").write_text(unit)
        manager = ["--user"] if "user" in name else []
        units = ["./kernelsmith.service", *([] if manager else ["./kernelsmith.timer"])]
        done = subprocess.run(
            [SYSTEMD, "verify", *manager, "--man=no", *units],
            cwd=tmp_path,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr

    if "kernelsmith" not in verify(text.replace("KillMode=mixed", "KillMode=sometimes")):
        pytest.skip("systemd-analyze verifies nothing here")
    assert "kernelsmith" not in verify(text)


def test_a_unit_resumes_what_the_machine_ended_and_nothing_that_wants_a_person() -> None:
    from kernelsmith.interrupts import EXIT_INTERRUPTED, EXIT_PAUSED

    for name in ("kernelsmith.service", "kernelsmith-user.service"):
        settings = dict(re.findall(r"^(\w+)=(.*)$", (EXAMPLES / name).read_text(), re.MULTILINE))
        prevented = {int(word) for word in settings["RestartPreventExitStatus"].split()}
        assert prevented == {1, 2, 3, 5, EXIT_PAUSED, EXIT_INTERRUPTED}
        assert settings["SuccessExitStatus"] == str(EXIT_PAUSED)
        assert (settings["KillSignal"], settings["KillMode"]) == ("SIGTERM", "mixed")
        assert (settings["Restart"], settings["OOMPolicy"]) == ("on-failure", "continue")


def test_the_alerts_are_about_metrics_that_there_are(kernelsmith: Any, tmp_path: Path) -> None:
    run_of(kernelsmith, "--metrics-to", "run.prom")
    there = set(
        re.findall(r"^(kernelsmith_\w+?)(?:\{| )", (tmp_path / "run.prom").read_text(), re.M)
    )
    there |= {"kernelsmith_model_cost_dollars_total", "kernelsmith_model_budget_dollars"}
    rules = yaml.safe_load((EXAMPLES / "prometheus-rules.yml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({each["alert"] for each in alerts}) == len(alerts) == 11
    for each in alerts:
        assert {"summary", "do"} == set(each["annotations"])
        assert set(re.findall(r"kernelsmith_\w+", each["expr"])) <= there, each["alert"]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here")
def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    shutil.copy(EXAMPLES / "prometheus-rules.yml", tmp_path)

    def series(name: str, values: str, **labels: str) -> dict[str, str]:
        told = "".join(f', {key}="{value}"' for key, value in labels.items())
        return {"series": f'{name}{{instance="a", job="kernelsmith"{told}}}', "values": values}

    stalled = [
        series("kernelsmith_last_record_timestamp_seconds", "0x120"),
        series("kernelsmith_paused", "0x70 1x50"),
        series("kernelsmith_run_ended", "0x120", how="finished"),
        series("kernelsmith_run_ended", "0x120", how="failed"),
        series("kernelsmith_worker_deaths_total", "0x60 30x60", role="seed"),
    ]

    def fires(alert: str, minutes: int, **labels: str) -> dict[str, Any]:
        names = {"instance": "a", "job": "kernelsmith", **labels}
        return {
            "alertname": alert,
            "eval_time": f"{minutes}m",
            "exp_alerts": [{"exp_labels": names}],
        }

    rules = yaml.safe_load((EXAMPLES / "prometheus-rules.yml").read_text())
    notes = {
        rule["alert"]: {
            key: text.replace("{{ $labels.instance }}", "a")
            for key, text in rule["annotations"].items()
        }
        for group in rules["groups"]
        for rule in group["rules"]
    }
    tests = [
        {"alertname": "KernelsmithStalled", "eval_time": "30m", "exp_alerts": []},
        fires("KernelsmithStalled", 68),
        {"alertname": "KernelsmithStalled", "eval_time": "100m", "exp_alerts": []},
        {"alertname": "KernelsmithEndedBadly", "eval_time": "30m", "exp_alerts": []},
        fires("KernelsmithWorkersDie", 75),
    ]
    for each in tests:
        for alert in each["exp_alerts"]:
            alert["exp_annotations"] = notes[each["alertname"]]
    document = {
        "rule_files": ["prometheus-rules.yml"],
        "tests": [{"interval": "1m", "input_series": stalled, "alert_rule_test": tests}],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    for words in (["check", "rules", "prometheus-rules.yml"], ["test", "rules", "test.yml"]):
        done = subprocess.run(
            [PROMTOOL, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
