"""The comparison itself: a flipped bit, an ulp too many, a lost NaN payload, a written input."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.conformance.case import (
    BITS,
    Case,
    Stored,
    Tolerance,
    bind,
    collect,
    faults,
    given,
    result,
    ulp,
)
from tests.conformance.values import STORAGE, bits, narrow, widen


def doubling(dtype: str = "fp32", **changes: Any) -> Case:
    """y = 2 x over 64 elements; the kernel is never run here."""
    case = Case(
        family="comparison", name="double", ops=("mul",), dtype=dtype, kernel=None,
        args=(given(dtype, 64), result(dtype, 64)), oracle=lambda x: 2 * x, constants={},
    )  # fmt: skip
    return replace(case, **changes)


def right(case: Case) -> np.ndarray:
    return narrow(case.dtype, 2 * widen(case.dtype, case.inputs()[0]))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp64", "fp8e4nv", "int8"])
def test_one_flipped_bit_is_a_fault(dtype: str) -> None:
    case = doubling(dtype, oracle=lambda x: (2 * x).astype(x.dtype))
    out = right(case)
    assert not faults(case, [out])
    bits(out)[17] ^= 1
    (line,) = faults(case, [out])
    assert "1 of 64 differ, first at 17" in line


def test_a_tolerance_in_ulp_is_that_of_the_output_type() -> None:
    case = doubling(tolerance=ulp(1.5))
    out = right(case)
    bits(out)[3] += 1
    assert not faults(case, [out])
    bits(out)[3] += 1
    assert "off by 2 ulp" in faults(case, [out])[0]
    assert faults(replace(case, tolerance=BITS), [out])


@pytest.mark.parametrize("tolerance", [ulp(1e9), Tolerance(kind="near", bound=1e9)])
def test_a_nan_where_a_number_is_due_has_no_tolerance(tolerance: Tolerance) -> None:
    case = doubling(tolerance=tolerance)
    out = right(case)
    assert not faults(case, [out])
    out[9] = np.nan
    assert "off by nan" in faults(case, [out])[0]


def test_infinities_and_nan_have_no_tolerance() -> None:
    case = doubling(oracle=lambda x: np.where(x > 0, np.inf, np.nan), tolerance=ulp(1e9))
    x = widen("fp32", case.inputs()[0])
    out = np.where(x > 0, np.float32(np.inf), np.float32(np.nan)).astype(np.float32)
    assert not faults(case, [out])
    out[np.nonzero(x > 0)[0][0]] = np.finfo(np.float32).max
    assert "infinities and NaN" in faults(case, [out])[0]


def test_a_moved_nan_keeps_its_payload() -> None:
    payload = np.full(64, 0x7FA00123, np.uint32).view(np.float32)
    case = doubling(oracle=lambda x: Stored(array=payload))
    assert not faults(case, [payload])
    assert faults(case, [np.full(64, np.nan, np.float32)])


def test_a_written_input_is_seen() -> None:
    case = doubling()
    values = bind(case)
    collect(case, values)
    values[0][5] += 1
    with pytest.raises(AssertionError, match="wrote an input"):
        collect(case, values)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16"])
def test_rounding_is_to_the_nearest_value_of_the_type(dtype: str) -> None:
    """Every value of a small type, and the points between two of them."""
    every = np.arange(1 << 8 * np.dtype(STORAGE[dtype]).itemsize).astype(
        f"u{np.dtype(STORAGE[dtype]).itemsize}"
    )
    values = widen(dtype, every.view(STORAGE[dtype]))
    ordered = np.unique(values[np.isfinite(values)])
    assert (widen(dtype, narrow(dtype, ordered)) == ordered).all()
    middle = (ordered[1:] + ordered[:-1]) / 2
    low = widen(dtype, narrow(dtype, np.nextafter(middle, -np.inf)))
    high = widen(dtype, narrow(dtype, np.nextafter(middle, np.inf)))
    assert (low == ordered[:-1]).all()
    assert (high == ordered[1:]).all()
    even = bits(narrow(dtype, middle)) & 1
    assert not even.any()
