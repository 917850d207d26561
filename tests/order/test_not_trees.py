"""Sums that no tree of additions gives are told apart and named, never forced into one."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from kernelsmith.numerics.order import (
    FORMATS,
    Reading,
    Revealed,
    Unexplained,
    reveal_nonnegative,
    reveal_signed,
    squares,
)
from kernelsmith.numerics.order.confirm import confirming_rows
from tests.order.kernels import Nested, Rows, chain, float32_sum, kernel, written

UNITS = 40
FLOAT32 = written("float32")


def kahan(rows: Rows) -> Rows:
    terms = rows.astype(np.float32)
    total = lost = np.zeros(len(terms), dtype=np.float32)
    for column in terms.T:
        corrected = column - lost
        grown = total + corrected
        lost = (grown - total) - corrected
        total = grown
    return total.astype(np.float64)


def double_double(rows: Rows) -> Rows:
    """Two sums of which the second one keeps what the first one loses (TwoSum)."""
    terms = rows.astype(np.float32)
    high = low = np.zeros(len(terms), dtype=np.float32)
    for column in terms.T:
        grown = high + column
        back = grown - high
        low = low + ((high - (grown - back)) + (column - back))
        high = grown
    return (high + low).astype(np.float64)


def exact(rows: Rows) -> Rows:
    return FLOAT32(np.array([math.fsum(row) for row in rows]))


def tf32(rows: Rows) -> Rows:
    return float32_sum(chain(0, UNITS), _to_11_bits(rows)).astype(np.float64)


def _to_11_bits(rows: Rows) -> Rows:
    significand, exponent = np.frexp(rows)
    return np.ldexp(np.rint(significand * 2**11), exponent - 11)


def bfloat16_terms(rows: Rows) -> Rows:
    return float32_sum(chain(0, UNITS), written("bfloat16")(rows)).astype(np.float64)


def fixed_point(rows: Rows) -> Rows:
    with np.errstate(over="ignore"):
        return np.rint(np.clip(rows, -(2.0**20), 2.0**20) * 2**16).sum(axis=1) / 2**16


def by_magnitude(rows: Rows) -> Rows:
    order = np.argsort(np.abs(rows), axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    return float32_sum(chain(0, UNITS), ordered).astype(np.float64)


def atomics() -> Callable[[Rows], Rows]:
    random = np.random.default_rng(7)

    def ask(rows: Rows) -> Rows:
        sums = np.zeros(len(rows))
        for index, row in enumerate(rows):
            sums[index] = np.cumsum(row[random.permutation(UNITS)].astype(np.float32))[-1]
        return sums

    return ask


NAMED: dict[str, tuple[Callable[[Rows], Rows], str]] = {
    "kahan": (kahan, "Kahan"),
    "double_double": (double_double, "compensated"),
    "exact": (exact, "the sum is exact"),
    "tf32": (tf32, "terms are rounded to 11 bits"),
    "bfloat16_terms": (bfloat16_terms, "terms are rounded to bfloat16"),
    "atomics": (atomics(), "the same numbers gave two sums"),
    "fixed_point": (fixed_point, "a number and its negative|no tree|left out|not made of"),
    "by_magnitude": (by_magnitude, "not made of additions|does not give the kernel's sums"),
    "bias": (lambda rows: kernel(chain(0, UNITS))(rows) + 0.5, "another term takes part"),
    "missing": (lambda rows: kernel(chain(1, UNITS))(rows), "left out"),
    "twice": (lambda rows: kernel((chain(0, UNITS), 3))(rows), "counted twice"),
    "one_output_of_two": (lambda rows: kernel(chain(0, UNITS // 2))(rows), "left out"),
    "nan": (lambda rows: np.full(len(rows), np.nan), "zeros sum to nan"),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_through_float32_and_bfloat16(name: str) -> None:
    ask, words = NAMED[name]
    for output in ("float32", "bfloat16"):
        write = written(output)
        reading = Reading(unit=FORMATS["float32"], output=FORMATS[output])
        found = reveal_signed(lambda rows, write=write: write(ask(rows)), UNITS, reading)
        assert isinstance(found, Unexplained), found
        assert found.queries > 0
        assert any(word in found.sentence for word in words.split("|")), found.sentence


def test_the_first_row_that_disagrees_is_shown() -> None:
    ask, _ = NAMED["kahan"]
    found = reveal_signed(ask, UNITS, Reading(unit=FORMATS["float32"], output=FORMATS["float32"]))
    assert isinstance(found, Unexplained)
    assert found.inputs is not None
    row = np.array([found.inputs])
    assert ask(row)[0] == found.actual
    assert found.actual != found.expected


def test_an_expected_tree_does_not_excuse_a_compensated_sum() -> None:
    reading = Reading(unit=FORMATS["float32"], output=FORMATS["float32"])
    plain = reveal_signed(kernel(chain(0, UNITS)), UNITS, reading)
    assert isinstance(plain, Revealed)
    found = reveal_signed(kahan, UNITS, reading, expected=plain.tree)
    assert isinstance(found, Unexplained)


@pytest.mark.parametrize("units", [12, UNITS])
@pytest.mark.parametrize("name", ["kahan", "double_double", "exact", "double"])
def test_compensated_and_wide_sums_of_squares_show_no_order(name: str, units: int) -> None:
    total = {"kahan": kahan, "double_double": double_double, "exact": exact}.get(
        name, lambda rows: FLOAT32(rows.sum(axis=1))
    )
    found = reveal_nonnegative(lambda rows: total(rows * rows), units, squares(FORMATS["bfloat16"]))
    assert isinstance(found, Unexplained)


def test_atomics_over_squares_are_found() -> None:
    ask = atomics()
    found = reveal_nonnegative(lambda rows: ask(rows * rows), UNITS, squares(FORMATS["bfloat16"]))
    assert isinstance(found, Unexplained)


def test_a_kernel_that_recognises_probes_is_caught_by_other_numbers() -> None:
    probe_tree = kernel(chain(0, UNITS), "bfloat16")
    exchanged = kernel(_exchanged(UNITS, 11), "bfloat16")

    def ask(rows: Rows) -> Rows:
        powers = (np.frexp(rows)[0] == np.sign(rows) / 2) | (rows == 0)
        return np.where(powers.all(axis=1), probe_tree(rows), exchanged(rows))

    reading = Reading(unit=FORMATS["bfloat16"], output=FORMATS["bfloat16"])
    found = reveal_signed(ask, UNITS, reading)
    assert isinstance(found, Unexplained)
    assert "does not give the kernel's sums of other numbers" in found.sentence


def _exchanged(units: int, place: int) -> Nested:
    """A chain in which two neighbours are exchanged."""
    order = list(range(units))
    order[place], order[place + 1] = order[place + 1], order[place]
    total: Nested = order[0]
    for unit in order[1:]:
        total = (total, unit)
    return total


@pytest.mark.parametrize("unit", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("output", ["float32", "bfloat16"])
def test_confirming_rows_tell_two_neighbours_exchanged(unit: str, output: str) -> None:
    seen = 0
    for draw in range(20):
        place = 1 + draw % (UNITS - 2)
        rows = confirming_rows(UNITS, FORMATS[unit], draw)
        assert (rows == written(unit)(rows)).all()
        one, other = kernel(chain(0, UNITS), output), kernel(_exchanged(UNITS, place), output)
        seen += bool((one(rows) != other(rows)).any())
    assert seen >= 17
