"""A tree has one form, one text, and says what is wrong with another."""

import pytest
from hypothesis import given, settings

from kernelsmith.errors import InputError
from kernelsmith.numerics.order.tree import Tree, chain
from tests.order.kernels import Nested, nested_trees


@settings(derandomize=True, max_examples=40, deadline=None)
@given(nested_trees())
def test_a_tree_is_its_text(nested: Nested) -> None:
    tree = Tree.of(nested)
    again = Tree.parse(str(tree))
    assert again == tree
    assert hash(again) == hash(tree)
    assert again.digest == tree.digest


def test_the_order_of_two_addends_is_no_difference() -> None:
    assert Tree.of(((2, (1, 0)), 3)) == Tree.of((3, ((0, 1), 2)))
    assert Tree.of(((0, 1), 2)) != Tree.of((0, (1, 2)))
    assert str(Tree.of((3, (1, 0), 2))) == "((0+1)+2+3)"


def test_bits_are_part_of_a_tree() -> None:
    tree = Tree.parse("((0+1)~8+2)")
    assert tree.bits == (8, 24)
    assert str(tree) == "((0+1)~8+2)"
    assert tree != Tree.of(((0, 1), 2))


def test_a_chain_of_thousands_needs_no_recursion() -> None:
    tree = chain(range(5000))
    assert Tree.parse(str(tree)) == tree
    assert tree.sizes()[-1] == 5000


@pytest.mark.parametrize(
    "text", ["", "(0+1", "0+1)", "(0+2)", "(0+0)", "(0)", "(0+1)x", "(1+2)", "0 1", "(0+(1))"]
)
def test_what_is_no_tree_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InputError) as raised:
        Tree.parse(text)
    assert raised.value.hint
