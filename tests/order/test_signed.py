"""Trees of signed terms are found exactly, in few queries, through every output."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith.errors import InfrastructureError, InputError
from kernelsmith.numerics.order import (
    FORMATS,
    Budget,
    Exhausted,
    Reading,
    Revealed,
    Tree,
    Unreachable,
    factors,
    product_format,
    reveal_signed,
)
from kernelsmith.numerics.order.confirm import ROWS
from kernelsmith.numerics.order.formats import Format
from kernelsmith.numerics.order.tree import chain as chain_of
from kernelsmith.numerics.order.tree import joined
from tests.order.kernels import (
    Nested,
    Rows,
    balanced,
    chain,
    float32_sum,
    kernel,
    nested_trees,
    random_nested,
    written,
)

BF16 = Reading(unit=FORMATS["bfloat16"], output=FORMATS["float32"])
DTYPES = st.sampled_from(["float32", "bfloat16", "float16"])


@settings(derandomize=True, max_examples=30, deadline=None)
@given(
    nested_trees(),
    DTYPES,
    DTYPES,
    st.sampled_from(["basic", "refined", "triples"]),
    st.sampled_from(["exact", "cut"]),
)
def test_every_tree_is_found_by_every_search(
    nested: Nested, unit: str, output: str, method: str, fused: str
) -> None:
    tree = Tree.of(nested)
    reading = Reading(unit=FORMATS[unit], output=FORMATS[output])
    ask = kernel(nested, output, fused)
    found = reveal_signed(ask, tree.units, reading, method=method)
    assert isinstance(found, Revealed), found.sentence
    assert found.tree == tree
    if tree.widest == 2:
        assert found.arithmetic == "float32, rounded to nearest"


@settings(derandomize=True, max_examples=12, deadline=None)
@given(nested_trees(most=40), st.sampled_from(["exact", "cut"]))
def test_the_expected_tree_is_seen_in_one_round_and_no_other_is(nested: Nested, fused: str) -> None:
    tree = Tree.of(nested)
    ask = kernel(nested, "bfloat16", fused)
    reading = Reading(unit=FORMATS["bfloat16"], output=FORMATS["bfloat16"])
    found = reveal_signed(ask, tree.units, reading, expected=tree)
    assert isinstance(found, Revealed)
    assert found.tree == tree
    assert found.rounds <= 6
    others = [chain_of(range(tree.units)), chain_of(reversed(range(tree.units)))]
    for other in others + neighbours_of(tree):
        wrong = reveal_signed(ask, tree.units, reading, expected=other)
        assert isinstance(wrong, Revealed)
        assert wrong.tree == tree


def neighbours_of(tree: Tree) -> list[Tree]:
    """Trees that differ in one place: a sum put into the one around it, two units exchanged."""
    found = []
    for index in {0, len(tree.nodes) // 2, len(tree.nodes) - 2} & set(range(len(tree.nodes) - 1)):
        names = {-1 - tree.units - at: children for at, children in enumerate(tree.nodes)}
        inner, around = tree.units + index, tree.parents()[tree.units + index]
        taken_in = [child for child in names[-1 - around] if child != inner]
        names[-1 - around] = (*taken_in, *names.pop(-1 - inner))
        found.append(joined(-1 - tree.root, _named(names, tree.units)))
    if tree.units > 3:
        exchanged = {0: 1, 1: 0}
        names = {
            -1 - tree.units - at: tuple(exchanged.get(child, child) for child in children)
            for at, children in enumerate(tree.nodes)
        }
        found.append(joined(-1 - tree.root, _named(names, tree.units)))
    return found


def _named(names: dict[int, tuple[int, ...]], units: int) -> dict[int, tuple[int, ...]]:
    return {
        name: tuple(child if child < units else -1 - child for child in children)
        for name, children in names.items()
    }


def _steps(nested: Nested, units: int) -> int:
    """Queries of the search alone: all but the scale, the reach, the widths and the confirming."""
    found = reveal_signed(kernel(nested), units, BF16)
    assert isinstance(found, Revealed)
    assert found.tree == Tree.of(nested)
    binary = 2 * (units - 2) + 22
    return found.queries - 4 - math.ceil(units / 6) - binary - 2 * ROWS


def test_a_chain_takes_a_query_a_unit() -> None:
    assert _steps(chain(0, 256), 256) <= 256
    assert _steps(_turned(chain(0, 256), 255), 256) <= 2 * 256


def _turned(nested: Nested, last: int) -> Nested:
    if isinstance(nested, int):
        return last - nested
    return tuple(_turned(child, last) for child in nested)


@pytest.mark.parametrize("units", [64, 256, 512])
def test_a_balanced_tree_takes_half_n_log_n(units: int) -> None:
    assert _steps(balanced(list(range(units))), units) <= units * math.log2(units) / 2 + units


def test_other_trees_take_little_more_than_n_log_n() -> None:
    for seed in range(4):
        nested = random_nested(256, 2, random.Random(seed))
        assert _steps(nested, 256) <= 2 * 256 * math.log2(256)


def test_the_basic_search_asks_all_pairs_at_once() -> None:
    found = reveal_signed(kernel(chain(0, 32)), 32, BF16, method="basic")
    assert isinstance(found, Revealed)
    assert found.queries >= 32 * 31 // 2
    assert found.rounds <= 6


@pytest.mark.parametrize(
    ("nested", "most"),
    [
        ((chain(0, 300), chain(300, 600)), 7.1),
        (balanced([chain(at, at + 75) for at in range(0, 600, 75)]), 8.4),
        (random_nested(600, 2, random.Random(1)), 8.9),
        (random_nested(600, 4, random.Random(2)), 22),
    ],
    ids=["two parts", "blocks", "any", "any with fused sums"],
)
def test_more_units_than_a_bfloat16_output_counts(nested: Nested, most: float) -> None:
    reading = Reading(unit=FORMATS["bfloat16"], output=FORMATS["bfloat16"])
    found = reveal_signed(kernel(nested, "bfloat16", "cut"), 600, reading)
    assert isinstance(found, Revealed)
    assert found.tree == Tree.of(nested)
    assert found.queries <= most * 600


def test_what_follows_the_sum_is_read_through() -> None:
    nested = balanced(list(range(32)))
    write = written("bfloat16")
    weight = np.float32(1 / 3)
    ask = lambda rows: write(float32_sum(nested, rows) * weight)  # noqa: E731
    reading = Reading(
        unit=FORMATS["bfloat16"], output=FORMATS["bfloat16"], after=lambda sums: sums * weight
    )
    found = reveal_signed(ask, 32, reading)
    assert isinstance(found, Revealed)
    assert found.tree == Tree.of(nested)


def test_products_of_two_factors() -> None:
    half = FORMATS["float16"]
    unit = product_format(half, half)
    nested = chain(0, 40)

    def ask(rows: Rows) -> Rows:
        a, b = factors(rows, half, half)
        assert (a == written("float16")(a)).all()
        assert (b == written("float16")(b)).all()
        return float32_sum(nested, a * b).astype(np.float64)

    found = reveal_signed(ask, 40, Reading(unit=unit, output=FORMATS["float32"]))
    assert isinstance(found, Revealed)
    assert found.tree == Tree.of(nested)


def test_numpy_sums_in_eight_lanes() -> None:
    found = reveal_signed(
        lambda rows: rows.astype(np.float32).sum(axis=1).astype(np.float64), 64, BF16
    )
    assert isinstance(found, Revealed)
    lanes = [tuple_chain(range(lane, 64, 8)) for lane in range(8)]
    assert found.tree == Tree.of(balanced(lanes))


def tuple_chain(units: range) -> Nested:
    total: Nested = units[0]
    for unit in units[1:]:
        total = (total, unit)
    return total


def test_a_cumulative_sum_is_a_chain() -> None:
    ask = lambda rows: np.cumsum(rows.astype(np.float32), axis=1)[:, -1].astype(float)  # noqa: E731
    found = reveal_signed(ask, 50, BF16)
    assert isinstance(found, Revealed)
    assert found.tree == chain_of(range(50))


def test_the_accumulators_format_is_found() -> None:
    write = written("float32")
    double = reveal_signed(lambda rows: write(np.cumsum(rows, axis=1)[:, -1]), 30, BF16)
    assert isinstance(double, Revealed)
    assert set(double.tree.bits) == {53}
    assert double.arithmetic.startswith("float64")

    def narrow(dtype: str) -> Revealed:
        def ask(rows: Rows) -> Rows:
            total = rows[:, 0]
            for column in rows.T[1:]:
                with np.errstate(invalid="ignore"):
                    total = written(dtype)(np.asarray(total + column))
            return total

        found = reveal_signed(ask, 30, BF16)
        assert isinstance(found, Revealed), found.sentence
        assert found.tree.nodes == chain_of(range(30)).nodes
        return found

    assert set(narrow("bfloat16").tree.bits) == {8}
    assert set(narrow("float16").tree.bits) == {11}


def test_partial_sums_that_were_rounded_are_found() -> None:
    write = written("bfloat16")

    def ask(rows: Rows) -> Rows:
        parts = [write(float32_sum(chain(at, at + 8), rows)) for at in range(0, 32, 8)]
        total = parts[0].astype(np.float32)
        for part in parts[1:]:
            total = total + part.astype(np.float32)
        return total.astype(np.float64)

    found = reveal_signed(ask, 32, BF16)
    assert isinstance(found, Revealed)
    rounded = [bits for bits in found.tree.bits if bits != 24]
    assert rounded == [8] * 4
    assert found.arithmetic.startswith("float32, some sums bfloat16")


def test_a_spent_budget_is_no_tree() -> None:
    found = reveal_signed(kernel(chain(0, 64)), 64, BF16, budget=Budget(queries=200))
    assert isinstance(found, Exhausted)
    assert found.queries <= 200
    assert "200" in found.sentence


def test_a_batch_is_never_exceeded_and_the_bits_do_not_depend_on_it() -> None:
    seen: list[int] = []
    ask = kernel(balanced(list(range(32))))

    def counting(rows: Rows) -> Rows:
        seen.append(len(rows))
        return ask(rows)

    small = reveal_signed(counting, 32, BF16, budget=Budget(batch=7))
    assert max(seen) == 7
    assert small == reveal_signed(ask, 32, BF16)


def test_a_format_too_small_to_probe_is_unreachable() -> None:
    tiny = Format(name="float8", bits=4, top=8, normal=-6, bottom=-9)
    found = reveal_signed(kernel(chain(0, 8)), 8, Reading(unit=tiny, output=FORMATS["float32"]))
    assert isinstance(found, Unreachable)
    assert "float8" in found.sentence


def test_one_unit_is_a_tree() -> None:
    found = reveal_signed(lambda rows: rows[:, 0], 1, BF16)
    assert isinstance(found, Revealed)
    assert str(found.tree) == "0"


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError):
        reveal_signed(kernel(0), 0, BF16)
    with pytest.raises(InputError, match="3 units"):
        reveal_signed(kernel(chain(0, 4)), 4, BF16, expected=chain_of(range(3)))
    with pytest.raises(InputError):
        reveal_signed(kernel(chain(0, 4)), 4, BF16, budget=Budget(queries=0))
    with pytest.raises(InfrastructureError, match="shape"):
        reveal_signed(lambda rows: rows, 4, BF16)


@pytest.mark.parametrize("units", [64, 256])
def test_a_running_total_of_a_tensor_core_takes_few_rounds(units: int) -> None:
    total: Nested = tuple(range(16))
    for at in range(16, units, 16):
        total = (total, *range(at, at + 16))
    found = reveal_signed(kernel(total, fused="cut"), units, BF16)
    assert isinstance(found, Revealed)
    assert found.tree == Tree.of(total)
    assert "terms aligned to the largest with 1 guard bits, cut" in found.arithmetic
    assert found.rounds <= 9
    assert found.queries <= 9 * units + 400
