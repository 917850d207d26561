"""The commands on fakes: what they print, their JSON contracts, their exit codes."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.cli.main import main
from tests.loop.fake_wiring import fake_wiring

Kernelsmith = Callable[..., tuple[int, str, str]]
PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "loop" / "fake_wiring.py")]


@pytest.fixture
def kernelsmith(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Kernelsmith:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELSMITH_DB", raising=False)

    def command(*words: str) -> tuple[int, str, str]:
        code = main(words, fake_wiring())
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def run_of(kernelsmith: Kernelsmith, *words: str) -> dict[str, Any]:
    limits = ["--max-candidates", "8", "--seed", "4", "--json"]
    code, out, _ = kernelsmith("run", "toy", *limits, *words)
    assert code == 0
    return dict(json.loads(out)["runs"][0])


def one_error_line(said: str) -> str:
    lines = said.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1
    assert lines[-1].startswith("hint: ")
    assert "Traceback" not in said
    return errors[0]


# ---------------------------------------------------------------------------------- run, resume


def test_run_says_in_json_what_it_did(kernelsmith: Kernelsmith) -> None:
    run = run_of(kernelsmith)
    task = run["tasks"][0]
    assert {"id", "state", "started_at", "device", "proposer", "tasks"} <= set(run)
    assert (run["state"], run["device"], run["proposer"]) == ("finished", "cpu", "search")
    assert (task["task"], task["judged"]) == ("toy", 8)
    assert task["accepted"] > 0
    assert set(task["gain"]) == {"geomean", "low", "high", "sessions", "against", "cases"}
    assert task["gain"]["sessions"] == 20


def test_run_ends_with_a_table_and_the_next_commands(kernelsmith: Kernelsmith) -> None:
    code, out, err = kernelsmith("run", "toy", "other", "--max-candidates", "12", "--seed", "4")
    assert code == 0
    _, listed, _ = kernelsmith("runs", "--json")
    tasks = json.loads(listed)["runs"][0]["tasks"]
    for task in tasks:
        if not task["incumbent_is_seed"]:
            assert f"kernelsmith diff {task['incumbent']}" in out
            assert "1.200x" in out
            assert "accepted (cpu), unchecked: order" in out
    assert "the gate proved itself in" in err
    assert "10 of 10 cheats rejected" in err


def test_what_the_table_shows_are_whole_ids_however_narrow_the_terminal(
    kernelsmith: Kernelsmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = kernelsmith("run", "toy", "--max-candidates", "8", "--seed", "4")
    _, listed, _ = kernelsmith("runs", "--json")
    table = out.split("next:")[0]
    assert json.loads(listed)["runs"][0]["tasks"][0]["incumbent"] in table


def test_a_gate_that_fails_its_own_proof_starts_nothing(
    kernelsmith: Kernelsmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KS_PROOF", "fail")
    code, _, err = kernelsmith("run", "toy")
    assert code == 5
    assert "skip_work was accepted" in one_error_line(err)
    code, out, _ = kernelsmith("runs", "--json")
    assert json.loads(out)["runs"] == []


def test_resume_of_a_finished_run_asks_for_more_and_then_goes_on(kernelsmith: Kernelsmith) -> None:
    run = run_of(kernelsmith)
    code, _, err = kernelsmith("resume", run["id"][:12])
    assert code == 2
    assert "is finished" in one_error_line(err)
    code, out, _ = kernelsmith("resume", "latest", "--max-candidates", "5", "--json")
    assert code == 0
    assert json.loads(out)["runs"][0]["tasks"][0]["judged"] == 13


def test_resume_refuses_another_seed_and_another_device(
    kernelsmith: Kernelsmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(kernelsmith)
    more = ("resume", "latest", "--time-limit", "1m")
    monkeypatch.setenv("KS_SEED_SOURCE", "# another seed\n")
    code, _, err = kernelsmith(*more)
    assert (code, "seed of toy has changed" in one_error_line(err)) == (2, True)
    monkeypatch.delenv("KS_SEED_SOURCE")
    monkeypatch.setenv("KS_DEVICE", "another machine")
    code, _, err = kernelsmith(*more)
    assert (code, "epoch" in one_error_line(err)) == (2, True)


def test_a_run_may_start_from_a_candidate_or_a_file_which_is_judged_first(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    second = run_of(kernelsmith, "--from", winner[:8])
    _, out, _ = kernelsmith("show", winner, "--json")
    shown = json.loads(out)
    assert (shown["run"], shown["verdict"]) == (second["id"], "accepted")
    assert "of an earlier run" in shown["note"]
    (tmp_path / "mine.py").write_text("# mine\n")
    third = run_of(kernelsmith, "--from", "mine.py")
    assert third["tasks"][0]["judged"] == 8


def test_the_same_seed_proposes_the_same(kernelsmith: Kernelsmith) -> None:
    runs = [run_of(kernelsmith) for _ in range(2)]
    assert runs[0]["tasks"] == runs[1]["tasks"]


# ------------------------------------------------------------------------------ show, diff, gate


def test_show_candidate_keeps_its_contract(kernelsmith: Kernelsmith) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    code, out, err = kernelsmith("show", winner, "--json")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert (shown["schema"], shown["verdict"], shown["status"]) == (
        "kernelsmith.verdict/1",
        "accepted",
        "ACCEPTED",
    )
    names = {"schema", "verdict", "status", "task", "candidate", "epoch", "device", "checks"}
    assert {*names, "gain", "unchecked"} <= set(shown)
    assert {"name", "status", "seconds", "evidence"} <= set(shown["checks"][0])
    assert set(shown["gain"]["cases"][0]) == {"case", "path", "gain"}
    assert shown["unchecked"] == ["order"]
    assert shown["against_seed"]["holds"] is True


def test_show_says_each_check_with_its_evidence_to_people(kernelsmith: Kernelsmith) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    _, out, _ = kernelsmith("show", winner[:6])
    for part in ("accepted (cpu)", "confirm", "e_value: 25.6", "unchecked  order", "m16"):
        assert part in out


def test_show_run_lists_it_with_its_newest_candidates(kernelsmith: Kernelsmith) -> None:
    run = run_of(kernelsmith)
    code, out, _ = kernelsmith("show", "latest", "--json")
    shown = json.loads(out)
    assert (code, shown["id"], len(shown["newest"])) == (0, run["id"], 9)
    assert "secret" not in out


def test_show_says_what_is_not_there(kernelsmith: Kernelsmith) -> None:
    run_of(kernelsmith)
    code, _, err = kernelsmith("show", "zz")
    assert (code, "no candidate 'zz'" in one_error_line(err)) == (2, True)


@pytest.mark.parametrize("against", ["parent", "seed"])
def test_diff_is_unified_and_names_both_sides(kernelsmith: Kernelsmith, against: str) -> None:
    winner = run_of(kernelsmith)["tasks"][0]["incumbent"]
    code, out, _ = kernelsmith("diff", winner, "--against", against)
    assert code == 0
    assert out.startswith("--- ")
    assert f"+++ {winner} (search)" in out


@pytest.mark.parametrize(("status", "code"), [("ACCEPTED", 0), ("BITS_DIFFER", 1)])
def test_gate_exits_by_its_verdict(
    kernelsmith: Kernelsmith,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    code: int,
) -> None:
    monkeypatch.setenv("KS_STATUS", status)
    (tmp_path / "mine.py").write_text("# mine\n")
    found, out, _ = kernelsmith("gate", "mine.py", "--task", "toy", "--json")
    shown = json.loads(out)
    assert (found, shown["status"]) == (code, status)
    assert shown["verdict"] == ("accepted" if code == 0 else "rejected")
    assert kernelsmith("gate", "mine.py", "--task", "toy")[0] == code
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot read"), (b"x = '\xff'\n", "is not UTF-8: byte 5"), (b"#" * 300_000, "at most")],
)
def test_gate_refuses_a_file_it_cannot_take_in_one_line(
    kernelsmith: Kernelsmith, tmp_path: Path, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / "mine.py").write_bytes(content)
    code, out, err = kernelsmith("gate", "mine.py", "--task", "toy")
    assert (code, out) == (2, "")
    assert says in one_error_line(err)


# ---------------------------------------------------------------------------- doctor, the rest


def test_doctor_keeps_its_contract(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    code, out, _ = kernelsmith("doctor", "--gate", "--json")
    shown = json.loads(out)
    assert code == 0
    assert set(shown) == {"schema", "ok", "device", "sandbox", "proposer", "checks", "gate"}
    assert shown["gate"] == {
        "cheats": {"tried": 10, "rejected": 10},
        "mutants": {"tried": 20, "rejected": 20},
        "seed": "pass",
    }
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_is_missing(kernelsmith: Kernelsmith, tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"no database" * 500)
    code, out, _ = kernelsmith("doctor", "--json")
    shown = json.loads(out)
    assert (code, shown["ok"]) == (3, False)
    bad = [check for check in shown["checks"] if not check["ok"]]
    assert [check["name"] for check in bad] == ["database"]
    assert bad[0]["hint"]


def test_lineage_verify_exits_5_and_names_the_row_that_was_edited(
    kernelsmith: Kernelsmith, tmp_path: Path
) -> None:
    run_of(kernelsmith)
    code, out, _ = kernelsmith("lineage", "verify")
    assert (code, "intact" in out) == (0, True)
    plain = sqlite3.connect(tmp_path / "runs.db")
    plain.execute("UPDATE verdicts SET status = 'ACCEPTED' WHERE status != 'ACCEPTED'")
    plain.commit()
    plain.close()
    code, out, _ = kernelsmith("lineage", "verify")
    assert code == 5
    assert "verdicts " in out
    assert ": edited (recorded in step" in out


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("show", "latest"),
        ("diff", "latest"),
        ("resume", "latest"),
        ("stop", "latest"),
        ("lineage", "verify"),
    ],
)
def test_without_a_database_a_command_says_so_and_makes_none(
    kernelsmith: Kernelsmith, tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, out, err = kernelsmith(*words)
    assert (code, out) == (2, "")
    assert "no database at runs.db" in one_error_line(err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("run", "nothing"), 2, "no task named 'nothing'"),
        (("run",), 2, "missing argument 'TASK...'"),
        (("run", "toy", "--time-limit", "soon"), 2, "'soon' is not a duration"),
        (("run", "toy", "--time-limit", "0s"), 2, "leaves no time"),
        (("run", "toy", "--proposer", "agent"), 3, "agent proposer is not built yet"),
        (("run", "toy", "--proposer", "magic"), 2, "no proposer 'magic'"),
        (("run", "toy", "--from", "abc"), 2, "no candidate 'abc'"),
        (("run", "toy", "--db", "no/where.db"), 2, "no folder"),
        (("run", "toy", "--nonsense"), 2, "no such option"),
        (("show",), 2, "missing argument 'ID'"),
        (("nonsense",), 2, "no such command"),
    ],
)
def test_what_the_user_can_mend_is_one_line_with_a_hint(
    kernelsmith: Kernelsmith, words: tuple[str, ...], code: int, says: str
) -> None:
    found, out, err = kernelsmith(*words)
    assert (found, out) == (code, "")
    assert says.lower() in one_error_line(err).lower()


def test_settings_come_from_option_then_environment_then_file(
    kernelsmith: Kernelsmith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernelsmith.toml").write_text('db = "file.db"\n')
    run_of(kernelsmith)
    monkeypatch.setenv("KERNELSMITH_DB", "environment.db")
    run_of(kernelsmith)
    run_of(kernelsmith, "--db", "option.db")
    made = {each.name for each in tmp_path.glob("*.db*")}
    assert made == {"file.db", "environment.db", "option.db"}


@pytest.mark.parametrize("text", ["db = ", 'color = "red"', "device = 3"])
def test_a_broken_settings_file_is_one_line(
    kernelsmith: Kernelsmith, tmp_path: Path, text: str
) -> None:
    (tmp_path / "kernelsmith.toml").write_text(text)
    code, _, err = kernelsmith("runs")
    assert code == 2
    assert "kernelsmith.toml" in err.splitlines()[0]


def test_version_and_help(kernelsmith: Kernelsmith) -> None:
    code, out, _ = kernelsmith("--version")
    assert (code, out.split()[0]) == (0, "kernelsmith")
    code, out, _ = kernelsmith("--help")
    assert code == 0
    for command in ("doctor", "tasks", "run", "resume", "stop", "runs", "show", "diff", "gate"):
        assert f"  {command} " in out


# ---------------------------------------------------------------------------------- processes


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    script = (
        "import json, sys; from kernelsmith.cli.main import main; code = main(sys.argv[1:]);"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    heavy = {"torch", "triton", "scipy", "sqlalchemy", "alembic", "numpy", "llvmlite", "libcst"}
    assert not heavy & set(modules)


def started(words: list[str], folder: Path, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    while text not in (line := process.stderr.readline()):
        assert line, f"ended before {text!r}"


def test_ctrl_c_ends_at_once_on_record_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = started(["run", "toy", "--time-limit", "1h"], tmp_path, KS_SLEEP_S="30")
    wait_for(process, "is on record")
    reader = sqlite3.connect(tmp_path / "runs.db")
    while reader.execute("SELECT count(*) FROM candidates").fetchone() != (2,):
        time.sleep(0.01)  # until it is on record; its judgement takes 30 s
    reader.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "kernelsmith resume " in err
    assert "1 waiting for a verdict" in out
    assert [each.name for each in tmp_path.iterdir()] == ["runs.db"]


def test_stop_ends_a_run_from_another_terminal(tmp_path: Path) -> None:
    process = started(["run", "toy", "--time-limit", "1h"], tmp_path, KS_SLEEP_S="0.05")
    wait_for(process, "is on record")
    asked = subprocess.run(
        [*PROGRAM, "stop", "latest"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "asked run" in asked.stdout
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "someone asked it to stop" in err
    assert "finished" in out
    again = subprocess.run(
        [*PROGRAM, "stop", "latest"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (again.returncode, "is finished, not running" in again.stderr) == (2, True)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    process = started(["--help"], tmp_path)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() in (0, 1)
    assert err == ""
