"""A real run of the search behind bubblewrap, paused at every level, killed while it is frozen: it
accepts what a run that nobody touched accepts. The gate decides by bits alone (``bits_wiring``)."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelsmith.errors import MissingError
from kernelsmith.interrupts import EXIT_PAUSED
from kernelsmith.sandbox import freezing
from kernelsmith.sandbox.choose import choose
from tests.loop.test_kills import on_record
from tests.pause.test_commands import events

PROGRAM = [sys.executable, str(Path(__file__).with_name("bits_wiring.py"))]
RUN = ["run", "rms_norm", "--sandbox", "bubblewrap", "--seed", "5", "--max-candidates", "8"]
RUN += ["--time-limit", "1h"]


def done(folder: Path, *words: str) -> str:
    found = subprocess.run([*PROGRAM, *words], cwd=folder, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


@contextmanager
def judging(
    folder: Path, words: list[str], verdicts_before: int
) -> Iterator["subprocess.Popen[str]"]:
    """A run in the middle of a judgement, so many verdicts after it began."""
    process = subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said: list[str] = []
    try:
        while sum("judging: " in line for line in said) <= verdicts_before:
            said.append(process.stderr.readline())
            assert said[-1], f"the run ended too early: {''.join(said)}"
        yield process
    finally:
        process.kill()
        process.communicate()


def living(known: list[freezing.Seen]) -> set[tuple[int, int]]:
    """Those of some processes that have not ended; one that nobody reaped has."""
    now = {(each.pid, each.ticks) for each in freezing.everything() if each.state not in "ZX"}
    return now & {(each.pid, each.ticks) for each in known}


@pytest.mark.slow
def test_a_real_run_paused_again_and_again_accepts_what_one_left_alone_accepts(
    tmp_path: Path,
) -> None:
    try:
        choose("bubblewrap", trusted_origin=True).close()
    except MissingError as error:
        pytest.skip(f"bubblewrap: {error.message}")
    alone, paused = tmp_path / "alone", tmp_path / "paused"
    alone.mkdir()
    paused.mkdir()
    done(alone, *RUN)
    with judging(paused, RUN, 1) as process:
        assert "is paused (freeze)" in done(paused, "pause", "latest")
        assert "every worker answers with the bits on record" in done(paused, "thaw", "latest")
        done(paused, "pause", "latest", "--level", "resident")
        assert "every worker answers with the bits on record" in done(paused, "thaw", "latest")
        done(paused, "pause", "latest")
        process.kill()
        process.wait()
    with judging(paused, ["resume", "latest"], 1) as process:
        children = [each for each in freezing.family([process.pid]) if each.pid != process.pid]
        assert len(children) >= 9
        done(paused, "pause", "latest", "--level", "journal")
        assert process.wait() == EXIT_PAUSED
    until_s = time.monotonic() + 20.0  # a wall dies with its host, and then what is behind it
    while left := living(children):
        assert time.monotonic() < until_s, left
        time.sleep(0.1)
    done(paused, "resume", "latest")
    found = on_record(paused)
    assert found == on_record(alone)
    assert len(found) == 8
    assert "ACCEPTED" in dict(found).values()
    levels = [each["level"] for each in events(paused, "paused")]
    assert levels == ["freeze", "resident", "freeze", "journal"]
    assert all(
        each["recheck"]["rms_norm"]["workers"] == ["frontend", "seed", "launcher"]
        for each in events(paused, "thawed")
    )
