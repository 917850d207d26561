"""Whether a run's machine is given back now: what the threads of a run share about it.

The main thread asks before each judgement (:meth:`Pauses.rest`) and each job
(:meth:`Pauses.admit`), model calls before they go out (:meth:`Pauses.passed`). ``pausing`` closes
and opens.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kernelsmith.active_clock import ActiveClock
from kernelsmith.errors import KernelsmithError

Level = Literal["resident", "freeze", "journal"]
LEVELS: tuple[Level, ...] = ("resident", "freeze", "journal")
"""From what gives back least to what gives back most."""
RESERVED = ("memory",)
"""Levels that a later version may have: all memory frozen to the disk."""
POLL_S = 0.1
ASLEEP_S = 1.0
"""A machine that was suspended for less has not been: two clocks are not read at one moment."""


Note = tuple[str, Mapping[str, Any]]


class Calls(Protocol):
    """What carries calls to a model server. Any thread may ask it."""

    def under_way(self) -> int:
        """How many calls have gone out and are not yet on record with their answer."""

    def cut(self) -> int:
        """Cuts them short; what came of each goes on record. Returns how many it told to end."""


@dataclass(slots=True, eq=False)
class _Turn:
    """A device's turn that can be let go and taken again while its holder waits for a job. Letting
    go takes the lock of the pauses, since two threads may do it; taking may last."""

    enter: Callable[[], AbstractContextManager[None]]
    stack: ExitStack = field(default_factory=ExitStack)
    taken: bool = False
    over: bool = False

    def take(self) -> None:
        if not self.taken:
            self.stack.enter_context(self.enter())
            self.taken = True

    def let_go(self) -> None:
        self.taken = False
        self.stack.close()


def asleep_s() -> float:
    """For how long this machine has been suspended since some moment."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


@dataclass(slots=True, kw_only=True)
class Pauses:
    """A run's pauses. ``clock`` counts the run's active seconds; ``epoch`` how often its workers
    stood still: what a job measured across one counts for nothing. ``asleep_s``: see there."""

    clock: ActiveClock = field(default_factory=ActiveClock)
    epoch: int = 0
    asleep_s: Callable[[], float] = asleep_s
    _asleep_s: float = field(init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _level: Level | None = None
    _failure: KernelsmithError | None = None
    _resting: bool = False
    _turns: list[_Turn] = field(default_factory=list)
    _notes: list[Note] = field(default_factory=list)
    _calls: list[Calls] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._asleep_s = self.asleep_s()

    # ------------------------------------------------------------------------- who is asked to wait

    @property
    def level(self) -> Level | None:
        """Why things wait now; None: nothing does."""
        return self._level

    @property
    def resting(self) -> bool:
        """Whether the loop waits between two judgements."""
        return self._resting

    def rest(self) -> None:
        """Between two judgements: waits while the run is paused.

        Raises:
            KernelsmithError: after a pause the workers are not what they were.
        """
        with self._changed:
            self._resting = True
            try:
                while self._level is not None:
                    self._changed.wait()
            finally:
                self._resting = False
            self._raise_failure()

    def admit(self) -> int:
        """Before a job: waits while workers stand still, and until they have shown after it that
        they are what they were. Returns the epoch that the job begins in.

        Raises:
            KernelsmithError: they are not.
        """
        with self._changed:
            while self._level == "freeze":
                self._changed.wait()
            self._raise_failure()
            self._note_sleep()
            return self.epoch

    def overlapped(self, epoch: int) -> bool:
        """Whether workers stood still since that epoch began, or the whole machine did."""
        with self._changed:
            self._note_sleep()
            return self.epoch != epoch

    def note(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Something for the record, written by whoever keeps the pauses."""
        with self._changed:
            self._notes.append((kind, payload))

    def take_notes(self) -> list[Note]:
        """What was noted since this was last asked."""
        with self._changed:
            taken, self._notes = self._notes, []
            return taken

    async def passed(self) -> None:
        """A model call waits here while the run is paused."""
        while self._level is not None:
            await asyncio.sleep(POLL_S)

    async def sleep(self, seconds: float) -> None:
        """Sleeps so many active seconds."""
        until_s = self.clock() + seconds
        while (left_s := until_s - self.clock()) > 0:
            await asyncio.sleep(min(left_s, 10 * POLL_S))

    @contextmanager
    def turn(self, enter: Callable[[], AbstractContextManager[None]]) -> Iterator[bool]:
        """Holds a device's turn, which is let go while workers stand still, so that other runs of
        the machine get theirs. False: they stood still while this waited for its turn; ask again.
        """
        held = _Turn(enter)
        held.take()
        try:
            with self._changed:
                if self._level != "freeze":
                    self._turns.append(held)
            yield held in self._turns
        finally:
            with self._changed:
                held.over = True
                if held in self._turns:
                    self._turns.remove(held)
                held.let_go()

    # ------------------------------------------------------------------------ who closes and opens

    def close(self, level: Level) -> None:
        """From now on things wait. A deeper level may follow, and the one before it where that
        fails. At level freeze workers are about to stand still: whatever jobs under way measure
        counts for nothing."""
        with self._changed:
            if level == "freeze" and self._level != "freeze":
                self.epoch += 1
            self._level = level

    def let_turns_go(self) -> None:
        """Once workers stand still: other runs of the machine may use its devices."""
        with self._changed:
            for held in self._turns:
                held.let_go()

    def jobs_under_way(self) -> int:
        """How many jobs workers were given that have not answered yet."""
        return len(self._turns)

    def join(self, calls: Calls) -> None:
        """From now on these calls are among those that a pause waits for."""
        self._calls.append(calls)

    def calls_under_way(self) -> int:
        """See :class:`Calls`."""
        return sum(calls.under_way() for calls in self._calls)

    def cut_calls(self) -> int:
        """See :class:`Calls`."""
        return sum(calls.cut() for calls in self._calls)

    def take_turns(self) -> None:
        """Takes again what was let go, for the jobs that are about to go on."""
        with self._changed:
            turns = list(self._turns)
        for held in turns:
            held.take()
            with self._changed:
                if held.over:  # it was interrupted meanwhile
                    held.let_go()

    def skip(self, seconds: float) -> None:
        """The whole process stood still for so long, or the machine did."""
        with self._changed:
            self.epoch += 1
        self.clock.skip(seconds)

    def open(self) -> None:
        """Things go on."""
        with self._changed:
            self._level = None
            self._changed.notify_all()

    def fail(self, error: KernelsmithError) -> None:
        """Things go on no more: whoever waits, and whoever asks from now on, gets this."""
        with self._changed:
            self._failure = error
            self._level = None
            self._changed.notify_all()

    def _note_sleep(self) -> None:
        """A suspended machine is noticed with each job: the keeper's next look may come too late
        for one that ends just after it."""
        asleep_s = self.asleep_s()
        if asleep_s - self._asleep_s > ASLEEP_S:
            self._asleep_s = asleep_s
            self.epoch += 1

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
