"""Sums of very many float64 terms that lose nothing that matters, and are the same by pieces."""

import math

from kernelsmith.onpolicy.storage import Floats


class Sum:
    """A running sum with the compensation of Neumaier (ZAMM 54, 1974): the error does not grow
    with the number of terms."""

    __slots__ = ("_lost", "_total")

    def __init__(self) -> None:
        self._total = self._lost = 0.0

    def add(self, terms: Floats) -> None:
        """Adds terms; a piece is summed exactly and rounded once."""
        self.add_one(math.fsum(terms) if len(terms) < 64 else float(terms.sum()))

    def add_one(self, term: float) -> None:
        """Adds one term."""
        total = self._total + term
        if not math.isfinite(total):  # nothing is lost on the way to ∞
            self._total, self._lost = total, 0.0
            return
        if abs(self._total) >= abs(term):
            self._lost += (self._total - total) + term
        else:
            self._lost += (term - total) + self._total
        self._total = total

    @property
    def value(self) -> float:
        """The sum so far."""
        return self._total + self._lost
