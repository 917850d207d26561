"""``pause`` and ``thaw`` of a run in a process of its own, on fakes: quick and deterministic."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.cli.main import main
from kernelsmith.interrupts import EXIT_PAUSED
from kernelsmith.lineage import database
from kernelsmith.lineage.store import open_store
from tests.loop import fakes
from tests.loop.fake_wiring import fake_wiring
from tests.loop.test_kills import on_record

PROGRAM = [sys.executable, str(Path(fakes.__file__).with_name("fake_wiring.py"))]
CANDIDATES = 20
RUN = ("run", "toy", "--seed", "3", "--max-candidates", str(CANDIDATES), "--time-limit", "1h")
PATIENCE_S = 60.0
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Say:
    """Says one command in this process; gives code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KERNELSMITH_DB", raising=False)

    def said(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words), wiring=fake_wiring())
        out, err = capsys.readouterr()
        return code, out, err

    return said


@contextmanager
def going(folder: Path, *words: str, sleep_s: float = 0.1) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own, past its first verdict."""
    process = subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "KS_SLEEP_S": str(sleep_s)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        while "  toy  " not in (line := process.stderr.readline()):
            assert line, "the run ended before its first verdict"
        yield process
    finally:
        process.kill()
        process.communicate()


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    opened = database.open_for_reading(folder / "runs.db")
    with opened.reading() as connection:
        rows = connection.exec_driver_sql(
            "SELECT payload FROM events WHERE kind = ? ORDER BY step", (kind,)
        ).all()
    opened.close()
    return [json.loads(row[0]) for row in rows]


def state(say: Say) -> str:
    return str(json.loads(say("runs", "--json")[1])["runs"][0]["state"])


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """The verdicts of a run that nobody paused."""
    folder = tmp_path_factory.mktemp("alone")
    assert main([*RUN, "--db", str(folder / "runs.db")], wiring=fake_wiring()) == 0
    return on_record(folder)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, err


def test_a_run_paused_and_thawed_at_both_levels_ends_like_one_left_alone(
    say: Say, tmp_path: Path, left_alone: list[tuple[str, str]]
) -> None:
    with going(tmp_path, *RUN) as process:
        for level in ("freeze", "resident"):
            code, out, err = say("pause", "latest", "--level", level)
            assert (code, err) == (0, "")
            assert f"is paused ({level})" in out
            assert "MiB of memory in" in out
            count = len(on_record(tmp_path))
            assert state(say) == "paused"
            time.sleep(0.2)
            assert len(on_record(tmp_path)) <= count + (level == "freeze")  # what had no worker
            code, out, err = say("thaw", "latest")
            assert (code, err) == (0, "")
            assert "goes on after" in out
        assert ended(process)[0] == 0
    assert on_record(tmp_path) == left_alone
    assert [each["level"] for each in events(tmp_path, "paused")] == ["freeze", "resident"]
    thawed = events(tmp_path, "thawed")
    assert [each["level"] for each in thawed] == ["freeze", "resident"]
    assert all(each["seconds"] > 0 for each in thawed)
    finished = json.loads(say("runs", "--json")[1])["runs"][0]
    assert finished["state"] == "finished"


@pytest.mark.slow
def test_a_paused_run_goes_deeper_and_ends_at_the_record(
    say: Say, tmp_path: Path, left_alone: list[tuple[str, str]]
) -> None:
    with going(tmp_path, *RUN) as process:
        assert say("pause", "latest", "--level", "resident")[0] == 0
        assert say("pause", "latest", "--level", "freeze")[0] == 0
        code, out, _ = say("pause", "latest", "--level", "journal")
        assert code == 0
        assert "nothing is held" in out
        code, err = ended(process)
        assert code == EXIT_PAUSED
        assert "paused; all verdicts are on record. To go on: kernelsmith resume" in err
    assert state(say) == "paused"
    assert len(on_record(tmp_path)) < CANDIDATES
    assert say("resume", "latest")[0] == 0
    assert on_record(tmp_path) == left_alone


def test_sigterm_is_a_pause_at_the_record(
    say: Say, tmp_path: Path, left_alone: list[tuple[str, str]]
) -> None:
    with going(tmp_path, *RUN, sleep_s=30.0) as process:  # in the middle of a judgement
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == EXIT_PAUSED
    assert state(say) == "paused"
    (paused,) = events(tmp_path, "paused")
    assert (paused["level"], paused["reason"]) == ("journal", "SIGTERM")
    assert say("resume", "latest")[0] == 0
    assert on_record(tmp_path) == left_alone


@pytest.mark.slow
def test_a_run_killed_while_it_is_paused_is_interrupted_and_resumes(
    say: Say, tmp_path: Path, left_alone: list[tuple[str, str]]
) -> None:
    with going(tmp_path, *RUN) as process:
        assert say("pause", "latest")[0] == 0
        code, _, err = say("resume", "latest")
        assert code == 2
        assert "is paused (process" in err
        assert "kernelsmith thaw" in err
        process.kill()
        process.wait()
    assert state(say) == "interrupted"
    code, _, err = say("thaw", "latest")
    assert code == 2
    assert "interrupted, not running" in err
    assert say("resume", "latest")[0] == 0
    assert on_record(tmp_path) == left_alone


@pytest.mark.slow
def test_ctrl_c_ends_a_paused_run(say: Say, tmp_path: Path) -> None:
    with going(tmp_path, *RUN) as process:
        assert say("pause", "latest", "--level", "resident")[0] == 0
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 130
    assert state(say) == "interrupted"


def test_what_cannot_be_is_said_in_a_line(say: Say, tmp_path: Path) -> None:
    with going(tmp_path, *RUN, sleep_s=5.0) as process:
        for words, told in (
            (("thaw", "latest"), "is not paused"),
            (("pause", "latest", "--level", "memory"), "level memory is reserved"),
            (("pause", "latest", "--level", "coma"), "there is no level 'coma'"),
            (("pause", "latest", "--grace", "soon"), "soon"),
            (("pause", "nothing"), "nothing"),
        ):
            code, _, err = say(*words)
            assert (code, err.count("error: ")) == (2, 1), err
            assert told in err
            assert err.splitlines()[-1].startswith("hint: ")
        assert say("pause", "latest")[0] == 0
        for level in ("freeze", "resident"):
            code, _, err = say("pause", "latest", "--level", level)
            assert code == 2
            assert "is paused already (freeze)" in err
        assert say("thaw", "latest")[0] == 0
        process.kill()
        process.wait()
    code, _, err = say("pause", "latest")
    assert code == 2
    assert "is interrupted, not running" in err
    assert "kernelsmith resume" in err


def test_a_run_of_another_machine_is_out_of_reach(say: Say, tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    process = {"host": "elsewhere", "boot": "", "namespace": "", "pid": 1, "started_ticks": 1}
    store.append("", "run", fakes.run_payload([fakes.make_task()], process=process))
    store.close()
    for command in ("pause", "thaw"):
        code, _, err = say(command, "latest")
        assert code == 2
        assert "is driven on elsewhere, out of reach from here" in err
