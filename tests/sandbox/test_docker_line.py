"""The host's line to a container, with a real supervisor as an ordinary process and an engine that
only knows how to end it."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from docker.errors import APIError

from kernelsmith import letters
from kernelsmith.active_clock import ActiveClock, Countdown
from kernelsmith.errors import SandboxError, WorkerDeathError
from kernelsmith.model import CompileJob, CompileResult
from kernelsmith.sandbox.client import SpoolWorker
from kernelsmith.sandbox.docker import Docker
from kernelsmith.sandbox.docker_engine import Engine
from kernelsmith.sandbox.docker_image import KIND_LABEL, of_labels
from kernelsmith.sandbox.docker_line import Letters, open_letterbox
from kernelsmith.sandbox.pool import Pool
from kernelsmith.sandbox.spool import Spool, open_spool

from .conftest import start_supervisor

NOTHING = CompileJob(ttirs={}, device="cpu")


class Processes:
    """An engine's client whose containers are supervisors that run as processes of this machine."""

    def __init__(self) -> None:
        self.api = self
        self.found: dict[str, subprocess.Popen[bytes]] = {}

    def unpause(self, container: str) -> None:
        self.found[container].send_signal(signal.SIGCONT)

    def remove_container(self, container: str, *, force: bool, v: bool) -> None:
        self.found[container].kill()
        self.found[container].wait()

    def inspect_container(self, container: str) -> dict[str, dict[str, bool]]:
        return {"State": {"Running": self.found[container].poll() is None}}

    def start(self, spool: Spool, role: str, folder: Path) -> Letters:
        name = f"{role}-{len(self.found)}"
        box = open_letterbox(spool, name, None)
        folders = (folder, box.orders_path, box.answers_path)
        self.found[name] = start_supervisor(role, folders, spool.path)
        begun: Future[str] = Future()
        begun.set_result(name)
        engine = Engine(client=self, facts={}, cores=1)
        return Letters(engine=engine, box=box, begun=begun)


@pytest.fixture
def spool() -> Iterator[Spool]:
    found = open_spool()
    yield found
    found.close()


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def worker(spool: Spool, processes: Processes) -> Iterator[SpoolWorker]:
    folder = spool.folder("launcher")
    found = SpoolWorker(
        role="launcher", folder=folder, start=lambda: processes.start(spool, "launcher", folder)
    )
    yield found
    found.close()


def line_of(worker: SpoolWorker) -> Letters:
    assert isinstance(worker.line, Letters)
    return worker.line


def test_jobs_are_answered_and_leave_nothing_in_the_folders(
    worker: SpoolWorker, spool: Spool
) -> None:
    for _ in range(3):
        reply = worker.submit(NOTHING)
        assert reply.result == CompileResult(objects={})
        reply.close()
    box = line_of(worker).box
    assert os.listdir(box.orders_path) == [letters.HOST]
    assert sorted(os.listdir(box.answers_path)) == [letters.ALIVE, "template.log"]
    assert os.listdir(worker.folder) == []
    worker.close()
    assert not [path.name for path in spool.path.iterdir() if path.is_dir()]


def test_a_container_that_is_killed_between_jobs_is_started_anew(
    worker: SpoolWorker, processes: Processes
) -> None:
    worker.submit(NOTHING).close()
    processes.remove_container("launcher-0", force=True, v=True)
    reply = worker.submit(NOTHING)
    assert reply.result == CompileResult(objects={})
    reply.close()
    assert list(processes.found) == ["launcher-0", "launcher-1"]


def test_a_container_that_is_killed_at_a_job_is_noticed_and_the_next_job_gets_another(
    worker: SpoolWorker, processes: Processes
) -> None:
    worker.submit(NOTHING).close()
    orders = line_of(worker).box.orders_path
    # Stopped, it holds its lock and takes no order: it is certain to die with the job under way.
    processes.found["launcher-0"].send_signal(signal.SIGSTOP)

    def kill() -> None:
        while not (orders / f"1{letters.ORDER}").exists():
            time.sleep(0.005)
        processes.found["launcher-0"].kill()

    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    with pytest.raises(WorkerDeathError, match="died or hung at job 1"):
        worker.submit(NOTHING)
    killing.join()
    reply = worker.submit(NOTHING)
    assert reply.result == CompileResult(objects={})
    reply.close()
    assert list(processes.found) == ["launcher-0", "launcher-1"]


