"""Triples of terms that cannot be negative: squares, exponentials, magnitudes.

Nothing cancels there. Instead B at unit i, and s at units j and k, with ulp(B)/4 < s < ulp(B)/2: a
single s beside B is rounded away, two that met before are not. So the sum is one ulp above B
exactly when j and k meet before either meets i.

Whether one ulp of the sum is seen in what the kernel writes (a reciprocal square root, a
logarithm, a rounding to the output's type) depends on B's mantissa. It is found by trying: no model
of what follows is needed, and where no B will do the sum is unreachable.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from kernelsmith.numerics.order.arithmetic import arithmetics, simulate
from kernelsmith.numerics.order.asking import (
    Ask,
    Budget,
    Failure,
    Ints,
    Outcome,
    Revealed,
    Rows,
    Steps,
    Unexplained,
    Unreachable,
    drive,
    placed,
    whole,
)
from kernelsmith.numerics.order.formats import Float64s
from kernelsmith.numerics.order.reveal import checked_units
from kernelsmith.numerics.order.terms import Terms, options_of, ulp_of
from kernelsmith.numerics.order.tree import FLOAT32_BITS, Tree
from kernelsmith.numerics.order.triples import holds, split

ROWS = 64
_FEW = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The inputs that probe a sum of non-negative terms, and how their sums are read.

    Attributes:
        big, small, double, none: inputs.
        still_N: what is read with B at each unit alone, or with one small term beside it.
        moved_N: what is read with B at each unit if two small terms met.
    """

    big: float
    small: float
    double: float
    none: float
    still_N: Float64s
    moved_N: Float64s


@dataclass(frozen=True, slots=True)
class NonnegativeTriples:
    """Triples by rounding: see the module."""

    levels: Levels

    def rows(self, triples_T3: Ints) -> Rows:
        """One row a triple (i, j, k): do j and k meet before either meets i?"""
        numbers = np.array([self.levels.big, self.levels.small, self.levels.small])
        ground = np.full(len(self.levels.still_N), self.levels.none)
        return placed(ground, triples_T3, np.tile(numbers, (len(triples_T3), 1)))

    def decode(self, triples_T3: Ints, sums_T: Float64s) -> Ints:
        """1 for yes, 0 for no, -1 where the sum is neither answer."""
        at = triples_T3[:, 0]
        moved = sums_T == self.levels.moved_N[at]
        return np.where(moved | (sums_T == self.levels.still_N[at]), moved, -1)


def reveal_nonnegative(
    ask: Ask,
    units: int,
    terms: Terms,
    *,
    budget: Budget | None = None,
    expected: Tree | None = None,
    draw: int = 0,
) -> Outcome:
    """The tree in which a kernel sums terms that cannot be negative, in float32.

    Args:
        ask: the kernel: rows of inputs of the terms to whatever is written of their sum.
        units: terms of a row.
        terms: what the kernel makes of inputs.
        budget: how much may be asked.
        expected: a tree to try first, in one round; the search runs only if it does not hold.
        draw: seeds the rows that confirm the tree.

    Returns:
        ``Unreachable`` if no B's last bit is seen in the output. ``Revealed`` says how the sum
        rounds at the size of an ulp of B; sums of equal magnitude are not looked at.

    Raises:
        InputError: no units, or an expected tree of another number of units.
    """
    steps = nonnegative_steps(units, terms, expected=expected, draw=draw)
    return drive(steps, ask, budget or Budget())


def nonnegative_steps(
    units: int, terms: Terms, *, expected: Tree | None = None, draw: int = 0
) -> Steps:
    """What :func:`reveal_nonnegative` does, round by round, for whoever asks many kernels at once.

    Raises:
        InputError: no units, or an expected tree of another number of units.
    """
    checked_units(units, expected)
    return _nonnegative(units, terms, expected, draw)


def _nonnegative(units: int, terms: Terms, expected: Tree | None, draw: int) -> Steps:
    if units == 1:
        return Revealed(tree=Tree(1, (), ()), arithmetic="one term", confirmed=0)
    levels = yield from _levels(units, terms)
    if not isinstance(levels, Levels):
        return levels
    oracle = NonnegativeTriples(levels)
    if expected is not None and (yield from holds(oracle, expected)):
        found: Tree | Failure = Tree(units, expected.nodes, (FLOAT32_BITS,) * len(expected.nodes))
    else:
        found = yield from split(oracle, units)
    if not isinstance(found, Tree):
        return found
    if units > 2 and len(found.nodes) == 1:
        return Unexplained(
            sentence=f"all {units} terms seem to be added at once: one exact sum, a compensated "
            "one or a type wider than float32, which are not told apart here"
        )
    return (yield from _confirm(found, levels, terms, draw))


def _seen(
    units: int, terms: Terms, options_O3: Float64s
) -> Generator[Rows, Float64s, tuple[Float64s | None, bool]]:
    """The first option whose B shows its last bit in the output and does not show a single s.

    Returns:
        The option, or None; and whether a single s was seen beside some B.
    """
    count = len(options_O3)
    none = np.full(count, terms.none)
    beside = np.concatenate([none, options_O3[:, 1], options_O3[:, 2]])
    numbers = np.stack([np.tile(options_O3[:, 0], 3), beside], axis=1)
    ends = np.tile(np.array([0, units - 1]), (3 * count, 1))
    sums = yield placed(np.full(units, terms.none), ends, numbers)
    alone, single, double = sums.reshape(3, count)
    seen = (alone != double) & np.isfinite(alone) & np.isfinite(double)
    steady = np.flatnonzero(seen & (single == alone))
    return (options_O3[steady[0]] if len(steady) else None), bool((single != alone).any())


