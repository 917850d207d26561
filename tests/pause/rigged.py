"""A run whose pauses are kept, on fakes: a record in memory, workers that are told what to do."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.errors import EvidenceError, KernelsmithError, SandboxError, StorageError
from kernelsmith.interrupts import Interrupts
from kernelsmith.pauses import Pauses
from kernelsmith.pausing import Keeper
from tests.operations.processes import until


@dataclass(frozen=True)
class Word:
    kind: str
    payload: Mapping[str, Any]
    step: int


@dataclass
class Book:
    """A record in memory. ``full``: so many entries are refused."""

    words: list[Word] = field(default_factory=lambda: [Word("started", {}, 0)])
    full: int = 0

    def latest(self) -> Word:
        return next(each for each in reversed(self.words) if not each.kind.startswith("job"))

    def append(self, kind: str, payload: Mapping[str, Any]) -> None:
        if self.full:
            self.full -= 1
            raise StorageError("cannot write database runs.db: disk full")
        self.words.append(Word(kind, payload, len(self.words)))

    def ask(self, kind: str, **payload: Any) -> None:
        self.words.append(Word(kind, payload, len(self.words)))

    def close(self) -> None:
        return None


@dataclass
class Sandbox:
    """``stubborn``: its processes do not stop."""

    said: list[str] = field(default_factory=list)
    stubborn: bool = False

    def pause(self) -> None:
        self.said.append("pause")
        if self.stubborn:
            raise SandboxError("processes 1, 2 of the sandbox do not stop")

    def resume(self) -> None:
        self.said.append("resume")


@dataclass
class Judge:
    """``other``: its workers come back as others."""

    other: bool = False

    def recheck(self, nonce: str) -> dict[str, Any]:
        if self.other:
            raise EvidenceError("after a pause the workers of task toy are not what they were")
        return {"case": "m16", "workers": ["seed"], "started_anew": ""}


@dataclass
class Calls:
    running: int = 0

    def under_way(self) -> int:
        return self.running

    def cut(self) -> int:
        gone, self.running = self.running, 0
        return gone


@dataclass
class Broken:
    def under_way(self) -> int:
        return 1 // 0

    def cut(self) -> int:
        return 0


@dataclass
class Rig:
    book: Book = field(default_factory=Book)
    pauses: Pauses = field(default_factory=Pauses)
    sandbox: Sandbox = field(default_factory=Sandbox)
    judge: Judge = field(default_factory=Judge)
    interrupts: Interrupts = field(default_factory=Interrupts)
    said: list[str] = field(default_factory=list)
    uptime_s: list[float] = field(default_factory=lambda: [0.0])

    @contextmanager
    def keeping(self) -> Iterator[None]:
        keeper = Keeper(
            open_book=lambda: self.book,
            pauses=self.pauses,
            sandbox=self.sandbox,  # type: ignore[arg-type]
            judges={"toy": self.judge},  # type: ignore[dict-item]
            interrupts=self.interrupts,
            elapsed_s=lambda: 7.0,
            say=self.said.append,
            look_s=0.01,
            uptime=lambda: time.monotonic() + self.uptime_s[0],
        )
        with keeper.keeping():
            yield

    def until(self, kind: str) -> Word:
        return until(lambda: next((each for each in self.book.words if each.kind == kind), None))

    def ask_pause(self, level: str, grace_s: float = 60.0) -> None:
        self.book.ask("pause_requested", level=level, grace_s=grace_s)


@contextmanager
def resting(rig: Rig) -> Iterator[list[KernelsmithError]]:
    """A loop that rests whenever it is asked to; what it got instead of going on."""
    got: list[KernelsmithError] = []
    over = threading.Event()

    def loop() -> None:
        while not over.wait(0.002):
            try:
                rig.pauses.rest()
            except KernelsmithError as error:
                got.append(error)
                return

    thread = threading.Thread(target=loop)
    thread.start()
    yield got
    over.set()
    rig.pauses.open()
    thread.join()
