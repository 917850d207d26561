"""The edge of the program: what nobody foresaw, streams that fail, files that are none."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.cli.main import main
from kernelsmith.errors import InputError
from kernelsmith.wiring import MAX_SOURCE_BYTES, read_source
from tests.cli.asking import Kernelsmith, one_error_line
from tests.loop.fake_wiring import fake_wiring

PROGRAM = [sys.executable, str(Path(__file__).parents[1] / "loop" / "fake_wiring.py")]


def broken(*_: Any) -> Any:
    raise ZeroDivisionError("of a\nsurprise")


@pytest.mark.parametrize("traceback", [False, True])
def test_what_nobody_foresaw_is_one_line_and_not_a_rejection(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, traceback: bool
) -> None:
    monkeypatch.setenv("KERNELSMITH_TRACEBACK", "1" if traceback else "")
    assert main(["tasks"], replace(fake_wiring(), list_tasks=broken)) == 4
    err = capsys.readouterr().err
    assert "error: unforeseen ZeroDivisionError: of a surprise\n" in err
    assert ("in broken" in err) == traceback
    if not traceback:
        assert "report it" in err.splitlines()[-1]
        one_error_line(err)


@pytest.mark.parametrize("words", [["--help"], ["tasks"]])
def test_a_full_disk_behind_stdout_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 4
    assert "No space left" in one_error_line(done.stderr)


def test_a_closed_stdout_is_one_line() -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, "tasks"]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "stdout is closed" in one_error_line(done.stderr)) == (4, True)


def test_a_terminal_without_our_signs_gets_question_marks() -> None:
    done = subprocess.run(
        [*PROGRAM, "doctor"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "? device" in done.stdout) == (0, True)


def test_ctrl_c_in_gate_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("# mine\n")
    process = subprocess.Popen(
        [*PROGRAM, "gate", "mine.py", "--task", "toy"],
        cwd=tmp_path,
        env={**os.environ, "KS_SLEEP_S": "30", "KS_MARK": str(tmp_path / "judging")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "judging").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "error: interrupted\n")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(InputError, match=r"not a regular file|Is a directory"):
            read_source(path)
    large = tmp_path / "large.py"
    large.write_bytes(b"#" * (MAX_SOURCE_BYTES + 1))
    with pytest.raises(InputError, match=f"at most {MAX_SOURCE_BYTES} bytes"):
        read_source(large)
    large.write_bytes(b"#" * MAX_SOURCE_BYTES)
    assert len(read_source(large)) == MAX_SOURCE_BYTES


@pytest.mark.parametrize("option", ["proposer", "device", "sandbox", "time-limit"])
def test_an_empty_option_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "rms_norm", f"--{option}", "", "--db", "/nowhere/runs.db"]) == 2
    assert "''" in one_error_line(capsys.readouterr().err)


def test_a_seed_that_the_database_cannot_hold_is_refused(kernelsmith: Kernelsmith) -> None:
    assert kernelsmith("run", "toy", "--seed", str(2**63))[0] == 2


def test_doctor_refuses_a_device_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--device", "foo"]) == 2
    assert "no device 'foo'" in one_error_line(capsys.readouterr().err)


def test_doctor_tells_of_the_other_walls(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    wall = {"name": "docker", "available": False, "detail": "not built"}
    assert main(["doctor"], replace(fake_wiring(), walls=lambda: [wall])) == 0
    assert "; docker: not built" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--json"], ["--tasks", "."]])
def test_options_before_the_word_are_refused_not_forgotten(
    kernelsmith: Kernelsmith, options: list[str]
) -> None:
    code, _, err = kernelsmith("tasks", *options, "list")
    assert (code, "stand behind list" in one_error_line(err)) == (2, True)


@pytest.mark.parametrize("head", ["", "ab", "zz" * 16])
def test_verify_refuses_a_head_that_would_fit_by_chance(
    kernelsmith: Kernelsmith, head: str
) -> None:
    kernelsmith("run", "toy", "--max-candidates", "1")
    code, _, err = kernelsmith("lineage", "verify", "--head", head)
    assert (code, "is not a head" in one_error_line(err)) == (2, True)