def _levels(units: int, terms: Terms) -> Generator[Rows, Float64s, Levels | Failure]:
    """Chooses B by trying, first a few, and reads it at every unit."""
    options = options_of(terms)
    chosen: Float64s | None = None
    loose = False
    for part in (options[:_FEW], options[_FEW:]):
        if chosen is None and len(part):
            chosen, loose = yield from _seen(units, terms, part)
    if chosen is None:
        return Unreachable(
            sentence="a term of less than half an ulp changes what is written: the sum is not kept "
            "in float32, or not rounded to nearest"
            if loose
            else f"of {len(options)} sums of {terms.name} none shows its last float32 bit in what "
            "is written: the order cannot be seen through what follows the sum"
        )
    big, small, double = chosen.tolist()
    each = np.arange(units)
    pairs = np.stack([np.tile(each, 2), (np.tile(each, 2) + 1) % units], axis=1)
    numbers = np.array([[big, terms.none]] * units + [[big, double]] * units)
    rows = placed(np.full(units, terms.none), pairs, numbers)
    still, moved = (yield rows).reshape(2, units)
    blind = np.flatnonzero((still == moved) | ~np.isfinite(still) | ~np.isfinite(moved))
    if len(blind):
        row = units + int(blind[0])
        return Unexplained(
            sentence=f"the last bit of B is not seen at unit {int(blind[0])}, though at unit 0: a "
            "sum is cut instead of rounded, or a unit is left out, scaled or summed twice",
            inputs=tuple(rows.dense(row, row + 1)[0].tolist()),
            actual=float(moved[blind[0]]),
        )
    return Levels(
        big=big, small=small, double=double, none=terms.none, still_N=still, moved_N=moved
    )


def _confirm(tree: Tree, levels: Levels, terms: Terms, draw: int) -> Steps:
    """Rows with many small terms: the tree tells how many ulps of B they come to.

    What so many ulps read as is asked of the kernel too, as one term beside B.
    """
    inputs = _crowded(tree, levels, terms, draw)
    sums = yield whole(np.concatenate([inputs, inputs[::-1]]))
    first, second = sums[: len(inputs)], sums[len(inputs) :][::-1]
    if (first != second).any():
        row = int(np.argmax(first != second))
        return Unexplained(
            sentence="the same numbers gave two sums: the order changes as the kernel runs",
            inputs=tuple(inputs[row].tolist()),
            expected=float(first[row]),
            actual=float(second[row]),
        )
    big = float(terms.value(np.array([levels.big]))[0])
    ulp = float(ulp_of(np.array([big]))[0])
    failure: Unexplained | None = None
    for how in arithmetics(tree):
        ulps = np.rint((simulate(tree, terms.value(inputs), how) - big) / ulp)
        one = np.where(ulps > 0, terms.input_for(np.maximum(ulps, 0.5) * ulp), levels.none)
        sayable = np.flatnonzero(np.abs(terms.value(one) / ulp - ulps) < 0.4)
        if not len(sayable):
            continue
        places = np.argmax(inputs[sayable] == levels.big, axis=1)
        pairs = np.stack([places, (places + 1) % tree.units], axis=1)
        numbers = np.stack([np.full(len(sayable), levels.big), one[sayable]], axis=1)
        reads = yield placed(np.full(tree.units, levels.none), pairs, numbers)
        told = first[sayable]
        if (told == reads).all():
            return Revealed(tree=tree, arithmetic=f"float32, {how}", confirmed=len(told))
        row = int(np.argmax(told != reads))
        failure = failure or Unexplained(
            sentence="the tree that the probes show does not give the kernel's sums of many small "
            "terms beside a large one: they are corrected, or the order depends on the data",
            inputs=tuple(inputs[sayable[row]].tolist()),
            expected=float(reads[row]),
            actual=float(told[row]),
        )
    return failure or Unexplained(
        sentence=f"no input of these {terms.name} says what the small terms of any row come to: "
        "the tree could not be confirmed"
    )


def _crowded(tree: Tree, levels: Levels, terms: Terms, draw: int) -> Float64s:
    """Rows with B at one unit and small terms at from 2 to all of the others, [rows, units].

    A term that the kernel computes may differ from the exact one in its last bits; rows whose sum
    in the tree would depend on that are left out.
    """
    random = np.random.default_rng([draw, tree.units])
    inputs = np.full((ROWS, tree.units), levels.none)
    for row in range(ROWS):
        most = max(2, int(tree.units ** random.uniform(0.2, 1)))
        places = random.choice(tree.units, min(most, tree.units), replace=False)
        inputs[row, places] = np.where(
            random.random(len(places)) < 0.8, levels.small, levels.double
        )
        inputs[row, places[0]] = levels.big
    exact = terms.value(inputs)
    near = [
        simulate(tree, np.where(exact < exact.max(), exact * by, exact)) for by in (0.999, 1.001)
    ]
    steady: Float64s = inputs[near[0] == near[1]]
    return steady