def test_a_template_that_cannot_start_says_why(spool: Spool, processes: Processes) -> None:
    folder = spool.folder("oracle")
    worker = SpoolWorker(
        role="oracle", folder=folder, start=lambda: processes.start(spool, "oracle", folder)
    )
    with pytest.raises(SandboxError, match="died at start: ValueError: role 'oracle'"):
        worker.submit(NOTHING)
    worker.close()


@pytest.fixture
def ready(spool: Spool) -> Iterator[Letters]:
    """A line whose supervisor, of which only the letters and the lock are here, has said that its
    template is ready and was given job 1."""
    box = open_letterbox(spool, "launcher-0", None)
    begun: Future[str] = Future()
    begun.set_result("launcher-0")
    line = Letters(engine=Engine(client=None, facts={}, cores=1), box=box, begun=begun)
    alive = letters.hold(box.answers_path / letters.ALIVE)
    text = letters.seal(box.key, letters.READY, b"{}")
    letters.post(box.answers, f"{letters.READY}{letters.ANSWER}", text)
    assert line.receive(Countdown(left_s=60.0)) == b"{}"
    line.send("1")
    yield line
    os.close(alive)
    os.close(line.alive)
    box.close()


@pytest.mark.parametrize(
    ("key", "name"), [(b"x" * letters.KEY_BYTES, "1"), (None, "0"), (None, "ready")]
)
def test_an_answer_that_a_job_forged_or_kept_is_no_answer(
    ready: Letters, key: bytes | None, name: str
) -> None:
    forged = letters.seal(key or ready.box.key, name, b'{"job": "1", "exit": 0}')
    letters.post(ready.box.answers, f"1{letters.ANSWER}", forged)
    assert ready.receive(Countdown(left_s=60.0)) is None
    assert "not written by its supervisor" in ready.last_words()


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "second name"])
def test_what_is_no_file_in_an_answers_place_is_no_answer(ready: Letters, what: str) -> None:
    path = ready.box.answers_path / f"1{letters.ANSWER}"
    if what == "link":
        path.symlink_to("/etc/passwd")
    elif what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        text = letters.seal(ready.box.key, "1", b"{}")
        letters.post(ready.box.answers, "another", text)
        os.link(ready.box.answers_path / "another", path)
    assert ready.receive(Countdown(left_s=60.0)) is None
    assert "in the spool" in ready.last_words()


def test_the_key_is_gone_before_the_first_job(ready: Letters) -> None:
    assert not (ready.box.orders_path / letters.KEY).exists()


def test_time_that_stands_still_is_not_waited_out(ready: Letters) -> None:
    """A frozen container does not answer, and while the clock stands its host goes on waiting."""
    clock = ActiveClock()
    clock.stop()
    left = Countdown(left_s=1.0, clock=clock)
    for _ in range(2):
        ready.box.arrivals.wait(left.slice_s())
    assert left.left_s == 1.0
    clock.go()
    assert ready.receive(Countdown(left_s=0.01)) is None


class Refusing:
    """An engine's client that freezes nothing, in its own words."""

    def __init__(self, words: str) -> None:
        self.api, self.words = self, words

    def pause(self, container: str) -> None:
        self.unpause(container)

    def unpause(self, container: str) -> None:
        raise APIError("409 Client Error", explanation=self.words)


@pytest.mark.parametrize(
    "words", ["Container abc is already paused", "Container abc is not running"]
)
def test_a_container_that_stands_still_already_may_be_frozen(ready: Letters, words: str) -> None:
    ready.engine = Engine(client=Refusing(words), facts={}, cores=1)
    ready.pause()


def test_a_container_that_cannot_be_frozen_is_an_error_and_time_goes_on(
    ready: Letters, spool: Spool
) -> None:
    ready.engine = Engine(client=Refusing("cgroups: device busy"), facts={}, cores=1)
    image = of_labels("mine", "sha256:abc", {KIND_LABEL: "mounted"})
    worker = SpoolWorker(role="launcher", folder=spool.path, start=lambda: ready, line=ready)
    pool = Pool(spool=spool, workers={"launcher": worker})
    sandbox = Docker(engine=ready.engine, image=image, pool=pool, limits={}, inside={})
    with pytest.raises(SandboxError, match="cannot pause a container: cgroups: device busy"):
        sandbox.pause()
    assert pool.clock.go() == 0.0  # it does not stand
    pool.starter.shutdown()
