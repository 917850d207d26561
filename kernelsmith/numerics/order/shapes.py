"""What a summation tree looks like, in the words of people who write kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelsmith.numerics.order.drawn import shape_of_drawn
from kernelsmith.numerics.order.tree import FLOAT32_BITS, Tree, joined

_ONE_BY_ONE = "one after another"
_PAIRS = "a balanced tree of adjacent pairs"
_HALVES = "a balanced tree of halves, k with k + n/2"


def describe(tree: Tree, terms: Sequence[int] | None = None) -> str:
    """The tree in a phrase: a known shape, blocks or lanes of known shapes, or its depth.

    Args:
        tree: what to describe.
        terms: if its units are drawn from a longer sum, which terms of that they are, ascending.
    """
    units = "1 unit" if tree.units == 1 else f"{tree.units} units"
    found = shape(tree) if terms is None else shape_of_drawn(tree, terms) or shape(tree)
    order = _chain_order(tree) if found is None else None
    if order is not None and tree.widest == 2:
        found = f"one after another, in the order {_in_runs(order)}"
    text = f"{units}, {found}" if found else f"{units} in no regular shape, {depth(tree)} sums deep"
    odd = sorted({bits for bits in tree.bits if bits != FLOAT32_BITS})
    if odd:
        count = sum(bits != FLOAT32_BITS for bits in tree.bits)
        kept = " or ".join(str(bits) for bits in odd)
        text += f"; {count} of {len(tree.bits)} sums keep {kept} bits instead of {FLOAT32_BITS}"
    return text


def depth(tree: Tree) -> int:
    """How many sums lie between the root and the unit farthest from it."""
    deep = [0] * tree.units
    for children in tree.nodes:
        deep.append(1 + max(deep[child] for child in children))
    return deep[-1]


def shape(tree: Tree) -> str | None:
    """The name of a regular shape, without the number of units; None if it has none.

    Plain shapes first, then equal groups of one plain shape in another, then groups of groups.
    """
    found = _plain(tree)
    if found is not None:
        return found
    groups = grouped(tree)
    return groups.text if groups else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of units that are summed alike.

    Attributes:
        text: how, in words.
        noun: "blocks" of neighbours, or "lanes".
        tops: the node of each group.
    """

    text: str
    noun: str
    tops: list[int]


def grouped(tree: Tree) -> Groups | None:
    """The groups of a tree that is not plain but regular."""
    if _plain(tree) is not None:
        return None
    for naming, even in ((_plain, True), (_plain, False), (shape, True)):
        found = _groups(tree, naming, even)
        if found is not None:
            return found
    return None


def _plain(tree: Tree) -> str | None:
    units = tree.units
    if units == 1:
        return "alone"
    if len(tree.nodes) == 1:
        return "a pair" if units == 2 else "all at once in one fused sum"
    if tree.widest > 2:
        return _running(tree)
    order = _chain_order(tree)
    if order is not None:
        return _in_turn(order)
    nodes = tree.nodes
    if nodes == adjacent_pairs(units).nodes:
        return _PAIRS
    if units & (units - 1) == 0 and nodes == halves(units).nodes:
        return _HALVES
    return None


def _chain_order(tree: Tree) -> list[int] | None:
    """The units of a chain in the order in which they are added; None if it is no chain."""
    order: list[int] = []
    node = tree.root
    while node >= tree.units:
        children = tree.children(node)
        inner = [child for child in children if child >= tree.units]
        if len(inner) > 1:
            return None
        order.extend(sorted((child for child in children if child < tree.units), reverse=True))
        node = inner[0] if inner else -1
    return order[::-1]


def _in_turn(order: list[int]) -> str | None:
    """Ascending or descending, maybe after one other unit (a carry) that comes first."""
    if order == sorted(order):
        return _ONE_BY_ONE
    # The first two of a chain are equals: which of them came first is not known.
    for start in (order, [order[1], order[0], *order[2:]]):
        if start == sorted(start, reverse=True):
            return f"{_ONE_BY_ONE} from the last to the first"
        if start[1:] == sorted(start[1:]):
            return f"unit {start[0]} first, then the others {_ONE_BY_ONE}"
    return None


def _in_runs(order: list[int]) -> str:
    """An order as runs of ascending neighbours: "0 to 31, 33, 32"."""
    runs: list[list[int]] = []
    for unit in order:
        if runs and unit == runs[-1][-1] + 1:
            runs[-1].append(unit)
        else:
            runs.append([unit])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")


def _running(tree: Tree) -> str | None:
    """A running total that takes equally many units in each fused sum, in ascending order."""
    order = _chain_order(tree)
    if order is None or order != sorted(order):
        return None
    sizes = [sum(child < tree.units for child in children) for children in tree.nodes]
    each = sizes[-1] if len(sizes) > 2 else min(sizes)
    if any(size != each for size in sizes[1:-1]) or sizes[0] not in (each, each + 1):
        return None
    return f"a running total that takes {each} units at a time in fused sums"


