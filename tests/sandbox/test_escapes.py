"""Ways out of every sandbox (``escapes/*.toml``), each a real job in a real worker: none gets out
but those that are named as open, and those do. ``benchmarks/night/escapes.py`` makes the table."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelsmith.model import Job
from kernelsmith.sandbox.client import SpoolReply, SpoolWorker
from kernelsmith.sandbox.pool import Leased

from .conftest import Walls
from .escapes_try import KINDS, OPEN, SANDBOXES, Escape, Host, attempt, host, load, role_of

ESCAPES = load()
# The other kinds take half a second a job: a new process, a GPU's compiler imported.
QUICK = ("trace", "compile", "run")


def every() -> list[tuple[str, Escape, str]]:
    return [(name, one, kind) for name in SANDBOXES for one in ESCAPES for kind in one.kinds]


def sample() -> list[tuple[str, Escape, str]]:
    """Of each way that is no matter of seconds one kind of job in each sandbox, taking turns."""
    found = []
    for number, one in enumerate(ESCAPES):
        kinds = [kind for kind in one.kinds if kind in QUICK]
        for turn, name in enumerate(SANDBOXES):
            if kinds and not one.slow:
                found.append((name, one, kinds[(number + turn) % len(kinds)]))
    return found


def ids(cases: list[tuple[str, Escape, str]]) -> list[str]:
    return [f"{name}-{kind}-{one.name}" for name, one, kind in cases]


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("host")) as found:
        yield found


def check(walls: Walls, around: Host, name: str, escape: Escape, kind: str) -> None:
    outcome = attempt(walls.worker(name, role_of(kind)), escape, kind, around)
    why = escape.why_open(name, kind)
    assert (outcome.state == OPEN) == bool(why), f"{outcome.how} | {outcome.reported}"


@pytest.mark.parametrize(("name", "escape", "kind"), sample(), ids=ids(sample()))
def test_a_way_out_is_stopped_or_named_as_open(walls, around, name, escape, kind):
    check(walls, around, name, escape, kind)


LEFT = [case for case in every() if case not in sample()]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "escape", "kind"), LEFT, ids=ids(LEFT))
def test_every_way_in_every_kind_of_job(walls, around, name, escape, kind):
    check(walls, around, name, escape, kind)


def test_the_suite_is_what_it_says():
    assert len({one.name for one in ESCAPES}) == len(ESCAPES) >= 75
    assert all(set(one.kinds) <= set(KINDS) for one in ESCAPES)
    allowed = {*SANDBOXES, *KINDS}
    assert all({*words.split()} <= allowed for one in ESCAPES for words in one.open)


def way(code: str, **more: object) -> Escape:
    return Escape(group="own", name="own", code=code, **more)


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("each(one=lambda: read('/proc/self/stat'))", "one: "),
        ("pass", "went through"),
        ("import os; each(stops=lambda: os.kill(os.getpid(), 0))", "stops: "),
    ],
)
def test_a_way_that_works_is_seen(walls, around, kind, code, how):
    outcome = attempt(walls.worker("process", role_of(kind)), way(code), kind, around)
    assert (outcome.state, outcome.how[: len(how)]) == (OPEN, how)


@dataclass(frozen=True)
class Meddled:
    """A worker whose jobs write a file of the host's."""

    leased: Leased
    path: Path

    @property
    def worker(self) -> SpoolWorker:
        return self.leased.worker

    def submit(self, job: Job) -> SpoolReply:
        self.path.write_text("changed")
        return self.leased.submit(job)


def test_what_is_done_to_the_host_is_seen_whatever_the_job_says(walls, around):
    canary = around.canaries.process.pid
    worker = Meddled(walls.worker("process"), around.canaries.folder / "victim")
    outcome = attempt(worker, way("raise Refused('EPERM')"), "trace", around)
    assert (outcome.state, outcome.how) == (OPEN, "a file was changed")
    os.kill(canary, signal.SIGKILL)
    os.waitpid(canary, 0)
    assert "a process was killed" in around.touched("")
    around.canaries.set_out()


def test_what_a_job_leaves_in_the_spool_is_seen(walls, around):
    leased = walls.worker("process")
    worker = Meddled(leased, leased.worker.folder / "left")
    outcome = attempt(worker, way("raise Refused('EPERM')"), "trace", around)
    assert (outcome.state, outcome.how) == (OPEN, "the spool still has ['left']")
