"""Time that counts: what a pause, a suspended machine or a jumping clock takes does not.

Two ways to count it. Whoever pauses something stops its :class:`ActiveClock`. Whoever may itself be
stopped, or waits for what may be, counts slices (:class:`Countdown`): a slice that took much longer
than it was asked to take counts as what it was asked to take.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SLICE_S = 0.25
# A machine under load wakes a waiter late by some milliseconds; what is later than this was not
# load but a stop.
SLACK_S = 0.5


@dataclass(slots=True, kw_only=True)
class ActiveClock:
    """Seconds of a base clock, without those between :meth:`stop` and :meth:`go`.

    Call it for the time. It begins with the base clock's, so that times taken from either before
    the first stop may be compared. Any thread may call it.
    """

    base: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lost_s: float = 0.0
    _stopped_s: float | None = None

    def __call__(self) -> float:
        with self._lock:
            return self._now_s()

    @property
    def stands(self) -> bool:
        """Whether it was stopped."""
        return self._stopped_s is not None

    def stop(self) -> None:
        """Stands still from now on. Stopping twice is harmless."""
        with self._lock:
            if self._stopped_s is None:
                self._stopped_s = self.base()

    def go(self) -> float:
        """Goes on. Returns for how many seconds it stood; 0 if it did not."""
        with self._lock:
            if self._stopped_s is None:
                return 0.0
            stood_s = self.base() - self._stopped_s
            self._lost_s += stood_s
            self._stopped_s = None
            return stood_s

    def skip(self, seconds: float) -> None:
        """Leaves out so many seconds that have passed while nobody could stop it."""
        with self._lock:
            self._lost_s += seconds

    def _now_s(self) -> float:
        now_s = self.base() if self._stopped_s is None else self._stopped_s
        return now_s - self._lost_s


@dataclass(slots=True, kw_only=True)
class Countdown:
    """A time limit in active seconds.

    Ask :meth:`slice_s` how long to wait next, wait no longer, ask again::

        while slice_s := left.slice_s():
            if ready(slice_s): return
        raise TooLate
    """

    left_s: float
    clock: Callable[[], float] = time.monotonic
    _last_s: float | None = None

    def slice_s(self) -> float:
        """Counts what has passed since it was last asked; gives the length of the next wait, 0.0
        when the time is up. The first call counts nothing."""
        now_s = self.clock()
        took_s = 0.0 if self._last_s is None else max(0.0, now_s - self._last_s)
        self._last_s = now_s
        self.left_s -= took_s if took_s <= SLICE_S + SLACK_S else SLICE_S
        return max(0.0, min(SLICE_S, self.left_s))
