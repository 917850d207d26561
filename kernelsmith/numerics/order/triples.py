"""A tree from triples of units: which two of three meet first.

Any rooted tree is determined by its triples (Aho et al. 1981). Here they are asked for so that
each round splits all that is still open: two units i and j meet in a sum v; every third unit is
then on i's side below v, on j's side, outside v, or under another child of v (a fused sum). That
takes about n log n triples in about log n rounds for balanced trees and for chains.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kernelsmith.errors import InputError
from kernelsmith.numerics.order.asking import Failure, Ints, Rows, Unexplained
from kernelsmith.numerics.order.formats import Float64s
from kernelsmith.numerics.order.tree import Tree, joined

FUSED_MOST = 33
"""More terms than any known instruction adds at once: a wider "fused sum" is something else."""
_PIVOTS = 16


class Triples(Protocol):
    """How one kind of kernel answers triples."""

    def rows(self, triples_T3: Ints) -> Rows:
        """One row a triple (i, j, k): do j and k meet before either meets i?"""
        ...

    def decode(self, triples_T3: Ints, sums_T: Float64s) -> Ints:
        """1 for yes, 0 for no, -1 where the sum is neither answer."""
        ...


Answers = Generator[Rows, Float64s, Ints | Failure]
TreeSteps = Generator[Rows, Float64s, Tree | Failure]

_TOGETHER = 3


def first_to_meet(oracle: Triples, triples_T3: Ints) -> Answers:
    """For each triple: 0, 1 or 2, the one that the other two meet without; 3 if all meet at once.

    Each is asked from all three sides. One yes is a tree's answer; three or none is a fused sum's
    (exact inside, or cutting what is small); two are no tree's.
    """
    sides = [np.roll(triples_T3, -side, axis=1) for side in range(3)]
    asked = np.concatenate(sides)
    sums = yield oracle.rows(asked)
    answers = oracle.decode(asked, sums)
    yes = answers.reshape(3, -1)
    wrong = np.flatnonzero((yes < 0).any(axis=0) | (yes.sum(axis=0) == 2))
    if len(wrong):
        place = int(wrong[0])
        side = int(np.argmin(yes[:, place])) if (yes[:, place] < 0).any() else 0
        row = side * len(triples_T3) + place
        i, j, k = sorted(int(unit) for unit in triples_T3[place])
        return Unexplained(
            sentence=f"units {i}, {j} and {k} meet in no order that a tree could have: the sum is "
            "not made of additions that each round once",
            inputs=tuple(oracle.rows(asked).dense(row, row + 1)[0].tolist()),
            actual=float(sums[row]),
        )
    return np.where(yes.sum(axis=0) == 1, np.argmax(yes, axis=0), _TOGETHER)


@dataclass(slots=True)
class _Open:
    """A part of the tree that has one root and is not known inside.

    ``units`` stand for leaves, or for inner sums in ``known``; ``sum`` becomes the name of the
    sum in which the first two of them meet, ``outer`` the part around it.
    """

    units: list[int]
    known: dict[int, int]
    size_before: int
    sum: int = 0
    outer: int | None = None
    inner: list[int] = field(default_factory=list)


def split(oracle: Triples, units: int) -> TreeSteps:
    """Finds the whole tree, all open parts in each round."""
    parts = [_Open(list(range(units)), {}, 2 * units)]
    live = [0]
    names = 0
    random = np.random.default_rng(units)
    while live := [index for index in live if len(parts[index].units) > 1]:
        asked: list[Ints] = []
        pairs: list[tuple[int, int]] = []
        for index in live:
            part = parts[index]
            pair = _pair(part, random)
            pairs.append(pair)
            rest = np.array([unit for unit in part.units if unit not in pair], dtype=np.int64)
            asked.append(
                np.stack([np.full_like(rest, pair[0]), np.full_like(rest, pair[1]), rest], axis=1)
            )
        found = yield from _answered(oracle, np.concatenate(asked))
        if not isinstance(found, np.ndarray):
            return found
        start = 0
        added: list[int] = []
        others: list[tuple[int, int, list[int]]] = []
        for index, pair, triples in zip(live, pairs, asked, strict=True):
            which = found[start : start + len(triples)]
            start += len(triples)
            part = parts[index]
            names += 1
            part.sum = -names
            rest = triples[:, 2]
            for unit, side in ((pair[0], 1), (pair[1], 0)):
                added.append(_open(parts, part, [unit, *rest[which == side].tolist()]))
                part.inner.append(added[-1])
            outside = rest[which == 2].tolist()
            if outside:
                added.append(_open(parts, part, [pair[0], *outside], {pair[0]: part.sum}))
                part.outer = added[-1]
            if (which == _TOGETHER).any():
                others.append((index, pair[0], rest[which == _TOGETHER].tolist()))
        clusters = yield from _siblings(oracle, others)
        if not isinstance(clusters, list):
            return clusters
        for index, members in clusters:
            added.append(_open(parts, parts[index], members))
            parts[index].inner.append(added[-1])
        live = added
    return _resolved(parts)


def _pair(part: _Open, random: np.random.Generator) -> tuple[int, int]:
    """Two units that split a part: its ends' middle, or any two where that went badly before."""
    if len(part.units) > 0.75 * part.size_before and len(part.units) > 3:
        i, j = random.choice(len(part.units), 2, replace=False)
        return part.units[i], part.units[j]
    return part.units[0], part.units[len(part.units) // 2]


def _open(
    parts: list[_Open], parent: _Open, units: list[int], known: dict[int, int] | None = None
) -> int:
    mine = {unit: parent.known[unit] for unit in units if unit in parent.known}
    parts.append(_Open(sorted(units), mine | (known or {}), len(parent.units)))
    return len(parts) - 1


def _answered(oracle: Triples, triples_T3: Ints) -> Answers:
    if not len(triples_T3):
        return np.zeros(0, dtype=np.int64)
    return (yield from first_to_meet(oracle, triples_T3))


def _siblings(
    oracle: Triples, open_sums: list[tuple[int, int, list[int]]]
) -> Generator[Rows, Float64s, list[tuple[int, list[int]]] | Failure]:
    """Groups the units under the further children of fused sums.

    Args:
        oracle: answers triples.
        open_sums: of each fused sum its part, a unit under one of its children, and the units
            under children other than the two that are known.

    Returns:
        The part and the units of each further child.
    """
    clusters: list[tuple[int, list[int]]] = []
    count: dict[int, int] = {}
    while open_sums:
        asked: list[tuple[int, int, int]] = []
        for _, base, rest in open_sums:
            pivots = rest[:_PIVOTS]
            asked += [(base, pivot, unit) for pivot in pivots for unit in rest if unit != pivot]
        found = yield from _answered(oracle, np.array(asked, dtype=np.int64).reshape(-1, 3))
        if not isinstance(found, np.ndarray):
            return found
        start = 0
        left: list[tuple[int, int, list[int]]] = []
        for index, base, rest in open_sums:
            taken: set[int] = set()
            for pivot in rest[:_PIVOTS]:
                with_pivot = [pivot]
                for unit in (unit for unit in rest if unit != pivot):
                    if found[start] == 0:
                        with_pivot.append(unit)
                    start += 1
                if pivot not in taken:
                    taken.update(with_pivot)
                    clusters.append((index, with_pivot))
                    count[index] = count.get(index, 2) + 1
            if count[index] > FUSED_MOST:
                return Unexplained(
                    sentence=f"more than {FUSED_MOST} terms seem to meet at once: nothing is lost "
                    "between the additions, as in an exact sum, a compensated one, or one in a "
                    "type wider than the probes can fill"
                )
            if remaining := [unit for unit in rest if unit not in taken]:
                left.append((index, base, remaining))
        open_sums = left
    return clusters


def _resolved(parts: list[_Open]) -> Tree | Unexplained:
    """Puts the parts together, the latest first: a part's own parts are all later."""
    names: dict[int, tuple[int, ...]] = {}
    roots = [0] * len(parts)
    for index in reversed(range(len(parts))):
        part = parts[index]
        if not part.inner:
            unit = part.units[0]
            roots[index] = part.known.get(unit, unit)
            continue
        names[part.sum] = tuple(roots[inner] for inner in part.inner)
        roots[index] = part.sum if part.outer is None else roots[part.outer]
    return built(roots[0], names)


def built(root: int, names: dict[int, tuple[int, ...]]) -> Tree | Unexplained:
    """The tree of the sums that answers have shown, unless these contradict one another."""
    try:
        return joined(root, names)
    except InputError:
        return Unexplained(
            sentence="by some answers a unit is in two sums that do not hold one another: the sum "
            "is not made of additions that each round once"
        )


def defining(tree: Tree) -> tuple[Ints, Ints]:
    """Triples that only this tree fulfils, and their answers.

    For each inner sum v below another sum p: two units that meet in v, and one under another child
    of p. By these the units under v hang together, so that any tree that fulfils them all has the
    same children at the root, and so on downwards; unless it adds some children of a fused sum to
    one another first, which the triples over every two of its children and a third one exclude.

    Returns:
        Triples [T, 3] whose first one the other two meet without, or that all meet at once; and
        which of the two, as ``first_to_meet`` says: 0 or 3.
    """
    least = tree.least()
    parents = tree.parents()
    triples: list[tuple[int, int, int]] = []
    answers: list[int] = []
    for index, children in enumerate(tree.nodes):
        node = tree.units + index
        under = [least[child] for child in children]
        parent = parents[node]
        if parent >= 0:
            other = next(child for child in tree.children(parent) if child != node)
            for unit in under[1:]:
                triples.append((least[other], under[0], unit))
                answers.append(0)
        for place, unit in enumerate(under[1:], start=1):
            for later in under[place + 1 :]:
                triples.append((under[0], unit, later))
                answers.append(_TOGETHER)
    return np.array(triples, dtype=np.int64).reshape(-1, 3), np.array(answers, dtype=np.int64)


def holds(oracle: Triples, tree: Tree) -> Generator[Rows, Float64s, bool]:
    """Whether the kernel's tree is ``tree``, by one round of triples."""
    triples, expected = defining(tree)
    if not len(triples):
        return True
    found = yield from first_to_meet(oracle, triples)
    return isinstance(found, np.ndarray) and bool((found == expected).all())
