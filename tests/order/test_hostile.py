"""Kernels that answer as they please: no wrong tree and no crash; and the arithmetic's edges."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith.numerics.order import (
    FORMATS,
    Budget,
    Reading,
    Revealed,
    Tree,
    Unexplained,
    exponentials,
    reveal_nonnegative,
    reveal_signed,
    squares,
)
from kernelsmith.numerics.order.arithmetic import Arithmetic, exact_sum, simulate
from kernelsmith.numerics.order.asking import Steps, drive
from kernelsmith.numerics.order.cancelling import scales
from kernelsmith.numerics.order.formats import cut, rounded
from kernelsmith.numerics.order.nonnegative import Levels, NonnegativeTriples
from kernelsmith.numerics.order.signed import basic
from tests.order.kernels import (
    Nested,
    Rows,
    balanced,
    chain,
    float32_sum,
    kernel,
    nested_trees,
    written,
)

BF16 = Reading(unit=FORMATS["bfloat16"], output=FORMATS["float32"])
UNITS = 12


def noise(seed: int, values: list[float]) -> Callable[[Rows], Rows]:
    """Sums single units truly, as every kernel must, and answers everything else at random."""
    random = np.random.default_rng(seed)

    def ask(rows: Rows) -> Rows:
        sums = rows.sum(axis=1)
        probes = np.abs(rows).max(axis=1) > 1000
        return np.where(probes & (sums != 0), random.choice(values, len(rows)), sums)

    return ask


@pytest.mark.parametrize("method", ["basic", "refined", "triples"])
@pytest.mark.parametrize("values", [list(range(12)), [0.0, 1.0], [np.nan, 1.0], [np.inf, 0.5]])
def test_random_answers_make_no_tree_and_no_crash(method: str, values: list[float]) -> None:
    for seed in range(12):
        found = reveal_signed(noise(seed, values), UNITS, BF16, method=method)
        assert isinstance(found, Unexplained)


def test_random_answers_about_squares_make_no_tree_and_no_crash() -> None:
    for seed in range(12):
        random = np.random.default_rng(seed)
        found = reveal_nonnegative(
            lambda rows, random=random: random.integers(0, 3, len(rows)).astype(float),
            UNITS,
            squares(FORMATS["bfloat16"]),
        )
        assert not isinstance(found, Revealed)


LIES = [[0.0, 1.0], [0.0, 1.0, 2.0, 3.0], [np.nan], [np.inf, -np.inf], [1e30], [-1.0, 0.5]]


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    nested_trees(most=16, widest=3),
    st.sampled_from([0.001, 0.02, 0.3]),
    st.sampled_from(LIES),
    st.sampled_from(["basic", "refined", "triples"]),
    st.integers(0, 2**32 - 1),
)
def test_a_kernel_that_lies_now_and_then_is_given_its_own_tree_or_none(
    nested: Nested, often: float, lies: list[float], method: str, seed: int
) -> None:
    tree = Tree.of(nested)
    random = np.random.default_rng(seed)
    honest = kernel(nested)

    def ask(rows: Rows) -> Rows:
        lying = random.random(len(rows)) < often
        return np.where(lying, random.choice(lies, len(rows)), honest(rows))

    for found in (
        reveal_signed(ask, tree.units, BF16, method=method),
        reveal_nonnegative(lambda rows: ask(rows * rows), tree.units, squares(BF16.unit)),
    ):
        assert not isinstance(found, Revealed) or found.tree == tree
        assert found.sentence


@pytest.mark.parametrize("fused", ["exact", "cut"])
def test_a_kernel_that_adds_some_fused_terms_first_is_not_taken_for_the_fused_one(
    fused: str,
) -> None:
    expected = Tree.of(((0, 1, 2, 3), 4))
    for nested in (
        ((0, 1), 2, 3),
        ((1, 2), 0, 3),
        (0, 1, (2, 3)),
        ((0, 3), (1, 2)),
        (0, (1, 2, 3)),
    ):
        found = reveal_signed(kernel((nested, 4), fused=fused), 5, BF16, expected=expected)
        assert isinstance(found, Revealed)
        assert found.tree == Tree.of((nested, 4))
        if fused == "exact":
            squared = reveal_nonnegative(
                lambda rows, nested=nested: float32_sum((nested, 4), rows * rows).astype(float),
                5,
                squares(FORMATS["bfloat16"]),
                expected=expected,
            )
            assert isinstance(squared, Revealed)
            assert squared.tree == Tree.of((nested, 4))


def test_a_fused_sum_that_loses_nothing_is_not_taken_for_sums_of_two() -> None:
    fused = ((0, 1, 2), 3)
    for nested in (((0, 1), 2), (0, (1, 2)), ((0, 2), 1)):
        found = reveal_signed(kernel(fused), 4, BF16, expected=Tree.of((nested, 3)))
        assert isinstance(found, Revealed)
        assert found.tree == Tree.of(fused)


def test_a_reading_that_is_neither_still_nor_moved_is_no_answer() -> None:
    levels = Levels(
        big=4096.0,
        small=0.75,
        double=1.0,
        none=0.0,
        still_N=np.array([16.0, 16.0, 16.0]),
        moved_N=np.array([18.0, 18.0, 18.0]),
    )
    triples = np.array([[0, 1, 2]] * 4)
    sums = np.array([16.0, 18.0, 20.0, np.nan])
    assert NonnegativeTriples(levels).decode(triples, sums).tolist() == [0, 1, -1, -1]


def crowd(rows: Rows) -> Rows:
    return (rows > 0).sum(axis=1) > 3


def test_squares_that_are_summed_otherwise_when_there_are_many_are_caught() -> None:
    few, many = chain(0, 32), balanced(list(range(32)))

    def ask(rows: Rows) -> Rows:
        squared = rows * rows
        return np.where(crowd(rows), float32_sum(many, squared), float32_sum(few, squared))

    found = reveal_nonnegative(ask, 32, squares(FORMATS["bfloat16"]))
    assert isinstance(found, Unexplained)
    assert found.inputs is not None
    assert ask(np.array([found.inputs]))[0] == found.actual != found.expected


def test_squares_whose_order_changes_when_there_are_many_are_caught() -> None:
    random = np.random.default_rng(0)
    few = chain(0, 32)

    def ask(rows: Rows) -> Rows:
        squared = rows * rows
        sums = float32_sum(few, squared).astype(np.float64)
        mixed = [float32_sum(few, row[None, random.permutation(32)])[0] for row in squared]
        return np.where(crowd(rows), mixed, sums)

    found = reveal_nonnegative(ask, 32, squares(FORMATS["bfloat16"]))
    assert isinstance(found, Unexplained)
    assert "two sums" in found.sentence


def test_a_third_answer_to_a_triple_is_no_answer() -> None:
    def ask(rows: Rows) -> Rows:
        sums = float32_sum(chain(0, UNITS), rows * rows).astype(np.float64)
        return sums + 4.0 * ((rows > 0).sum(axis=1) == 3)

    found = reveal_nonnegative(ask, UNITS, squares(FORMATS["bfloat16"]))
    assert isinstance(found, Unexplained)
    assert "in no order that a tree could have" in found.sentence


def test_one_count_that_contradicts_the_others_is_seen_by_the_basic_search() -> None:
    scale = scales(8, BF16)[0]
    honest = kernel(balanced(list(range(8))))
    for wrong in (2.0, 6.0):

        def ask(rows: Rows, wrong: float = wrong) -> Rows:
            pair = (np.abs(rows[:, [2, 5]]) > 1000).all(axis=1)
            return np.where(pair, wrong, honest(rows))

        def steps() -> Steps:
            found = yield from basic(8, scale)
            if isinstance(found, Tree):
                return Revealed(tree=found, arithmetic="", confirmed=0)
            return found

        assert isinstance(drive(steps(), ask, Budget()), Unexplained)
        assert isinstance(drive(steps(), honest, Budget()), Revealed)


@pytest.mark.parametrize("unit", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("units", [2, 100, 5000, 2**15])
def test_all_ones_together_are_lost_beside_m(unit: str, units: int) -> None:
    reading = Reading(unit=FORMATS[unit], output=FORMATS["float32"])
    found = scales(units, reading)
    for scale in found:
        narrow = (scale.big, scale.one) == (2.0**15, 2.0**-10)
        assert not narrow or scale is found[-1] is not found[0]
        assert units * scale.one < scale.big / 2 ** (11 if narrow else 24) / 2
    assert found or (unit == "float16" and units == 2**15)


FLOATS = st.floats(-1e6, 1e6, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)


@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=6))
def test_exact_sums_round_once(terms: list[float]) -> None:
    """Rounding to odd and then to float32 is rounding the exact sum to float32."""
    exact = sum(map(Fraction, terms), Fraction(0))
    once = np.float32(exact_sum(np.array(terms)))
    neighbours = [once, *(np.nextafter(once, np.float32(to)) for to in (-np.inf, np.inf))]
    distance = [abs(Fraction(float(value)) - exact) for value in neighbours]
    assert distance[0] == min(distance)


def test_a_tie_is_broken_by_what_is_beneath_it() -> None:
    terms = np.array([1.0, 2.0**-24, 2.0**-80])
    assert np.float32(exact_sum(terms)) == np.float32(1 + 2.0**-23)
    assert np.float32(exact_sum(terms * [1, 1, -1])) == 1
    assert np.float32(exact_sum(np.array([-1.0, -(2.0**-24), -(2.0**-80)]))) < -1


def test_a_sum_that_is_cut_goes_below_what_it_nearly_is() -> None:
    tree = Tree.of((0, 1))
    rows = np.array([[1.0, -(2.0**-80)], [-1.0, 2.0**-80], [1.0, 2.0**-80], [3.0, 2.0**-23]])
    sums = simulate(tree, rows, Arithmetic(toward_zero=True))
    assert sums.tolist() == [1 - 2.0**-24, -1 + 2.0**-24, 1.0, 3.0]
    assert cut(np.array([-1.75]), 2).tolist() == [-1.5]


def test_rounding_to_formats_is_numpys_and_bfloat16s() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=2000) * 2.0 ** random.integers(-140, 130, 2000)
    values = np.concatenate(
        [values, [0.0, 65519.9, 65520.0, 2.0**-25, 3 * 2.0**-25, np.inf, np.nan]]
    )
    with np.errstate(over="ignore"):
        for dtype in ("float32", "float16"):
            wanted = values.astype(dtype).astype(np.float64)
            assert np.array_equal(rounded(values, FORMATS[dtype]), wanted, equal_nan=True)
        single = values.astype(np.float32)
    narrow = rounded(single.astype(np.float64), FORMATS["bfloat16"])
    assert np.array_equal(narrow, written("bfloat16")(single), equal_nan=True)


def test_exponentials_of_a_narrow_format_fit() -> None:
    terms = exponentials(FORMATS["bfloat16"])
    inputs = terms.input_for(np.array([2.0**-24.5]))
    assert (inputs == written("bfloat16")(inputs)).all()
    assert terms.value(np.array([terms.none])) == 0
