"""8-bit floats and downcasts toward zero, against tables of every representable number."""

import itertools
import math

import numpy as np
import pytest

from tests.devices.ttir_texts import STORAGE, Array, apply, floats, same_bits, widen

# mantissa bits, bias, code of the largest finite number, of infinity (None), of NaN, has -0
TYPES = {
    "f8E4M3FN": (3, 7, 0x7E, None, 0x7F, True),
    "f8E5M2": (2, 15, 0x7B, 0x7C, 0x7F, True),
    "f8E4M3FNUZ": (3, 8, 0x7F, None, 0x80, False),
    "f8E5M2FNUZ": (2, 16, 0x7F, None, 0x80, False),
    "f16": (10, 15, 0x7BFF, 0x7C00, 0x7E00, True),
    "bf16": (7, 127, 0x7F7F, 0x7F80, 0x7FC0, True),
    "f32": (23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, True),
}
EIGHT = [name for name in TYPES if name.startswith("f8")]


def value_of(elem: str, code: int) -> float:
    """The definition of the formats."""
    mantissa, bias, _, infinity, nan, signed_zero = TYPES[elem]
    sign, rest = (-1.0 if code & 0x80 else 1.0), code & 0x7F
    if (code == nan) if not signed_zero else rest > (infinity or nan - 1):
        return math.nan
    if rest == infinity:
        return sign * math.inf
    exponent, fraction = rest >> mantissa, rest & ((1 << mantissa) - 1)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - mantissa)
    return sign * (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)


