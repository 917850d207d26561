"""Trees of terms that cannot be negative are found, or said to be out of reach."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith.numerics.order import (
    FORMATS,
    Budget,
    Exhausted,
    Revealed,
    Terms,
    Tree,
    Unexplained,
    Unreachable,
    exponentials,
    magnitudes,
    reveal_nonnegative,
    squares,
)
from kernelsmith.numerics.order.tree import chain as chain_of
from tests.order.kernels import (
    Nested,
    Rows,
    balanced,
    chain,
    float32_sum,
    nested_trees,
    written,
)

BF16 = FORMATS["bfloat16"]
Float32s = npt.NDArray[np.float32]


def rstd(sums: Float32s) -> Float32s:
    one = np.float32(1)
    return one / np.sqrt(sums / np.float32(48) + np.float32(1e-6))


FOLLOWS: dict[str, tuple[Terms, Callable[[Float32s], Float32s], str]] = {
    "sum of squares": (squares(BF16), lambda sums: sums, "float32"),
    "rstd": (squares(BF16), rstd, "float32"),
    "rstd of float32": (squares(FORMATS["float32"]), rstd, "float32"),
    "rstd of float16": (squares(FORMATS["float16"]), rstd, "float32"),
    "log-sum-exp": (exponentials(BF16), np.log, "float32"),
    "a softmax's first weight": (
        exponentials(BF16),
        lambda sums: np.float32(1) / sums,
        "float32",
    ),
    "sum of magnitudes": (magnitudes(FORMATS["float32"]), lambda sums: sums, "float32"),
    "bfloat16 sum of squares": (squares(BF16), lambda sums: sums, "bfloat16"),
    "float16 sum of squares": (squares(FORMATS["float32"]), lambda sums: sums, "float16"),
}


def ask_of(nested: Nested, name: str) -> Callable[[Rows], Rows]:
    terms, after, output = FOLLOWS[name]
    write = written(output)

    def ask(rows: Rows) -> Rows:
        with np.errstate(over="ignore"):
            values = terms.value(rows).astype(np.float32).astype(np.float64)
            return write(after(float32_sum(nested, values)))

    return ask


@settings(derandomize=True, max_examples=30, deadline=None)
@given(nested_trees(most=48), st.sampled_from(sorted(FOLLOWS)))
def test_every_tree_is_found_through_what_follows(nested: Nested, name: str) -> None:
    tree = Tree.of(nested)
    found = reveal_nonnegative(ask_of(nested, name), tree.units, FOLLOWS[name][0])
    if tree.units > 2 and len(tree.nodes) == 1:
        assert isinstance(found, Unexplained)
        return
    assert isinstance(found, Revealed), found.sentence
    assert found.tree == tree
    again = reveal_nonnegative(ask_of(nested, name), tree.units, FOLLOWS[name][0], expected=tree)
    assert isinstance(again, Revealed)
    assert again.tree == tree
    assert again.rounds <= 6


@settings(derandomize=True, max_examples=15, deadline=None)
@given(nested_trees(most=24))
def test_sums_that_cut_are_never_given_another_tree(nested: Nested) -> None:
    tree = Tree.of(nested)
    ask = lambda rows: float32_sum(nested, rows * rows, "cut").astype(np.float64)  # noqa: E731
    found = reveal_nonnegative(ask, tree.units, squares(BF16))
    assert not isinstance(found, Revealed) or found.tree == tree


def test_a_reciprocal_root_in_bfloat16_hides_the_sum() -> None:
    write = written("bfloat16")
    nested = balanced(list(range(16)))
    ask = lambda rows: write(rstd(float32_sum(nested, rows * rows)))  # noqa: E731
    found = reveal_nonnegative(ask, 16, squares(BF16), expected=Tree.of(nested))
    assert isinstance(found, Unreachable)
    assert "none shows its last float32 bit" in found.sentence


def test_a_sum_in_bfloat16_is_out_of_reach_not_a_tree() -> None:
    write = written("bfloat16")

    def ask(rows: Rows) -> Rows:
        total = np.zeros(len(rows))
        for column in (rows * rows).T:
            total = write(total + column)
        return total

    found = reveal_nonnegative(ask, 16, squares(BF16))
    assert isinstance(found, Unreachable)


@pytest.mark.parametrize(("units", "most"), [(64, 3), (256, 3)])
def test_balanced_trees_and_chains_take_about_n_log_n_triples(units: int, most: int) -> None:
    for nested in (balanced(list(range(units))), chain(0, units)):
        found = reveal_nonnegative(ask_of(nested, "sum of squares"), units, squares(BF16))
        assert isinstance(found, Revealed)
        search = found.queries - 96 - 2 * units - 3 * 64
        assert search <= most * units * math.log2(units)
        assert found.rounds <= math.log2(units) + 6


def test_a_unit_that_is_left_out_is_found() -> None:
    ask = lambda rows: float32_sum(chain(0, 9), rows * rows).astype(np.float64)  # noqa: E731
    found = reveal_nonnegative(ask, 10, squares(BF16))
    assert not isinstance(found, Revealed)


def test_a_spent_budget_is_no_tree() -> None:
    nested = chain(0, 64)
    found = reveal_nonnegative(
        ask_of(nested, "sum of squares"), 64, squares(BF16), budget=Budget(queries=400)
    )
    assert isinstance(found, Exhausted)


def test_a_running_maximum_as_in_online_softmax_does_not_matter() -> None:
    """Blocks of 8 logits, each scaled by its own maximum; the total is rescaled as it grows."""

    def ask(rows: Rows) -> Rows:
        logits = rows.astype(np.float32)
        top = np.full(len(rows), -np.inf, dtype=np.float32)
        total = np.zeros(len(rows), dtype=np.float32)
        for start in range(0, 32, 8):
            block = logits[:, start : start + 8]
            higher = np.maximum(top, block.max(axis=1))
            weights = np.exp(block - higher[:, None]).astype(np.float64)
            total = total * np.exp(top - higher) + float32_sum(balanced(list(range(8))), weights)
            top = higher
        return (top + np.log(total)).astype(np.float64)

    found = reveal_nonnegative(ask, 32, exponentials(BF16))
    assert isinstance(found, Revealed), found.sentence
    blocks = [balanced(list(range(at, at + 8))) for at in range(0, 32, 8)]
    assert found.tree == Tree.of((((blocks[0], blocks[1]), blocks[2]), blocks[3]))


def test_one_and_two_terms() -> None:
    for units in (1, 2):
        nested = chain(0, units)
        found = reveal_nonnegative(ask_of(nested, "rstd"), units, squares(BF16))
        assert isinstance(found, Revealed)
        assert found.tree == chain_of(range(units))
