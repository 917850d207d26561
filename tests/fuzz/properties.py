"""What a fuzzed property is, and a guard against one that hangs."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

HANG_S = 60.0
"""An example takes milliseconds; this is no measure of speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """``holds`` raises on an example that breaks it; ``examples``: how many ``make test`` draws."""

    name: str
    examples: int
    drawn: SearchStrategy[Any]
    holds: Callable[[Any], None]

    def check(self, example: Any) -> None:
        """Runs one example.

        Raises:
            TimeoutError: it hangs.
        """
        with no_hang():
            self.holds(example)


@contextmanager
def no_hang() -> Iterator[None]:
    """Raises TimeoutError in the block after :data:`HANG_S`."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"an example ran for {HANG_S:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def tried(one: Property, examples: int, *, order: int | None = None) -> int:
    """Draws examples and checks each; returns how many were checked.

    Args:
        order: seeds the draw; None: always the same examples.
    """
    count = 0

    def body(example: Any) -> None:
        nonlocal count
        count += 1
        one.check(example)

    test = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=order is None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )(given(one.drawn)(body))
    (test if order is None else seed(order)(test))()
    return count
