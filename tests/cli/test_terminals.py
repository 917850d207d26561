"""Whole processes: start-up, signals, a stop from another terminal, a pipe that closes."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "loop" / "fake_wiring.py")]


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