@pytest.mark.parametrize("elem", EIGHT)
def test_every_8_bit_float_widens_exactly(elem: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    want = np.array([value_of(elem, int(c)) for c in codes])
    outs = [(f"%r = tt.fp_to_fp %x0 : $T({elem}) -> $T({t})", t) for t in ("f32", "f16", "f64")]
    single, half, double = apply((elem,), outs, codes)
    same_bits(single, np.where(np.isnan(want), np.nan, want).astype(np.float32), elem)
    same_bits(half.view(np.uint16), want.astype(np.float16).view(np.uint16), elem)
    same_bits(double, want, elem)
    assert set(single.view(np.uint32)[np.isnan(want)]) <= {0x7FC00000}


def magnitudes(elem: str) -> list[float]:
    """All finite magnitudes of an 8-bit type in order; their position is their code."""
    return [value_of(elem, code) for code in range(TYPES[elem][2] + 1)]


def nearest_code(elem: str, table: list[float], value: float) -> int:
    """Round to nearest, ties to the even code, saturating."""
    _, _, largest, _, nan, signed_zero = TYPES[elem]
    if value != value:
        return nan
    size = abs(value)
    above = next((i for i, m in enumerate(table) if m >= size), largest + 1)
    if above > largest:
        code = largest
    elif table[above] == size or above == 0:
        code = above
    else:
        low, high = size - table[above - 1], table[above] - size  # exact: float64 holds both
        code = above - 1 if low < high or (low == high and (above - 1) % 2 == 0) else above
    negative = math.copysign(1.0, value) < 0
    return code | (0x80 if negative and (code or signed_zero) else 0)


def interesting(elem: str, source: str) -> Array:
    """Source values at, beside and half way between the type's numbers, and beyond them."""
    table = magnitudes(elem)
    mids = [(a + b) / 2 for a, b in itertools.pairwise(table)]
    points = np.array([*table, *mids, table[-1] * 1.01, table[-1] * 2, np.inf, np.nan], np.float64)
    dtype = STORAGE[source]
    exact = points.astype(dtype)
    beside = [np.nextafter(exact, dtype(np.inf)), np.nextafter(exact, dtype(-np.inf))]
    every = np.concatenate([exact, *beside])
    every = np.concatenate([every, -every])
    out = np.zeros(2048, dtype)
    out[: min(every.size, 2048)] = every[:2048]
    return out


@pytest.mark.parametrize("source", ["f32", "f16", "f64"])
@pytest.mark.parametrize("elem", EIGHT)
def test_a_downcast_to_8_bits_rounds_once_and_saturates(elem: str, source: str) -> None:
    with np.errstate(all="ignore"):
        values = interesting(elem, source)
    table = magnitudes(elem)
    want = np.array([nearest_code(elem, table, float(v)) for v in values], np.uint8)
    op = f"%r = tt.fp_to_fp %x0, rounding = rtne : $T({source}) -> $T({elem})"
    (got,) = apply((source,), [(op, elem)], values, shape=(2048,))
    same_bits(got, want, f"{source} to {elem}")


@pytest.mark.parametrize("elem", EIGHT)
def test_a_downcast_toward_zero_cuts_and_keeps_infinity_where_there_is_one(elem: str) -> None:
    with np.errstate(all="ignore"):
        values = interesting(elem, "f32")
    table, infinity = magnitudes(elem), TYPES[elem][3]

    def cut(value: float) -> int:
        if value != value:
            return TYPES[elem][4]
        size = abs(value)
        code = max(i for i, m in enumerate(table) if m <= size)
        if math.isinf(size) and infinity is not None:
            code = infinity
        negative = math.copysign(1.0, value) < 0
        return code | (0x80 if negative and (code or TYPES[elem][5]) else 0)

    want = np.array([cut(float(v)) for v in values], np.uint8)
    op = f"%r = tt.fp_to_fp %x0, rounding = rtz : $T(f32) -> $T({elem})"
    (got,) = apply(("f32",), [(op, elem)], values, shape=(2048,))
    same_bits(got, want, elem)


@pytest.mark.parametrize(("source", "target"), [("f32", "f16"), ("f32", "bf16"), ("f64", "f32"),
                                                ("f64", "f16"), ("f64", "bf16")])  # fmt: skip
def test_wider_downcasts_toward_zero_never_grow(source: str, target: str) -> None:
    values = floats(source, 256, 11)
    op = f"%r = tt.fp_to_fp %x0, rounding = rtz : $T({source}) -> $T({target})"
    (got,) = apply((source,), [(op, target)], values)
    _, _, largest, infinity, nan, _ = TYPES[target]
    assert infinity is not None
    width = 31 if target == "f32" else 15
    for value, stored in zip(values, got, strict=True):
        code = int(stored.view(f"u{stored.itemsize}"))
        size = code & ((1 << width) - 1)
        if np.isnan(value):
            assert code == nan
            continue
        assert (code >> width == 1) == bool(np.signbit(value))
        if np.isinf(value):
            assert size == infinity
            continue
        low, high = (code_value(target, size + step) for step in (0, 1))
        assert size <= largest
        assert low <= abs(float(value))
        assert size == largest or abs(float(value)) < high


def code_value(target: str, size: int) -> float:
    """A magnitude from its code, for the wider types."""
    dtype = np.uint32 if target == "f32" else np.uint16
    word = np.array([size], dtype)
    stored = word if target == "bf16" else word.view(STORAGE[target])
    return float(widen(target, stored)[0])


def test_arithmetic_on_8_bit_floats_is_float32_rounded_after_each_operation() -> None:
    elem = "f8E4M3FN"
    a, b = np.arange(256, dtype=np.uint8), np.roll(np.arange(256, dtype=np.uint8), 77)
    table = magnitudes(elem)
    wide = [np.array([value_of(elem, int(c)) for c in x], np.float32) for x in (a, b)]
    outs = [(f"%r = arith.{op} %x0, %x1 : $T({elem})", elem) for op in ("addf", "mulf")]
    got = apply((elem, elem), outs, a, b)
    for result, exact in zip(got, (wide[0] + wide[1], wide[0] * wide[1]), strict=True):
        want = np.array([nearest_code(elem, table, float(v)) for v in exact], np.uint8)
        same_bits(result, want, elem)


@pytest.mark.parametrize("elem", EIGHT)
def test_constants_of_8_bit_types_round_like_downcasts(elem: str) -> None:
    numbers = [0.0, -0.0, 1.5, -300.0, 1e9, 0.013]
    outs = [(f"%r = arith.constant dense<{v:.6e}> : $T({elem})", elem) for v in numbers]
    table = magnitudes(elem)
    results = apply((), outs)
    for value, got in zip(numbers, results, strict=True):
        assert set(got) == {nearest_code(elem, table, float(np.float64(f"{value:.6e}")))}
