"""docs/operations.md: its night runs as it is written, its tables are about what there is."""

import re
import signal
import tomllib
from pathlib import Path
from typing import Any

from kernelsmith import config
from tests.operations.processes import until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()


def test_the_night_of_the_page_runs_as_it_is_written(
    ended: Any, kernelsmith: Any, tmp_path: Path
) -> None:
    block = PAGE.split("## A night")[1].split("```")[1]
    lines = [line.split("  #")[0].split() for line in block.strip().splitlines()]
    said = {}
    for name, *words in lines:
        assert name == "kernelsmith"
        named = [{"rms_norm": "toy", "linear": "other", "RUN": "latest"}.get(w, w) for w in words]
        if named[0] == "watch":  # it would last as long as the run
            continue
        if named[0] in ("pause", "thaw"):
            named += ["--timeout", "30s"]
        call = ended if "--detach" in named else kernelsmith
        code, out, err = call(*named)
        assert code == 0 or (named[:1], code) == (["stop"], 2), (named, err)
        said[" ".join(words)] = out
        if named[0] == "run":
            until(lambda: "judged" in kernelsmith("runs")[1])
    assert "goes on as process" in said["run rms_norm linear --time-limit 8h --detach"]
    assert "asked run" in said["stop RUN"]
    code, out, _ = kernelsmith("watch", "latest")
    assert (code, "finished" in out) == (0, True)
    assert "finished (cpu)" in kernelsmith("summary", "latest")[1]


def test_the_settings_of_the_page_are_settings() -> None:
    table = tomllib.loads(PAGE.split("```toml")[1].split("```")[0])["operations"]
    found = config.operations(table, {})
    assert (found.metrics_port, found.metrics_address) == (9464, "127.0.0.1")
    fields = {name for name in config.Operations.__dataclass_fields__ if name != "secrets"}
    assert set(table) == fields - {"metrics_address", "summary_webhook"}
    assert config.WEBHOOK_VARIABLE in PAGE


def test_the_metrics_of_the_page_are_those_of_a_run(kernelsmith: Any, tmp_path: Path) -> None:
    code, _, _ = kernelsmith("run", "toy", "--max-candidates", "4", "--metrics-to", "run.prom")
    text = (tmp_path / "run.prom").read_text()
    there = set(re.findall(r"^# TYPE (kernelsmith_\w+)", text, re.MULTILINE))
    section = PAGE.split("## Alerts")[1].split("##")[0]
    told = set(re.findall(r"kernelsmith_\w+", section))
    agent = {name for name in told if "_model_" in name}
    assert code == 0
    assert told - agent == there
    assert len(agent) == 4


def test_the_exit_codes_of_the_page_are_those_of_the_program() -> None:
    from kernelsmith import errors
    from kernelsmith.interrupts import EXIT_INTERRUPTED, EXIT_PAUSED

    section = PAGE.split("## Exit codes")[1].split("##")[0]
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    kinds = (errors.InputError, errors.MissingError, errors.InfrastructureError)
    codes = {kind.exit_code for kind in (*kinds, errors.EvidenceError)}
    assert told == {0, *codes, EXIT_PAUSED, EXIT_INTERRUPTED}
    assert signal.SIGKILL + 128 == 137
