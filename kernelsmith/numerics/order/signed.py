"""The searches that count ones under ±M (FPRev, arXiv 2411.00442).

The basic search asks of all pairs at once in how large a sum they meet. The refined one asks it of
one unit against the others, which tells the whole way from that unit to the root and which units
hang from it where; then of the units that hang together, and so on: n - 1 queries for a chain,
about n log2(n) / 2 for a balanced tree.
"""

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from kernelsmith.numerics.order.asking import Ints, Unexplained
from kernelsmith.numerics.order.cancelling import Counts, Scale, counted
from kernelsmith.numerics.order.tree import Tree
from kernelsmith.numerics.order.triples import FUSED_MOST, TreeSteps, built


def basic(units: int, scale: Scale) -> TreeSteps:
    """The tree from all pairs, in one round."""
    pairs = np.stack(np.triu_indices(units, 1), axis=1)
    found = yield from counted(units, scale, [(list(range(units)), pairs)])
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
    return built(under[0], names)


@dataclass(slots=True)
class _Open:
    """Units that hang from one place of the tree, and are not known among themselves.

    They are under one child of a sum, or under several children of a fused one: then their own
    sum is the one that also holds ``witness``, a unit known to be beside them.

    Attributes:
        spread: grows where one way to the root left nearly all units together.
        fused: they are under several children, most likely each under one: all pairs are asked.
    """

    units: list[int]
    witness: int | None
    spread: float = 0.0
    fused: bool = False
    children: list[tuple[str, int]] = field(default_factory=list)

    @property
    def ones(self) -> list[int]:
        """The units that hold ones."""
        return self.units if self.witness is None else [*self.units, self.witness]


def refined(units: int, scale: Scale, *, hasty: bool = False) -> TreeSteps:
    """The tree by one unit's way to the root at a time, all open parts in each round.

    Args:
        units: of the whole sum.
        scale: M and one.
        hasty: look at large parts through as many ones as one row can hold, and take the terms of
            a fused sum for single units: many times fewer queries where the output has few bits,
            but a guess, to be proven.
    """
    parts = [_Open(list(range(units)), None)]
    names: dict[int, list[tuple[str, int]]] = {}
    random = np.random.default_rng(units)
    live = [0]
    while live:
        asked = [_pairs(parts[index], random) for index in live]
        if any(len(pairs) for pairs in asked):
            found = yield from (_glimpsed if hasty else _looked)(
                units, scale, [parts[index] for index in live], asked
            )
            if not isinstance(found, list):
                return found
        else:
            found = [np.zeros(0, dtype=np.int64) for _ in asked]
        start = len(parts)
        for index, pairs, counts in zip(live, asked, found, strict=True):
            if parts[index].fused:
                _siblings(parts, index, pairs, counts)
                continue
            failure = _way_to_the_root(parts, index, pairs, counts, names)
            if hasty:
                _take_for_single(parts, start)
            if failure is not None:
                return failure
        live = [index for index in range(start, len(parts)) if not parts[index].children]
    return _resolved(parts, names)


def _looked(units: int, scale: Scale, parts: list[_Open], asked: list[Ints]) -> Counts:
    """How many units of each part are under the sum where each pair meets."""
    sets = [(part.ones, pairs) for part, pairs in zip(parts, asked, strict=True)]
    return (yield from counted(units, scale, sets))


