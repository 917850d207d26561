"""Ctrl-C and SIGTERM end a run between two records, never inside one."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Interrupts:
    """Whether the user asked us to end. Judging may be cut short at once (its candidate is on
    record and is judged again after ``resume``); everything else finishes first."""

    requested: bool = False
    open: bool = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside, a signal raises KeyboardInterrupt; so does one that came before."""
        if self.requested:
            raise KeyboardInterrupt
        self.open = True
        try:
            yield
        finally:
            self.open = False

    def on_signal(self, signum: int, _frame: FrameType | None) -> None:
        """The first signal asks; a second one no longer waits for a record."""
        again = self.requested
        self.requested = True
        if self.open or (again and signum == signal.SIGINT):
            self.open = False
            raise KeyboardInterrupt


@contextmanager
def listening() -> Iterator[Interrupts]:
    """Handles the signals while the block runs; main thread only. What is ignored already stays
    ignored: that is how ``nohup`` asks."""
    interrupts = Interrupts()
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupts.on_signal) for number in heard}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
