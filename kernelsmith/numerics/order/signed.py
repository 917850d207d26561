"""Counting under ±M: how large the sum is in which two units meet (FPRev, arXiv 2411.00442).

M at unit i, -M at unit j and ones elsewhere: ones that join M or -M before these cancel are lost,
so the sum is the number of ones outside the sum in which i and j meet. The basic search asks this
of all pairs at once. The refined one asks it of one unit against the others, which tells the whole
way from that unit to the root and which units hang from it where; then of the units that hang
together, and so on: n - 1 queries for a chain, about n log2(n) / 2 for a balanced tree.
"""

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from kernelsmith.numerics.order.asking import Failure, Ints, Rows, Unexplained, placed, together
from kernelsmith.numerics.order.formats import Float64s, Reading
from kernelsmith.numerics.order.tree import Tree, joined
from kernelsmith.numerics.order.triples import TreeSteps

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

    The last one suits an accumulator as narrow as float16, where the others overflow.
    """
    unit = reading.unit
    room = int(units).bit_length() + 1
    top = min(unit.top, 126)
    found = []
    for far, big in ((EXPONENTS_SEEN, top), (24, top), (11, 15)):
        for one in (0, unit.normal, unit.bottom):
            low = -10 if (far, one) == (11, 0) else one
            if big <= top and low >= unit.bottom and big - low >= far + room:
                counts = _readable(units, 2.0**low, reading)
                if len(counts) > 1:
                    found.append(Scale(big=2.0**big, one=2.0**low, counts=counts))
    return list({(scale.big, scale.one): scale for scale in found}.values())


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


def _counted(units: int, scale: Scale, sets: list[tuple[list[int], Ints]]) -> Counts:
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
            reason=f"M and -M among ones gave {value:g} x 2**{int(np.log2(scale.one))} "
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


def basic(units: int, scale: Scale) -> TreeSteps:
    """The tree from all pairs, in one round."""
    pairs = np.stack(np.triu_indices(units, 1), axis=1)
    found = yield from _counted(units, scale, [(list(range(units)), pairs)])
    if not isinstance(found, list):
        return found
    size = np.ones((units, units), dtype=np.int64)
    size[pairs[:, 0], pairs[:, 1]] = size[pairs[:, 1], pairs[:, 0]] = found[0]
    # Every sum once, from its least unit; smaller sums first.
    sums = sorted(
        (level, unit)
        for unit in range(units)
        for level in np.unique(size[unit]).tolist()
        if level > 1 and int(np.argmax(size[unit] <= level)) == unit
    )
    under = list(range(units))
    names: dict[int, tuple[int, ...]] = {}
    predicted = np.ones_like(size)
    for level, unit in sums:
        members = np.flatnonzero(size[unit] <= level)
        children = tuple(dict.fromkeys(under[member] for member in members))
        if len(members) != level or len(children) < 2:
            return _no_tree(unit, level, len(members))
        inside = np.ix_(members, members)
        predicted[inside] = np.where(predicted[inside] == 1, level, predicted[inside])
        name = -1 - len(names)
        names[name] = children
        for member in members:
            under[member] = name
    np.fill_diagonal(predicted, 1)
    if (predicted != size).any() or len(set(under)) != 1:
        unit, other = (
            np.argwhere(predicted != size)[0].tolist() if (predicted != size).any() else (0, 0)
        )
        return _no_tree(unit, int(predicted[unit, other]), int(size[unit, other]))
    return joined(under[0], names)


@dataclass(slots=True)
class _Open:
    """Units that hang from one place of the tree, and are not known among themselves.

    They are under one child of a sum, or under several children of a fused one: then their own
    sum is the one that also holds ``witness``, a unit known to be beside them.
    """

    units: list[int]
    witness: int | None
    spread: float
    children: list[tuple[str, int]] = field(default_factory=list)


def refined(units: int, scale: Scale) -> TreeSteps:
    """The tree by one unit's way to the root at a time, all open parts in each round."""
    parts = [_Open(list(range(units)), None, 0.0)]
    names: dict[int, list[tuple[str, int]]] = {}
    random = np.random.default_rng(units)
    live = [0]
    while live:
        pivots = {index: _pivot(parts[index], random) for index in live}
        sets: list[tuple[list[int], Ints]] = []
        for index, pivot in pivots.items():
            part = parts[index]
            others = [unit for unit in part.units if unit != pivot]
            ones = part.units if part.witness is None else [*part.units, part.witness]
            pairs = np.array([(pivot, unit) for unit in others], dtype=np.int64).reshape(-1, 2)
            sets.append((ones, pairs))
        if any(len(pairs) for _, pairs in sets):
            found = yield from _counted(units, scale, sets)
            if not isinstance(found, list):
                return found
        else:
            found = [np.zeros(0, dtype=np.int64) for _ in sets]
        added: list[int] = []
        for (index, pivot), (_, pairs), counts in zip(pivots.items(), sets, found, strict=True):
            failure = _way_to_the_root(parts, index, pivot, pairs[:, 1], counts, names, added)
            if failure is not None:
                return failure
        live = added
    return _resolved(parts, names)


def _pivot(part: _Open, random: np.random.Generator) -> int:
    """The least unit; where that once left nearly all others together the last, then any."""
    if part.spread < 1:
        return part.units[0]
    return part.units[-1] if part.spread < 2 else part.units[int(random.integers(len(part.units)))]


def _way_to_the_root(
    parts: list[_Open],
    index: int,
    pivot: int,
    others: Ints,
    counts: Ints,
    names: dict[int, list[tuple[str, int]]],
    added: list[int],
) -> Unexplained | None:
    """Reads off where the other units of a part hang on the way from its pivot to its root."""
    part = parts[index]
    here: tuple[str, int] = ("node", pivot)
    reached = 1
    for count in np.unique(counts).tolist():
        group = sorted(others[counts == count].tolist())
        reached += len(group)
        beside = part.witness is not None and count == len(part.units) + 1
        if count != reached + beside:
            return _no_tree(pivot, int(count), reached)
        if len(group) == 1:
            hanging: tuple[str, int] = ("node", group[0])
        else:
            bad = len(group) > 0.75 * len(part.units)
            parts.append(_Open(group, pivot, part.spread + 1 if bad else 0.0))
            added.append(len(parts) - 1)
            hanging = ("part", len(parts) - 1)
        if beside:
            part.children = [here, hanging]
            return None
        name = -1 - len(names)
        names[name] = [here, hanging]
        here = ("node", name)
    part.children = [here]
    return None


def _resolved(parts: list[_Open], names: dict[int, list[tuple[str, int]]]) -> Tree | Unexplained:
    """Puts the parts together, the latest first: what hangs in a part is later than it."""
    roots: list[list[int]] = [[] for _ in parts]

    def flat(items: list[tuple[str, int]]) -> list[int]:
        return [node for kind, at in items for node in ([at] if kind == "node" else roots[at])]

    for index in reversed(range(len(parts))):
        roots[index] = flat(parts[index].children)
    if len(roots[0]) != 1:
        return _no_tree(0, len(parts[0].units), len(parts[0].units))
    return joined(roots[0][0], {name: tuple(flat(items)) for name, items in names.items()})


def _no_tree(unit: int, level: int, members: int) -> Unexplained:
    return Unexplained(
        reason=f"the sum in which unit {unit} meets others has {level} units by one count "
        f"and {members} by another: the sum is not made of additions that each round once"
    )