def _glimpsed(units: int, scale: Scale, parts: list[_Open], asked: list[Ints]) -> Counts:
    """The same, of parts that are larger than one row can count by a sample first.

    Units whose sums with the pivot hold equally many of the sample are then counted among
    themselves, if one row can, and otherwise taken to hang together.
    """
    sets = [
        (part.ones if len(part.ones) <= scale.most else _sample(part, scale.most), pairs)
        for part, pairs in zip(parts, asked, strict=True)
    ]
    found = yield from counted(units, scale, sets)
    if not isinstance(found, list):
        return found
    large = [index for index, part in enumerate(parts) if len(part.ones) > scale.most]
    closer: list[tuple[list[int], Ints]] = []
    for index in large:
        pairs, counts = asked[index], found[index]
        for count in np.unique(counts):
            alike = pairs[counts == count]
            if len(alike) <= scale.most:
                closer.append((alike[:, 1].tolist(), alike))
        witness = parts[index].witness
        if witness is not None:
            closer.append(([witness], pairs[counts == counts.max()]))
    if not closer:
        return found
    seen = yield from counted(units, scale, closer)
    if not isinstance(seen, list):
        return seen
    for index in large:
        pairs, counts = asked[index], found[index]
        keys = np.stack([counts, np.zeros_like(counts), np.zeros_like(counts)], axis=1)
        for count in np.unique(counts):
            if (counts == count).sum() <= scale.most:
                keys[counts == count, 1] = seen.pop(0)
        if parts[index].witness is not None:
            keys[counts == counts.max(), 2] = seen.pop(0)
        _, rank = np.unique(keys, axis=0, return_inverse=True)
        sizes = np.cumsum(np.bincount(rank.ravel()))
        found[index] = 1 + sizes[rank.ravel()] + keys[:, 2]
    return found


def _sample(part: _Open, most: int) -> list[int]:
    """As many units of a part as one row can count, evenly spaced."""
    places = np.linspace(0, len(part.units) - 1, most).astype(np.int64)
    return [part.units[place] for place in np.unique(places).tolist()]


def _take_for_single(parts: list[_Open], start: int) -> None:
    """Takes units under several further children of fused sums for one child each."""
    for part in parts[start:]:
        if part.fused and not part.children:
            part.children = [("node", unit) for unit in part.units]


def _pairs(part: _Open, random: np.random.Generator) -> Ints:
    """The pairs to ask: of a pivot with each other unit, or all."""
    if part.fused:
        return np.array(list(combinations(part.units, 2)), dtype=np.int64).reshape(-1, 2)
    pivot = _pivot(part, random)
    others = [unit for unit in part.units if unit != pivot]
    return np.array([(pivot, unit) for unit in others], dtype=np.int64).reshape(-1, 2)


def _siblings(parts: list[_Open], index: int, pairs: Ints, counts: Ints) -> None:
    """Parts the units under several children of a fused sum: those that meet without the witness.

    What is inconsistent here fails later, when the parts are asked on their own.
    """
    part = parts[index]
    group = {unit: unit for unit in part.units}
    for (first, second), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        if count <= len(part.units) and group[first] != group[second]:
            old = group[second]
            for unit in part.units:
                if group[unit] == old:
                    group[unit] = group[first]
    for leader in dict.fromkeys(group.values()):
        members = [unit for unit in part.units if group[unit] == leader]
        if len(members) == 1:
            part.children.append(("node", members[0]))
        else:
            parts.append(_Open(members, part.witness))
            part.children.append(("part", len(parts) - 1))


def _pivot(part: _Open, random: np.random.Generator) -> int:
    """The least unit; where that once left nearly all others together the last, then any."""
    if part.spread < 1:
        return part.units[0]
    return part.units[-1] if part.spread < 2 else part.units[int(random.integers(len(part.units)))]


def _way_to_the_root(
    parts: list[_Open],
    index: int,
    pairs: Ints,
    counts: Ints,
    names: dict[int, list[tuple[str, int]]],
) -> Unexplained | None:
    """Reads off where the other units of a part hang on the way from its pivot to its root."""
    part = parts[index]
    pivot = int(pairs[0, 0]) if len(pairs) else part.units[0]
    others = pairs[:, 1]
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
            spread = part.spread + 1 if len(group) > 0.75 * len(part.units) else 0.0
            fused = beside and len(group) <= FUSED_MOST
            parts.append(_Open(group, pivot, spread, fused))
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
    return built(roots[0][0], {name: tuple(flat(items)) for name, items in names.items()})


def _no_tree(unit: int, level: int, members: int) -> Unexplained:
    return Unexplained(
        sentence=f"the sum in which unit {unit} meets others has {level} units by one count "
        f"and {members} by another: the sum is not made of additions that each round once"
    )
