"""Process 1 of a container, here an ordinary process over plain folders, with a real template."""

import json
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith import letters
from kernelsmith.model import CompileJob
from kernelsmith.worker import supervisor

from .conftest import start_supervisor

KEY = b"k" * letters.KEY_BYTES
WAIT_S = 60.0


def made(folder: Path) -> list[Path]:
    """The folders that host and supervisor share."""
    found = [folder / name for name in ("spool", "orders", "answers")]
    for path in found:
        path.mkdir()
    return found


class Running:
    """A supervisor, and the host's part of its folders."""

    def __init__(self, folder: Path, role: str = "launcher") -> None:
        self.spool, self.orders, self.answers = folders = made(folder)
        (self.orders / letters.KEY).write_bytes(KEY)
        self.host = letters.hold(self.orders / letters.HOST)
        self.process = start_supervisor(role, folders, folder, stderr=subprocess.PIPE)

    def answer(self, name: str) -> dict[str, object] | None:
        """What is answered under this name, once it is."""
        path = self.answers / f"{name}{letters.ANSWER}"
        until_s = time.monotonic() + WAIT_S
        while not path.exists() and time.monotonic() < until_s:
            time.sleep(0.005)
        text = letters.unseal(KEY, name, path.read_bytes())
        return None if text is None else json.loads(text)

    def order(self, name: str) -> None:
        (self.spool / name).mkdir()
        job = pickle.dumps(CompileJob(ttirs={}, device="cpu"))
        (self.spool / name / "job.pkl").write_bytes(job)
        folder = os.open(self.orders, os.O_RDONLY)
        letters.post(folder, f"{name}{letters.ORDER}", b"")
        os.close(folder)

    def template(self) -> int:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(listed.split()[0])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
        os.close(self.host)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path)
    yield found
    found.close()


def test_orders_become_sealed_answers(running: Running) -> None:
    ready = running.answer(letters.READY)
    assert ready is not None
    assert ready["ready"] is True
    for name in ("0", "1"):
        running.order(name)
        said = running.answer(name)
        assert said is not None
        assert (said["job"], said["exit"], said["timed_out"]) == (name, 0, False)
        assert (running.spool / name / "result.json").exists()
        (running.orders / f"{name}{letters.ORDER}").unlink()
    letter = (running.answers / f"1{letters.ANSWER}").read_bytes()
    assert letters.unseal(KEY, "0", letter) is None


def test_a_template_that_dies_is_told_of_and_ends_the_container(running: Running) -> None:
    running.answer(letters.READY)
    os.kill(running.template(), signal.SIGKILL)
    assert running.process.wait(WAIT_S) == supervisor.EXIT_ENDED
    assert running.answer(letters.ENDED) == {"words": ""}


def test_last_words_say_what_a_template_died_of(tmp_path: Path) -> None:
    running = Running(tmp_path, role="oracle")
    assert running.process.wait(WAIT_S) == supervisor.EXIT_ENDED
    said = running.answer(letters.ENDED)
    running.close()
    assert said is not None
    assert "ValueError: role 'oracle'" in str(said["words"])


def test_a_host_that_is_gone_ends_the_container_and_its_template(running: Running) -> None:
    running.answer(letters.READY)
    template = running.template()
    os.close(running.host)  # as the system does when a process dies, however it dies
    running.host = os.open(running.orders, os.O_RDONLY)
    assert running.process.wait(WAIT_S) == supervisor.EXIT_NO_HOST
    until_s = time.monotonic() + WAIT_S
    while Path(f"/proc/{template}").exists() and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not Path(f"/proc/{template}").exists()


def test_without_a_hosts_lock_nothing_starts(tmp_path: Path) -> None:
    folders = made(tmp_path)
    (tmp_path / "orders" / letters.HOST).touch()
    process = start_supervisor("launcher", folders, tmp_path, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == supervisor.EXIT_NO_HOST
    assert b"the host's lock cannot be seen" in said
