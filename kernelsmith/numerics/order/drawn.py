"""Shapes of trees over terms drawn from a longer sum: of 128 columns of 1,024, say.

What is left of a regular tree is irregular, unless it is held against what is left of the known
trees of the whole sum.
"""

from collections.abc import Callable, Iterator, Sequence

from kernelsmith.numerics.order.tree import Tree, joined

Names = dict[int, tuple[int, ...]]
Items = list[tuple[int, int]]
"""Terms of the whole sum, ascending, each with the unit or sum that stands for it."""
Join = Callable[[Items, Names], int]


def shape_of_drawn(tree: Tree, terms: Sequence[int]) -> str | None:
    """The shape of the whole sum, if the tree is what known shapes leave of it on these terms.

    Args:
        tree: over drawn terms.
        terms: which they are, ascending, one a unit.
    """
    if tree.widest > 2:
        return None
    for text, join in _shapes(max(terms) + 1):
        names: Names = {}
        root = join([(term, unit) for unit, term in enumerate(terms)], names)
        if joined(root, names).nodes == tree.nodes:
            return text
    return None


def _shapes(length: int) -> Iterator[tuple[str, Join]]:
    pairs, chain = "a balanced tree of adjacent pairs", "one after another"
    whole = 1 << (length - 1).bit_length()
    plain: list[tuple[str, Join]] = [(chain, _chain), (pairs, _pairs)]
    halves: tuple[str, Join] = ("a balanced tree of halves, k with k + n/2", _halves(whole))
    yield from (*plain, halves)
    size = 2
    while size < whole:
        for inner, join_inner in plain:
            for outer, join_outer in plain:
                text = f"blocks of {size} ({inner}), the blocks {outer}"
                yield text, _grouped(size, True, join_inner, join_outer)
            over = [*plain, (halves[0], _halves(size))]
            for outer, join_outer in over:
                text = f"{size} lanes k mod {size} ({inner}), the lanes {outer}"
                yield text, _grouped(size, False, join_inner, join_outer)
        size *= 2


def _joined(nodes: list[int], names: Names) -> int:
    """One sum of one or two nodes."""
    if len(nodes) == 1:
        return nodes[0]
    names[-1 - len(names)] = tuple(nodes)
    return -len(names)


def _chain(items: Items, names: Names) -> int:
    total = items[0][1]
    for _, node in items[1:]:
        total = _joined([total, node], names)
    return total


def _pairs(items: Items, names: Names) -> int:
    while len(items) > 1:
        items = _met([(term >> 1, node) for term, node in items], names)
    return items[0][1]


def _halves(length: int) -> Join:
    whole = 1 << (length - 1).bit_length()

    def join(items: Items, names: Names) -> int:
        half = whole
        while len(items) > 1:
            half //= 2
            items = _met([(term % half, node) for term, node in items], names)
        return items[0][1]

    return join


def _met(items: Items, names: Names) -> Items:
    """Joins what is at the same place of the next level."""
    places: dict[int, list[int]] = {}
    for place, node in items:
        places.setdefault(place, []).append(node)
    return sorted((place, _joined(nodes, names)) for place, nodes in places.items())


def _grouped(size: int, blocks: bool, inner: Join, outer: Join) -> Join:
    """Blocks of neighbours, or lanes of every so manieth term, and what joins them."""

    def join(items: Items, names: Names) -> int:
        groups: dict[int, Items] = {}
        for term, node in items:
            group, place = divmod(term, size) if blocks else divmod(term, size)[::-1]
            groups.setdefault(group, []).append((place, node))
        tops = [(group, inner(members, names)) for group, members in sorted(groups.items())]
        return outer(tops, names)

    return join
