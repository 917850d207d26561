"""Where two summation trees part, in one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernelsmith.numerics.order.asking import Revealed
from kernelsmith.numerics.order.shapes import describe, node_by_mark, node_marks, under
from kernelsmith.numerics.order.tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Whether a tree is the seed's, and if not, where the two part first."""

    equal: bool
    sentence: str


def compare(
    here: Revealed | Tree, seed: Revealed | Tree, terms: Sequence[int] | None = None
) -> Comparison:
    """Compares a tree with the seed's.

    Args:
        here: the candidate's tree, or what probing revealed of it.
        seed: the seed's. Of two revealed sums the arithmetic is compared as well.
        terms: if the units are drawn from a longer sum, which terms of it they are, ascending;
            sentences then speak of these.

    Returns:
        Equal only if trees, widths of all sums and arithmetic are.
    """
    here_tree = here.tree if isinstance(here, Revealed) else here
    seed_tree = seed.tree if isinstance(seed, Revealed) else seed
    if here_tree.units != seed_tree.units:
        text = f"the seed sums {seed_tree.units} units and this {here_tree.units}"
        return Comparison(equal=False, sentence=text)
    if here_tree.nodes != seed_tree.nodes:
        return Comparison(equal=False, sentence=_parting(here_tree, seed_tree, terms))
    if here_tree.bits != seed_tree.bits:
        return Comparison(equal=False, sentence=_other_bits(here_tree, seed_tree, terms))
    how = [side.arithmetic if isinstance(side, Revealed) else None for side in (here, seed)]
    if None not in how and how[0] != how[1]:
        text = f"same tree, other arithmetic: {how[1]} in the seed, {how[0]} here"
        return Comparison(equal=False, sentence=text)
    return Comparison(equal=True, sentence=f"the seed's tree: {describe(here_tree, terms)}")


def _parting(here: Tree, seed: Tree, terms: Sequence[int] | None) -> str:
    """The smallest sum that only one of the two makes, and how the other one does it."""
    here_nodes, seed_nodes = node_by_mark(here), node_by_mark(seed)
    here_sizes, seed_sizes = here.sizes(), seed.sizes()
    least = {id(here): here.least(), id(seed): seed.least()}
    only = [
        (seed_sizes[node], least[id(seed)][node], 0, node)
        for node, mark in enumerate(node_marks(seed))
        if mark not in here_nodes
    ] + [
        (here_sizes[node], least[id(here)][node], 1, node)
        for node, mark in enumerate(node_marks(here))
        if mark not in seed_nodes
    ]
    _, _, which, node = min(only)
    tree = here if which else seed
    first, second = (least[id(tree)][child] for child in tree.children(node)[:2])
    pair = named([first, second], terms)
    return (
        f"{'units' if terms is None else 'terms'} {pair} meet "
        f"{_meeting(seed, first, second, terms)} in the seed, "
        f"{_meeting(here, first, second, terms)} here "
        f"(seed: {describe(seed, terms)}; here: {describe(here, terms)})"
    )


def _meeting(tree: Tree, first: int, second: int, terms: Sequence[int] | None) -> str:
    """How two units come together."""
    parents = tree.parents()
    way = [first]
    while parents[way[-1]] >= 0:
        way.append(parents[way[-1]])
    seen = {node: place for place, node in enumerate(way)}
    beneath = second
    while parents[beneath] not in seen:
        beneath = parents[beneath]
    node = parents[beneath]
    side = way[seen[node] - 1]
    one, other = under(tree, side), under(tree, beneath)
    if len(tree.children(node)) > 2:
        count, over = len(tree.children(node)), named(under(tree, node), terms)
        return f"in one fused sum of {count} terms over {over}"
    if len(one) == len(other) == 1:
        return "as a pair"
    if len(one) == 1 or len(other) == 1:
        single, group = (first, other) if len(one) == 1 else (second, one)
        return f"when {named([single], terms)} joins the sum of {named(group, terms)}"
    return f"when the sum of {named(one, terms)} joins that of {named(other, terms)}"


def _other_bits(here: Tree, seed: Tree, terms: Sequence[int] | None) -> str:
    index = next(i for i, bits in enumerate(here.bits) if bits != seed.bits[i])
    units = named(under(here, here.units + index), terms)
    return (
        f"same tree, but the sum of {units} keeps {here.bits[index]} bits here and "
        f"{seed.bits[index]} in the seed"
    )


def named(units: list[int], terms: Sequence[int] | None = None) -> str:
    """A set of ascending units as people write it; by the terms that they are, if given."""
    if len(units) <= 3:
        names = [str(unit if terms is None else terms[unit]) for unit in units]
        return " and ".join(", ".join(names).rsplit(", ", 1))
    if terms is not None:
        first, last = terms[units[0]], terms[units[-1]]
        return f"{len(units)} drawn terms from {first} to {last}"
    steps = {second - first for first, second in pairwise(units)}
    if steps == {1}:
        return f"{units[0]} to {units[-1]}"
    if len(steps) == 1:
        return f"{units[0]}, {units[1]}, ... {units[-1]}"
    return f"{len(units)} units ({units[0]}, {units[1]}, {units[2]}, ... {units[-1]})"
