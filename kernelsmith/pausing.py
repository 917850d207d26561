"""Gives a running run's machine back and takes it again, when its record says that someone asked.

A thread of its own looks for that, so that a pause bites in the middle of a judgement. What it
does is on record: ``paused`` with level and what is still held, ``thawed`` with what the workers
answered. A word that was asked and not answered is met again at the next look, so that a full disk
delays a pause and loses none.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kernelsmith.errors import (
    EvidenceError,
    InfrastructureError,
    KernelsmithError,
    SandboxError,
)
from kernelsmith.interrupts import Interrupts
from kernelsmith.pauses import LEVELS, POLL_S, Level, Note, Pauses
from kernelsmith.ports import Judge, Rechecked, Rooted, Sandbox
from kernelsmith.sandbox import freezing

_LOG = logging.getLogger(__name__)
LOOK_S = 0.5
SUSPENDED_S = 5.0
"""A look that comes later than this was kept from coming: the host's process or the machine stood
still."""
END_S = 10.0
REASON = "asked by `kernelsmith pause`"


class Word(Protocol):
    """See ``lineage.pauses.PauseWord``."""

    @property
    def kind(self) -> str: ...
    @property
    def payload(self) -> Mapping[str, Any]: ...
    @property
    def step(self) -> int: ...


class Book(Protocol):
    """See ``lineage.pauses.PauseBook``."""

    def latest(self) -> Word: ...
    def append(self, kind: str, payload: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Keeper:
    """Keeps one run's pauses. ``open_book`` is called in the keeper's own thread; ``elapsed_s``
    are the run's active seconds; ``say`` is told in a line what happens; ``uptime`` goes on while
    the machine is suspended. ``_paused``: the level that is on record as reached."""

    open_book: Callable[[], Book]
    pauses: Pauses
    sandbox: Sandbox
    judges: Mapping[str, Judge]
    interrupts: Interrupts
    elapsed_s: Callable[[], float]
    say: Callable[[str], None]
    look_s: float = LOOK_S
    uptime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    _ended: threading.Event = field(default_factory=threading.Event)
    _paused: Level | None = None
    _paused_at_s: float = 0.0
    _noted: list[Note] = field(default_factory=list)
    _told: str = ""

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Looks after the pauses while the block runs."""
        thread = threading.Thread(target=self._keep, name="pauses", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(END_S)

    def _keep(self) -> None:
        book: Book | None = None
        while not self._waited(self.look_s):
            try:
                book = book or self.open_book()
                self._write_notes(book)
                self._look(book)
                self._told = ""
            except KernelsmithError as error:  # the next look tries again
                if self._told != error.message:
                    self._told = error.message
                    self.say(f"pauses: {error.message}")
            except Exception as error:  # a fault of ours: nobody may wait for this thread for ever
                _LOG.exception("pauses cannot be kept")
                self._break_off(book, error)
                break
        if book is not None:
            book.close()

    def _break_off(self, book: Book | None, error: Exception) -> None:
        """Where nothing waits, the run goes on and cannot be paused any more; else it ends."""
        failure = InfrastructureError(
            f"pauses cannot be kept: {type(error).__name__}: {error}",
            hint="this is a fault of kernelsmith: report it with what --log has",
        )
        waits = self.pauses.level is not None
        with suppress(Exception):
            if waits:
                self.sandbox.resume()
        with suppress(Exception):
            if book is not None:
                kind = "thaw_failed" if waits else "pause_failed"
                self._answer(book, kind, error=failure.message)
        self.pauses.clock.go()
        self.say(failure.message)
        if waits:
            self.pauses.fail(failure)

    def _waited(self, seconds: float) -> bool:
        """Waits so long, or until the run ends; whether it did."""
        before_s, uptime_s = time.monotonic(), self.uptime()
        ended = self._ended.wait(seconds)
        stood_s = self.uptime() - uptime_s - seconds
        if not ended and stood_s > SUSPENDED_S and not self.pauses.clock.stands:
            # Its clock has not seen what a suspended machine slept.
            self.pauses.skip(max(0.0, time.monotonic() - before_s - seconds))
            self.pauses.note("suspended", {"seconds": round(stood_s, 3)})
        return ended

    def _write_notes(self, book: Book) -> None:
        self._noted += self.pauses.take_notes()
        while self._noted:  # what cannot be written now stays for the next look
            kind, payload = self._noted[0]
            self._answer(book, kind, **payload)
            del self._noted[0]

    def _look(self, book: Book) -> None:
        if self.interrupts.requested:
            self._let_end()
            return
        word = book.latest()
        if word.kind == "pause_requested":
            self._pause(book, word)
        elif word.kind == "thaw_requested" and self.pauses.level is not None:
            self._thaw(book)
        elif self.pauses.level == "freeze":
            self.sandbox.pause()  # whatever was started while the others were being stopped

    def _let_end(self) -> None:
        """The main thread heard the signal, wherever it waits; but it may wait for another thread
        of the gate, whose job stands still: that gets its end too."""
        if self.pauses.level is not None:
            self.sandbox.resume()
            self.pauses.fail(InfrastructureError("the run was ended while it was paused"))

    # ---------------------------------------------------------------------------------------- pause

    def _pause(self, book: Book, word: Word) -> None:
        level: Level | None = next((each for each in LEVELS if each == word.payload["level"]), None)
        began_s = time.monotonic()
        if level is None:
            self._refuse(book, f"no level {word.payload['level']!r}")
            return
        if self._paused is not None and LEVELS.index(level) <= LEVELS.index(self._paused):
            # Two asked at the same time: each saw a run that was going on.
            self._refuse(book, "it was paused already")
            return
        if level == "journal":
            self.interrupts.pause(REASON)  # the main thread records it on its way out
            return
        self.pauses.close(level)
        if level == "freeze" and not self._froze(book):
            return
        calls = self._drained(book, word, level)
        if calls is None:
            return
        self.pauses.clock.stop()
        now_s = time.monotonic()
        held = _held(self.sandbox)
        self._answer(
            book,
            "paused",
            level=level,
            reason=REASON,
            seconds=round(now_s - began_s, 3),
            held=held,
            calls=calls,
            epoch=self.pauses.epoch,
        )
        if self._paused is None:
            self._paused_at_s = now_s
        self._paused = level
        self.say(f"paused ({level}): {held_words(held)} still held")

    def _froze(self, book: Book) -> bool:
        """Stops the workers; False: they do not stop, and the run is as it was before."""
        self.pauses.clock.stop()
        try:
            self.sandbox.pause()
        except SandboxError as error:
            if self._paused is None:
                self.pauses.clock.go()
            self._refuse(book, error.message)
            if self._paused is None:
                self.pauses.open()
            else:
                self.pauses.close(self._paused)
            return False
        self.pauses.let_turns_go()
        return True

    def _drained(self, book: Book, word: Word, level: Level) -> dict[str, int] | None:
        """Waits until no model call is under way, and cuts those that take too long; at level
        resident also until the loop waits between two judgements. None: withdrawn, or ended."""
        until_s = time.monotonic() + float(word.payload["grace_s"])
        look_s = time.monotonic() + self.look_s
        under_way, cut = self.pauses.calls_under_way(), 0
        while self.pauses.calls_under_way() or (level == "resident" and not self.pauses.resting):
            if self._waited(POLL_S) or self.interrupts.requested:
                return None
            now_s = time.monotonic()
            if now_s >= until_s:
                cut += self.pauses.cut_calls()
            if now_s >= look_s:
                look_s = now_s + self.look_s
                if book.latest().step != word.step:
                    self._thaw(book)
                    return None
        return {"under_way": under_way, "cut": cut}

    # ----------------------------------------------------------------------------------------- thaw

    def _thaw(self, book: Book) -> None:
        level = self.pauses.level
        if level == "freeze":
            self.pauses.take_turns()
            self.sandbox.resume()
            # Those that stood still in the middle of a job are asked, not others in their stead.
            while self.pauses.jobs_under_way():
                if self._waited(POLL_S) or self.interrupts.requested:
                    return
        paused_s = 0.0 if self._paused is None else time.monotonic() - self._paused_at_s
        nonce = secrets.token_hex(8)
        checked: dict[str, Any] = {}
        try:
            # Taken back before it was paused: nothing stood still, and something may be timed now.
            nothing_stood = level == "resident" and not self.pauses.clock.stands
            for name, judge in () if nothing_stood else self.judges.items():
                if isinstance(judge, Rechecked):
                    checked[name] = judge.recheck(nonce)
        except EvidenceError as error:
            self._answer(book, "thaw_failed", level=level, nonce=nonce, error=error.message)
            self.pauses.fail(error)
            return
        self.pauses.clock.go()
        self._answer(
            book,
            "thawed",
            level=level,
            seconds=round(paused_s, 3),
            nonce=nonce,
            recheck=checked,
        )
        self._paused = None
        self.pauses.open()
        self.say(f"thawed after {paused_s:.0f} s: {checked_words(checked)}")

    def _refuse(self, book: Book, error: str) -> None:
        """Says that a pause failed, and where that leaves the run: paused at a level, or going."""
        self._answer(book, "pause_failed", paused=self._paused, error=error)

    def _answer(self, book: Book, kind: str, **facts: Any) -> None:
        book.append(kind, {**facts, "elapsed_s": self.elapsed_s()})


def _held(sandbox: Sandbox) -> dict[str, Any]:
    """What a paused run still holds: its own processes and those of its workers."""
    roots = [os.getpid(), *(sandbox.roots() if isinstance(sandbox, Rooted) else ())]
    pids = {each.pid for each in freezing.family(roots)}
    return {"processes": len(pids), "memory_bytes": freezing.held_bytes(pids)}


def held_words(held: Mapping[str, Any]) -> str:
    """What is held, for people."""
    return f"{held['memory_bytes'] / 2**20:,.0f} MiB of memory in {held['processes']} processes"


def checked_words(checked: Mapping[str, Any]) -> str:
    """What the workers answered after a pause, for people."""
    anew = [name for name, found in checked.items() if found["started_anew"]]
    words = "every worker answers with the bits on record" if checked else "no worker was asked"
    return f"{words}, after it was started anew ({', '.join(anew)})" if anew else words
