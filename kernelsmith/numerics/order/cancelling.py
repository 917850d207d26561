"""M and -M among ones: what is lost between them tells how large the sum is in which they meet.

M at unit i, -M at unit j and ones elsewhere: ones that join M or -M before these cancel are lost,
so what is left is the number of ones outside the sum in which i and j meet.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from kernelsmith.numerics.order.asking import Failure, Ints, Rows, Unexplained, placed, together
from kernelsmith.numerics.order.formats import Float64s, Reading
from kernelsmith.numerics.order.tree import FLOAT32_BITS

EXPONENTS_SEEN = 53
"""How far M is above the ones, where the format allows: a float64 sum loses them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The two numbers that probing signed sums takes.

    Attributes:
        big: M, a power of two.
        one: the one, a power of two.
        counts: what is read of 0, 1, 2, ... ones, as far as every count reads differently.
    """

    big: float
    one: float
    counts: Float64s

    @property
    def most(self) -> int:
        """The most ones that one row may hold."""
        return len(self.counts) - 1

    def count(self, sums_Q: Float64s) -> Ints:
        """How many ones are left in each sum, -1 where it is no count."""
        order = np.argsort(self.counts)
        place = np.searchsorted(self.counts, sums_Q, sorter=order).clip(0, self.most)
        found = order[place]
        return np.where(self.counts[found] == sums_Q, found, -1)


def scales(units: int, reading: Reading) -> list[Scale]:
    """Pairs of M and one that can tell counts of up to ``units`` apart, the best first.

    All ones together are lost beside M in a float32 sum, beside the first ones in a float64 sum
    too. The last pair suits an accumulator as narrow as float16, where the others overflow; a
    wider one would not lose its ones.
    """
    unit = reading.unit
    room = int(units).bit_length() + 1
    top = min(unit.top, 126)
    pairs = [
        (top, one)
        for far in (EXPONENTS_SEEN, FLOAT32_BITS)
        for one in (0, unit.normal, unit.bottom)
        if top - one >= far + room
    ]
    if pairs and top >= 15 and unit.bottom <= -10 and room <= 14:
        pairs.append((15, -10))
    found = []
    for big, one in dict.fromkeys(pairs):
        counts = _readable(units, 2.0**one, reading)
        if len(counts) > 1:
            found.append(Scale(big=2.0**big, one=2.0**one, counts=counts))
    return found


def _readable(units: int, one: float, reading: Reading) -> Float64s:
    """What 0, 1, 2, ... ones read as, up to the first that reads as an earlier one or as none."""
    seen = reading.read(np.arange(units + 1, dtype=np.float64) * np.float64(one))
    values: set[float] = set()
    for index, value in enumerate(seen.tolist()):
        if value in values or value != value or abs(value) == np.inf:
            return seen[:index]
        values.add(value)
    return seen


@dataclass(frozen=True, slots=True)
class SignedTriples:
    """Triples by cancellation: one at i is lost unless j (M) and k (-M) cancel before it comes."""

    units: int
    scale: Scale

    def rows(self, triples_T3: Ints) -> Rows:
        """One row a triple (i, j, k): do j and k meet before either meets i?"""
        numbers = np.array([self.scale.one, self.scale.big, -self.scale.big])
        return placed(np.zeros(self.units), triples_T3, np.tile(numbers, (len(triples_T3), 1)))

    def decode(self, triples_T3: Ints, sums_T: Float64s) -> Ints:
        """1 for yes, 0 for no, -1 where the sum is neither answer."""
        del triples_T3
        # Where sums are cut, -M + 1 is not -M, and a lost one leaves a step of M behind.
        return np.where(np.isnan(sums_T), -1, sums_T == self.scale.counts[1])


Counts = Generator[Rows, Float64s, list[Ints] | Failure]


def counted(units: int, scale: Scale, sets: list[tuple[list[int], Ints]]) -> Counts:
    """For several sets of ones, how many of them are under the sum where each pair meets.

    Args:
        units: of the whole sum.
        scale: M and one.
        sets: the units that hold ones, and pairs [P, 2] to hold M and -M.

    Returns:
        Of each set: the counts [P], units of the pair included if they are in the set.
    """
    parts: list[Rows] = []
    for ones, pairs in sets:
        numbers = np.tile(np.array([scale.big, -scale.big]), (len(pairs), 1))
        for start in range(0, len(ones), scale.most):
            ground = np.zeros(units)
            ground[ones[start : start + scale.most]] = scale.one
            parts.append(placed(ground, pairs, numbers))
    rows = together(parts)
    sums = yield rows
    left = scale.count(sums)
    if (left < 0).any():
        row = int(np.argmax(left < 0))
        value = float(sums[row])
        return Unexplained(
            sentence=f"M and -M among ones gave {value:g} x 2**{int(np.log2(scale.one))} "
            "where only a count of ones can be left: the sum is not made of additions that each "
            "round once"
            if np.isfinite(value)
            else f"M and -M among ones gave {value}: the sum overflows",
            inputs=tuple(rows.dense(row, row + 1)[0].tolist()),
            actual=value,
        )
    found: list[Ints] = []
    start = 0
    for ones, pairs in sets:
        pieces = -(-len(ones) // scale.most)
        outside = left[start : start + pieces * len(pairs)].reshape(pieces, -1).sum(axis=0)
        start += pieces * len(pairs)
        found.append(len(ones) - outside)
    return found