def adjacent_pairs(units: int) -> Tree:
    """Level by level 2i with 2i + 1; an odd one out goes up as it is."""
    names: dict[int, tuple[int, ...]] = {}
    level = list(range(units))
    while len(level) > 1:
        above = []
        for first, second in zip(level[::2], level[1::2], strict=False):
            names[-1 - len(names)] = (first, second)
            above.append(-len(names))
        level = above + ([level[-1]] if len(level) % 2 else [])
    return joined(level[0], names)


def halves(units: int) -> Tree:
    """Level by level k with k + half of what is left; units a power of two."""
    names: dict[int, tuple[int, ...]] = {}
    level = list(range(units))
    while len(level) > 1:
        half = len(level) // 2
        above = []
        for first, second in zip(level[:half], level[half:], strict=True):
            names[-1 - len(names)] = (first, second)
            above.append(-len(names))
        level = above
    return joined(level[0], names)


def _groups(tree: Tree, naming: Callable[[Tree], str | None], even: bool) -> Groups | None:
    """Equal groups of units that are summed alike, then among one another.

    Args:
        tree: what to name.
        naming: names the groups, and the tree over them.
        even: groups of equal size, as blocks of neighbours or as lanes; else blocks whose last
            one is shorter.
    """
    tops_of = node_by_mark(tree)
    marks = unit_marks(tree.units)
    for block in range(tree.units - 1, 1, -1):
        if (tree.units % block == 0) != even:
            continue
        sums = np.add.reduceat(marks, np.arange(0, tree.units, block))
        tops = [tops_of.get(int(mark), -1) for mark in sums]
        found = _alike(tree, tops, naming)
        if found is not None:
            text = f"{len(sums)} blocks of {block} ({found[0]}), the blocks {found[1]}"
            return Groups(text=text, noun="blocks", tops=tops)
        if even:
            lanes = tree.units // block
            sums = marks.reshape(-1, lanes).sum(axis=0, dtype=np.uint64)
            tops = [tops_of.get(int(mark), -1) for mark in sums]
            found = _alike(tree, tops, naming)
            if found is not None:
                text = f"{lanes} lanes k mod {lanes} ({found[0]}), the lanes {found[1]}"
                return Groups(text=text, noun="lanes", tops=tops)
    return None


def _alike(
    tree: Tree, tops: list[int], naming: Callable[[Tree], str | None]
) -> tuple[str, str] | None:
    """What groups have in common, the last one perhaps shorter; and how they are joined."""
    if min(tops) < 0:
        return None
    inner, last = part(tree, tops[0]), part(tree, tops[-1])
    name = naming(inner)
    if name is None or any(part(tree, top) != inner for top in tops[1:-1]):
        return None
    if last != inner and _plain(last) not in (name, "alone", "a pair"):
        return None
    between = naming(over(tree, tops))
    if between is None:
        return None
    return name, "added to one another" if between == "a pair" else between


def unit_marks(units: int) -> npt.NDArray[np.uint64]:
    """A number for each unit, such that different sets of units have different sums."""
    return np.random.default_rng(1).integers(0, 2**64, units, dtype=np.uint64)


def node_marks(tree: Tree) -> list[int]:
    """The sum of the units' marks under every node, modulo 2**64, by node number."""
    marks = [int(mark) for mark in unit_marks(tree.units)]
    for children in tree.nodes:
        marks.append(sum(marks[child] for child in children) % 2**64)
    return marks


def node_by_mark(tree: Tree) -> dict[int, int]:
    """The node that has just the units with these marks under it."""
    return {mark: node for node, mark in enumerate(node_marks(tree))}


def under(tree: Tree, node: int) -> list[int]:
    """The units under a node, ascending."""
    found = []
    stack = [node]
    while stack:
        here = stack.pop()
        if here < tree.units:
            found.append(here)
        stack.extend(tree.children(here))
    return sorted(found)


def part(tree: Tree, top: int) -> Tree:
    """The tree under a node, its units numbered from 0 in ascending order."""
    return _renamed(tree, top, under(tree, top))


def over(tree: Tree, tops: list[int]) -> Tree:
    """The tree above some nodes, which become its units in the order given."""
    return _renamed(tree, tree.root, tops)


def _renamed(tree: Tree, root: int, tops: list[int]) -> Tree:
    names: dict[int, tuple[int, ...]] = {}
    bits: dict[int, int] = {}
    number = {top: place for place, top in enumerate(tops)}
    stack = [root]
    while stack:
        node = stack.pop()
        if node in number:
            continue
        children = tree.children(node)
        names[-1 - node] = tuple(number.get(child, -1 - child) for child in children)
        bits[-1 - node] = tree.bits[node - tree.units]
        stack.extend(children)
    return joined(number.get(root, -1 - root), names, bits)
