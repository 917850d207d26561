"""``--detach``: when it returns the run is on record, and goes on without its caller."""

import json
import os
import signal
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.asking import one_error_line
from tests.operations.processes import LONG, SHORT, until


def state(folder: Path) -> str:
    database = sqlite3.connect(f"file:{folder / 'runs.db'}?mode=ro", uri=True)
    kinds = "('started', 'resumed', 'finished', 'interrupted', 'failed', 'paused')"
    query = f"SELECT kind FROM events WHERE kind IN {kinds} ORDER BY step DESC"
    try:
        return str(database.execute(query).fetchone()[0])
    finally:
        database.close()


def test_a_detached_run_is_on_record_and_in_a_session_of_its_own(
    ended, kernelsmith, tmp_path: Path
) -> None:
    code, out, err = ended("run", "toy", "--detach", "--json", *LONG)
    told = json.loads(out)
    assert (code, told["schema"]) == (0, "kernelsmith.detached/1")
    pid, output = told["pid"], Path(told["output"])
    try:
        assert os.getsid(pid) == pid
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        assert fields[4] == "0", "it has a controlling terminal"
        assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
        assert f"run {told['run']} is on record" in err
        assert output == tmp_path / f"kernelsmith-{told['run']}.out"
        until(lambda: "judging" in output.read_text())
        code, out, _ = kernelsmith("runs", "--json")
        assert [run["id"] for run in json.loads(out)["runs"]] == [told["run"]]
        assert kernelsmith("stop", "latest", "--wait")[0] == 0
        until(lambda: "next:" in output.read_text())
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_finished_run_is_resumed_in_the_background(ended, kernelsmith, tmp_path: Path) -> None:
    assert kernelsmith("run", "toy", *SHORT)[0] == 0
    more = ("--max-candidates", "3", "--detach", "--output", "more.out")
    code, out, _ = ended("resume", "latest", *more)
    assert code == 0
    assert "goes on as process" in out
    until(lambda: state(tmp_path) == "finished")
    until(lambda: "next:" in (tmp_path / "more.out").read_text())


@pytest.mark.parametrize(
    ("words", "environment", "code", "says"),
    [
        (("run", "nothing"), {}, 2, "no task named 'nothing'"),
        (("run", "toy", "--db", "nowhere/x.db"), {}, 2, "no folder"),
        (("run", "toy"), {"KS_PROOF": "fail"}, 5, "skip_work was accepted"),
    ],
)
def test_a_start_that_fails_tells_its_caller_as_without_detach(
    ended, kernelsmith, tmp_path: Path, monkeypatch, words, environment, code: int, says: str
) -> None:
    found = ended(*words, "--detach", **environment)
    assert (found[0], found[1]) == (code, "")
    assert says in one_error_line(found[2])
    assert not list(tmp_path.glob("*.out")), "an output that nobody needs was left"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert found[2] == kernelsmith(*words)[2]


def starting(start, tmp_path: Path, prove_s: str):
    """What was called with ``--detach``, and the processes that it has started so far."""
    process = start("run", "toy", "--detach", *LONG, KS_PROVE_S=prove_s)
    until(lambda: [*tmp_path.glob(".kernelsmith-starting-*.out")])
    return process, until(lambda: children(process.pid))


def test_a_start_that_is_killed_is_said_to_be(start, tmp_path: Path) -> None:
    process, begun = starting(start, tmp_path, "30")
    for each in begun:
        os.kill(each, signal.SIGKILL)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "killed by signal 9" in one_error_line(err)) == (4, True)


def test_ctrl_c_while_it_starts_ends_what_was_started(start, tmp_path: Path) -> None:
    process, begun = starting(start, tmp_path, "2")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the command was ended" in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in begun)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def test_output_without_detach_is_refused(kernelsmith) -> None:
    code, _, err = kernelsmith("run", "toy", "--output", "x.out")
    assert (code, "--detach" in err) == (2, True)
