"""Trees are named as kernel authors name them, told apart in a sentence, and drawn."""

import random
from xml.etree import ElementTree

import pytest

from kernelsmith.numerics.order import Revealed, Tree, compare, describe, draw_svg, draw_text
from kernelsmith.numerics.order.shapes import adjacent_pairs, halves
from kernelsmith.numerics.order.tree import chain as chain_of
from kernelsmith.numerics.order.tree import joined
from tests.order.kernels import Nested, balanced, chain, random_nested


def lanes(units: int, count: int) -> list[Nested]:
    found: list[Nested] = []
    for lane in range(count):
        total: Nested = lane
        for unit in range(lane + count, units, count):
            total = (total, unit)
        found.append(total)
    return found


def in_turn(items: list[Nested]) -> Nested:
    total = items[0]
    for item in items[1:]:
        total = (total, item)
    return total


def running(units: int, each: int) -> Nested:
    """0 and then so many units at a time, in fused sums with the running total."""
    total: Nested = tuple(range(each))
    for at in range(each, units, each):
        total = (total, *range(at, at + each))
    return total


SHAPES: dict[str, tuple[Tree, str]] = {
    "one": (Tree(1, (), ()), "1 unit, alone"),
    "pair": (Tree.of((0, 1)), "2 units, a pair"),
    "chain": (chain_of(range(128)), "128 units, one after another"),
    "backwards": (
        chain_of(reversed(range(128))),
        "128 units, one after another from the last to the first",
    ),
    "carry": (
        chain_of([64, *range(64)]),
        "65 units, unit 64 first, then the others one after another",
    ),
    "pairs": (adjacent_pairs(128), "128 units, a balanced tree of adjacent pairs"),
    "halves": (halves(128), "128 units, a balanced tree of halves, k with k + n/2"),
    "star": (Tree.of(tuple(range(16))), "16 units, all at once in one fused sum"),
    "blocks": (
        Tree.of(in_turn([balanced(list(range(at, at + 32))) for at in range(0, 128, 32)])),
        "128 units, 4 blocks of 32 (a balanced tree of adjacent pairs), the blocks one after "
        "another",
    ),
    "a last block that is shorter": (
        Tree.of(in_turn([chain(at, min(at + 48, 128)) for at in range(0, 128, 48)])),
        "128 units, 3 blocks of 48 (one after another), the blocks one after another",
    ),
    "split": (
        Tree.of((chain(0, 64), chain(64, 128))),
        "128 units, 2 blocks of 64 (one after another), the blocks added to one another",
    ),
    "lanes": (
        Tree.of(balanced(lanes(128, 32))),
        "128 units, 32 lanes k mod 32 (one after another), the lanes a balanced tree of adjacent "
        "pairs",
    ),
    "running": (
        Tree.of(running(128, 16)),
        "128 units, a running total that takes 16 units at a time in fused sums",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_common_shapes_have_names(name: str) -> None:
    tree, words = SHAPES[name]
    assert describe(tree) == words


def test_no_shape_is_made_up() -> None:
    tree = Tree.of(random_nested(100, 3, random.Random(5)))
    assert describe(tree).startswith("100 units in no regular shape, ")
    odd = chain_of([0, 1, 5, 2, 4, 3, *range(6, 20)])
    assert describe(odd) == "20 units, one after another, in the order 0 to 1, 5, 2, 4, 3, 6 to 19"


def test_narrow_sums_are_described() -> None:
    tree = chain_of(range(4)).with_bits((8, 24, 24))
    assert describe(tree) == ("4 units, one after another; 1 of 3 sums keep 8 bits instead of 24")


def test_equal_trees_are_equal() -> None:
    tree = SHAPES["blocks"][0]
    found = compare(tree, tree)
    assert found.equal
    assert found.sentence == f"the seed's tree: {describe(tree)}"


PARTINGS = [
    ("chain", "blocks", "units 2 and 3 meet as a pair in the seed, when 3 joins the sum of 0, 1 "),
    ("split", "chain", "units 64 and 65 meet when 65 joins the sum of 0 to 64 in the seed, as a p"),
    ("halves", "pairs", "units 0 and 1 meet as a pair in the seed, when the sum of 0, 2, ... 126 "),
    ("running", "chain", "units 0 and 1 meet as a pair in the seed, in one fused sum of 16 terms "),
    ("star", "chain", "the seed sums 128 units and this 16"),
]


@pytest.mark.parametrize(("here", "seed", "words"), PARTINGS)
def test_the_first_parting_is_told_in_a_sentence(here: str, seed: str, words: str) -> None:
    found = compare(SHAPES[here][0], SHAPES[seed][0])
    assert not found.equal
    assert found.sentence.startswith(words)
    assert "\n" not in found.sentence


def test_the_same_tree_with_other_rounding_is_another() -> None:
    tree = chain_of(range(3))
    narrow = tree.with_bits((8, 24))
    found = compare(narrow, tree)
    assert not found.equal
    assert found.sentence == (
        "same tree, but the sum of 0 and 1 keeps 8 bits here and 24 in the seed"
    )
    seed = Revealed(tree=tree, arithmetic="float32, rounded to nearest", confirmed=64)
    cut = Revealed(tree=tree, arithmetic="float32, rounded toward zero", confirmed=64)
    assert compare(seed, seed).equal
    found = compare(cut, seed)
    assert not found.equal
    assert "rounded toward zero here" in found.sentence


def left_of(tree: Tree, terms: list[int]) -> Tree:
    """The tree over some of its units."""
    at = {term: unit for unit, term in enumerate(terms)}
    names: dict[int, tuple[int, ...]] = {}
    stands: dict[int, int] = dict(at)
    for index, children in enumerate(tree.nodes):
        kept = [stands[child] for child in children if child in stands]
        if len(kept) > 1:
            names[-1 - len(names)] = tuple(kept)
            stands[tree.units + index] = -len(names)
        elif kept:
            stands[tree.units + index] = kept[0]
    return joined(stands[tree.root], names)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chain", "one after another"),
        ("pairs", "a balanced tree of adjacent pairs"),
        ("halves", "a balanced tree of halves, k with k + n/2"),
        (
            "blocks",
            "blocks of 32 (a balanced tree of adjacent pairs), the blocks one after another",
        ),
        ("lanes", "32 lanes k mod 32 (one after another), the lanes a balanced tree of adjacent "),
    ],
)
def test_terms_drawn_from_a_regular_sum_show_its_shape(name: str, words: str) -> None:
    terms = sorted(random.Random(2).sample(range(128), 40))
    drawn = left_of(SHAPES[name][0], terms)
    assert describe(drawn, terms).startswith(f"40 units, {words}")
    assert ElementTree.fromstring(draw_svg(drawn, terms=terms)).tag.endswith("svg")
    assert str(terms[0]) in draw_text(drawn, terms=terms)
    exchanged = compare(drawn, left_of(SHAPES["backwards"][0], terms), terms)
    assert not exchanged.equal
    assert exchanged.sentence.startswith("terms ")


