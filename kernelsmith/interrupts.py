"""Signals end a run between two records, never inside one: Ctrl-C interrupts it, SIGTERM pauses it.

Both cut a judgement short and leave everything else to finish. They differ in what is recorded and
in the exit code: a scheduler that takes the machine away (systemd, Slurm, a preempted instance)
wants to know that the run is to be gone on with.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

EXIT_INTERRUPTED = 130
EXIT_PAUSED = 75  # EX_TEMPFAIL of sysexits: nothing is wrong, try again
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Interrupts:
    """Whether the user asked us to end. Judging may be cut short at once (its candidate is on
    record and is judged again after ``resume``); everything else finishes first. ``reason``: why
    it is a pause; "" if it is none. ``listens``: signals are heard."""

    requested: bool = False
    open: bool = False
    reason: str = ""
    listens: bool = False

    @property
    def exit_code(self) -> int:
        """What a command that was ended so returns."""
        return EXIT_PAUSED if self.reason else EXIT_INTERRUPTED

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

    def pause(self, reason: str) -> None:
        """Ends the run as SIGTERM does. Any thread."""
        if not self.requested:
            self.reason = reason
        self.requested = True
        if self.listens:  # whatever the main thread waits for
            os.kill(os.getpid(), signal.SIGTERM)

    def on_signal(self, signum: int, _frame: FrameType | None) -> None:
        """The first signal asks; a second one no longer waits for a record."""
        again = self.requested
        if signum == signal.SIGTERM and not again:
            self.reason = "SIGTERM"
        self.requested = True
        if self.open or (again and signum == signal.SIGINT):
            self.open = False
            raise KeyboardInterrupt


@contextmanager
def listening() -> Iterator[Interrupts]:
    """Hears the signals while the block runs; main thread only. What is ignored already stays
    ignored: that is how ``nohup`` asks."""
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    interrupts = Interrupts(listens=signal.SIGTERM in heard)
    before = {number: signal.signal(number, interrupts.on_signal) for number in heard}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
