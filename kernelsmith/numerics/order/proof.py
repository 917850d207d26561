"""Queries that only one tree of signed terms fulfils: a tree that was guessed is proven in a round.

For an inner sum v below a sum p, let u be a unit under v's first child, x one under another, and o
one under another child of p. M at u, -M at x and a one at o leave the one; M at u, -M at o and a
one at x do not. So o is outside the sum in which u and x meet, for every v: by that the units
under v hang together, and the tree has the same sums as the guessed one (``triples.defining``),
unless it adds some terms of a fused sum to one another first. If fused sums lose what is small
beside M, two kinds of queries exclude that:

- M and -M under the first child and another, ones under all others: all ones are lost;
- M and -M under any two others, a one under the first: it is lost.
"""

from collections.abc import Generator
from itertools import combinations

import numpy as np

from kernelsmith.numerics.order.asking import Rows, placed, together
from kernelsmith.numerics.order.cancelling import Scale, SignedTriples
from kernelsmith.numerics.order.formats import Float64s
from kernelsmith.numerics.order.tree import Tree
from kernelsmith.numerics.order.triples import holds


def proven(scale: Scale, tree: Tree) -> Generator[Rows, Float64s, bool]:
    """Whether the kernel's tree is ``tree``: one round, two if fused sums are exact inside."""
    around, fused = _edges(scale, tree), _fused(scale, tree)
    if not around and not fused:
        return True
    edges = sum(map(len, around))
    counts = scale.count((yield together(around + fused)))
    kept, lost = counts[: edges // 2], counts[edges // 2 : edges]
    if (kept != 1).any() or (lost != 0).any():
        return False
    if not counts[edges:].any():
        return True
    return (yield from holds(SignedTriples(tree.units, scale), tree))


def _edges(scale: Scale, tree: Tree) -> list[Rows]:
    """What must be left, then what must be lost, for every sum but the root."""
    least, parents = tree.least(), tree.parents()
    kept: list[tuple[int, int, int]] = []
    lost: list[tuple[int, int, int]] = []
    for index, children in enumerate(tree.nodes[:-1]):
        node = tree.units + index
        beside = next(child for child in tree.children(parents[node]) if child != node)
        first = least[children[0]]
        for child in children[1:]:
            kept.append((first, least[child], least[beside]))
            lost.append((first, least[beside], least[child]))
    numbers = np.array([[scale.big, -scale.big, scale.one]] * len(kept))
    ground = np.zeros(tree.units)
    return [placed(ground, np.array(places), numbers) for places in (kept, lost) if places]


def _fused(scale: Scale, tree: Tree) -> list[Rows]:
    """What must leave nothing if fused sums lose their small terms."""
    least = tree.least()
    rows: list[Rows] = []
    for children in tree.nodes:
        if len(children) < 3:
            continue
        first, *others = (least[child] for child in children)
        for start in range(0, len(others), scale.most):
            ground = np.zeros(tree.units)
            ground[others[start : start + scale.most]] = scale.one
            pairs = np.array([(first, other) for other in others])
            rows.append(placed(ground, pairs, _signs(scale, len(pairs))))
        ground = np.zeros(tree.units)
        ground[first] = scale.one
        pairs = np.array(list(combinations(others, 2)))
        rows.append(placed(ground, pairs, _signs(scale, len(pairs))))
    return rows


def _signs(scale: Scale, count: int) -> Float64s:
    return np.tile(np.array([scale.big, -scale.big]), (count, 1))
