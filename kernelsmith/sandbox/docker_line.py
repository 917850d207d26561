"""A template in a container, spoken to by letters in folders that both sides see."""

import contextlib
import json
import os
import secrets
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelsmith import letters
from kernelsmith.active_clock import Countdown
from kernelsmith.errors import SandboxError
from kernelsmith.letters import Arrivals
from kernelsmith.sandbox.docker_engine import Engine, asking, remove
from kernelsmith.sandbox.removal import remove_tree
from kernelsmith.sandbox.spool import Spool, read_file, write_file

# Until a template is ready it is the engine that knows whether its container lives.
ASK_ENGINE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Letterbox:
    """The host's end of a container's folders of orders and answers, and the lock that says that
    the host lives."""

    orders_path: Path
    answers_path: Path
    key: bytes
    orders: int
    answers: int
    lock: int
    arrivals: Arrivals

    @property
    def lock_path(self) -> Path:
        return self.orders_path / letters.HOST

    def read(self, name: str) -> bytes | None:
        """The text of a letter; None if there is none.

        Raises:
            SandboxError: what lies there was not written by the supervisor.
        """
        file = f"{name}{letters.ANSWER}"
        try:
            letter = read_file(self.answers, file, max_bytes=letters.MAX_LETTER_BYTES)
        except FileNotFoundError:
            return None
        text = letters.unseal(self.key, name, letter)
        if text is None:
            raise SandboxError("an answer in the spool was not written by its supervisor")
        return text

    def order(self, name: str) -> None:
        letters.post(self.orders, name, b"")

    def forget(self, name: str) -> None:
        """Takes away an order and its answer."""
        for folder, file in ((self.answers, letters.ANSWER), (self.orders, letters.ORDER)):
            with contextlib.suppress(OSError):
                os.unlink(f"{name}{file}", dir_fd=folder)

    def close(self) -> None:
        self.arrivals.close()
        for descriptor in (self.orders, self.answers, self.lock):
            os.close(descriptor)
        for path in (self.orders_path, self.answers_path):
            remove_tree(path)


def open_letterbox(spool: Spool, name: str, owner: int | None) -> Letterbox:
    """Makes the folders; ``owner`` is the user in the container, where that is not this one.

    Raises:
        StorageError: the disk will not have them.
    """
    orders, answers = spool.folder(f"{name}-orders", owner), spool.folder(f"{name}-answers", owner)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    at, key = os.open(orders, flags), secrets.token_bytes(letters.KEY_BYTES)
    for file, data in ((letters.KEY, key), (letters.HOST, b"")):
        write_file(at, file, data, owner=owner)
    return Letterbox(
        orders_path=orders,
        answers_path=answers,
        key=key,
        orders=at,
        answers=os.open(answers, flags),
        lock=letters.hold(orders / letters.HOST),
        arrivals=letters.arrivals(answers),
    )


@dataclass(slots=True, kw_only=True)
class Letters:
    """A :class:`kernelsmith.sandbox.client.Line` to a container. ``begun`` gives its id once it
    runs."""

    engine: Engine
    box: Letterbox
    begun: "Future[str]"
    asked: str = letters.READY
    words: str = ""
    alive: int = -1
    engine_asked_s: float = field(default_factory=time.monotonic)

    def send(self, name: str) -> None:
        self.asked = name
        self.box.order(f"{name}{letters.ORDER}")

    def receive(self, left: Countdown) -> bytes | None:
        told = False
        try:
            while slice_s := left.slice_s():
                lives = self._lives()
                text = self.box.read(self.asked)
                if text is not None:
                    self.box.arrivals.found(told)
                    self._taken()
                    return text
                if not lives:
                    self._read_last_words()
                    return None
                told = self.box.arrivals.wait(slice_s)
        except SandboxError as error:
            self.words = error.message
        return None

    def ended(self) -> bool:
        return self.alive >= 0 and not letters.is_held(self.alive)

    def last_words(self) -> str:
        return self.words

    def end(self) -> None:
        try:
            with contextlib.suppress(SandboxError):
                remove(self.engine, self.begun.result())
        finally:
            if self.alive >= 0:
                os.close(self.alive)
                self.alive = -1
            self.box.close()

    def pause(self) -> None:
        """Freezes all of the container; harmless if it is frozen, or has ended.

        Raises:
            SandboxError: the engine cannot do it.
        """
        self._change("pause")

    def resume(self) -> None:
        """Lets it go on; harmless if it is not frozen.

        Raises:
            SandboxError: the engine cannot do it.
        """
        self._change("unpause")

    def root(self) -> int:
        """Its first process, as the host numbers it; 0 if it has ended.

        Raises:
            SandboxError: the engine does not say.
        """
        return int(self._state().get("Pid", 0))

    def _change(self, how: str) -> None:
        import docker

        container = self.begun.result()
        with asking(f"{how} a container"):
            try:
                getattr(self.engine.client.api, how)(container)
            except docker.errors.APIError as error:
                if not _is_so_already(error):
                    raise

    def _taken(self) -> None:
        if self.asked == letters.READY:
            # Before any job: what stands there now is the supervisor's.
            with contextlib.suppress(OSError):
                os.unlink(letters.KEY, dir_fd=self.box.orders)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self.alive = os.open(letters.ALIVE, flags, dir_fd=self.box.answers)
        self.box.forget(self.asked)

    def _lives(self) -> bool:
        if self.alive >= 0:
            return letters.is_held(self.alive)
        self.begun.result()  # raises why it could not start
        if time.monotonic() - self.engine_asked_s < ASK_ENGINE_S:
            return True
        self.engine_asked_s = time.monotonic()
        return bool(self._state().get("Running"))

    def _state(self) -> dict[str, Any]:
        """What the engine says of the container; nothing if that is gone.

        Raises:
            SandboxError: the engine does not say.
        """
        import docker

        container = self.begun.result()
        with asking("look at a container"):
            try:
                state: dict[str, Any] = self.engine.client.api.inspect_container(container)["State"]
            except docker.errors.NotFound:
                return {}
        return state

    def _read_last_words(self) -> None:
        text = self.box.read(letters.ENDED)
        if text is not None:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                self.words = str(json.loads(text)["words"])


def begin(
    engine: Engine, box: Letterbox, arguments: dict[str, Any], starter: ThreadPoolExecutor
) -> Letters:
    """Creates a container and starts it, in a thread of the sandbox's."""
    return Letters(engine=engine, box=box, begun=starter.submit(_started, engine, arguments))


def _started(engine: Engine, arguments: dict[str, Any]) -> str:
    with asking("start a container"):
        container = engine.client.containers.create(**arguments)
        try:
            container.start()
        except BaseException:
            with contextlib.suppress(SandboxError):
                remove(engine, container.id)
            raise
    return str(container.id)


def _is_so_already(error: Any) -> bool:
    """Whether there is nothing to change: a container that has ended stands still as well."""
    said = str(error.explanation).lower()
    words = ("already paused", "not paused", "not running", "no such container")
    return any(each in said for each in words)