def test_drawn_terms_that_fit_no_shape_are_said_to_fit_none() -> None:
    tree = Tree.of(random_nested(40, 2, random.Random(5)))
    terms = sorted(random.Random(2).sample(range(128), 40))
    assert "no regular shape" in describe(tree, terms)
    fused = Tree.of(random_nested(40, 4, random.Random(5)))
    assert "no regular shape" in describe(fused, terms)


def big_trees() -> dict[str, Tree]:
    trees = {name: tree for name, (tree, _) in SHAPES.items()}
    trees["random"] = Tree.of(random_nested(1024, 4, random.Random(3)))
    trees["thousand"] = chain_of(range(1024))
    trees["narrow"] = chain_of(range(12)).with_bits([8] * 11)
    return trees


@pytest.mark.parametrize("name", big_trees())
def test_drawings_are_small_valid_and_complete(name: str) -> None:
    tree = big_trees()[name]
    svg = draw_svg(tree, "a < b & c")
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "href" not in svg
    assert "<style" not in svg
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "a < b & c"
    assert texts[1] == describe(tree)
    assert len(texts) < 200
    text = draw_text(tree, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 60
    if tree.units <= 16:
        assert set(map(str, range(tree.units))) <= set(texts) | {"0"}


def test_a_narrow_sum_is_marked_in_drawings() -> None:
    tree = chain_of(range(12)).with_bits([8] * 11)
    assert "(8 bits)" in draw_text(tree)
    assert "(8 bits)" in draw_svg(tree)


def test_a_text_shows_the_order() -> None:
    tree = Tree.of(((0, 1), (2, 3)))
    assert draw_text(tree).splitlines()[1:] == [
        "+",
        "├─ +",
        "│  ├─ 0",
        "│  └─ 1",
        "└─ +",
        "   ├─ 2",
        "   └─ 3",
    ]
