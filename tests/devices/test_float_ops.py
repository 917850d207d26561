"""Float arithmetic, comparisons and conversions: IEEE bits on every CPU level."""

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.devices.ttir_texts import (
    STORAGE,
    Array,
    apply,
    bf16_bits,
    canonical,
    floats,
    same_bits,
    widen,
)

FLOATS = ("f16", "bf16", "f32", "f64")
BINARY: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}
UNARY: dict[str, Callable[..., Any]] = {
    "math.sqrt": np.sqrt,
    "math.absf": np.abs,
    "arith.negf": np.negative,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
}
COMPARE: dict[str, Callable[..., Any]] = {
    "oeq": lambda x, y: x == y,
    "ogt": lambda x, y: x > y,
    "oge": lambda x, y: x >= y,
    "olt": lambda x, y: x < y,
    "ole": lambda x, y: x <= y,
    "one": lambda x, y: (x < y) | (x > y),
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    "ueq": lambda x, y: ~((x < y) | (x > y)),
    "ult": lambda x, y: ~(x >= y),
    "une": lambda x, y: x != y,
    "uno": lambda x, y: np.isnan(x) | np.isnan(y),
}


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def rounded(elem: str, values: Array) -> Array:
    out = bf16_bits(values) if elem == "bf16" else values.astype(STORAGE[elem])
    return canonical(elem, out)


def expected_extreme(name: str, function: Callable[..., Any], a: Array, b: Array) -> Array:
    """numpy leaves the sign of a zero open; the device has -0 < +0."""
    out = function(a, b)
    signs = (np.signbit(a), np.signbit(b))
    negative = signs[0] | signs[1] if "min" in name else signs[0] & signs[1]
    zeros = (a == 0) & (b == 0)
    return np.where(zeros, np.where(negative, -0.0, 0.0).astype(out.dtype), out)


@pytest.mark.parametrize("elem", FLOATS)
def test_arithmetic_and_comparisons_are_ieee(elem: str) -> None:
    a, b = floats(elem, 256, 1), np.roll(floats(elem, 256, 2), 3)
    wide_a, wide_b = widen(elem, a), widen(elem, b)
    outs = [(f"%r = {n} %x0, %x1 : $T({elem})", elem) for n in BINARY]
    outs += [(f"%r = {n} %x0 : $T({elem})", elem) for n in UNARY]
    outs += [(f"%r = arith.cmpf {p}, %x0, %x1 : $T({elem})", "i1") for p in COMPARE]
    got = iter(apply((elem, elem), outs, a, b))
    for name, function in BINARY.items():
        want = function(wide_a, wide_b)
        if "max" in name or "min" in name:
            want = expected_extreme(name, function, wide_a, wide_b)
        same_bits(next(got), rounded(elem, want), f"{name} {elem}")
    for name, function in UNARY.items():
        same_bits(next(got), rounded(elem, function(wide_a)), f"{name} {elem}")
    for name, function in COMPARE.items():
        same_bits(next(got), function(wide_a, wide_b).astype(np.uint8), f"{name} {elem}")


def test_selects_and_loads_keep_nan_payloads_and_arithmetic_does_not() -> None:
    a = np.full(256, 0x7FA00123, np.uint32).view(np.float32)
    flags = (np.arange(256) % 2).astype(np.int8)
    choose = "%t = arith.constant dense<0> : $T(i8)\n%t1 = arith.cmpi ne, %x1, %t : $T(i8)\n"
    outs = [
        (choose + "%r = arith.select %t1, %x0, %x0 : $T(i1), $T(f32)", "f32"),
        ("%t = arith.addf %x0, %x0 : $T(f32)\n%r = arith.negf %t : $T(f32)", "f32"),
        (choose + "%t2 = arith.mulf %x0, %x0 : $T(f32)\n"
         "%r = arith.select %t1, %t2, %x0 : $T(i1), $T(f32)", "f32"),
        ("%t = arith.mulf %x0, %x0 : $T(f32)\n%r = tt.bitcast %t : $T(f32) -> $T(i32)", "i32"),
    ]  # fmt: skip
    moved, negated, mixed, bits = apply(("f32", "i8"), outs, a, flags)
    assert set(moved.view(np.uint32)) == {0x7FA00123}
    assert set(negated.view(np.uint32)) == {0x7FC00000}
    assert mixed.view(np.uint32).tolist() == [0x7FA00123, 0x7FC00000] * 128
    assert set(bits.view(np.uint32)) == {0x7FC00000}


def exact_fma(a: float, b: float, c: float) -> np.float32:
    """One rounding of the exact a * b + c, for finite results away from overflow."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)]
    best = min(
        [near, *around],
        key=lambda v: (abs(Fraction(float(v)) - exact), int(np.float32(v).view(np.uint32)) & 1),
    )
    return np.float32(np.copysign(best, float(1 if exact > 0 else -1)))


def test_fma_rounds_once_on_levels_with_and_without_the_instruction() -> None:
    rng = np.random.default_rng(7)
    a, b, c = (
        (rng.standard_normal(256) * np.exp2(rng.integers(-40, 40, 256))).astype(np.float32)
        for _ in range(3)
    )
    c[:128] = (-(a.astype(np.float64) * b.astype(np.float64))).astype(np.float32)[:128]
    a[200:], b[200:] = np.float32(2.0**-80), (b * np.float32(2.0**-60))[200:]
    c[200:] = rng.integers(0, 4000, 56).astype(np.uint32).view(np.float32)
    # Exactly between two float32 but for a term far below: its sign decides.
    a[128:160] = b[128:160] = np.float32(1 + 2.0**-12)
    c[128:160] = np.exp2(-np.arange(56.0, 88.0)) * np.where(np.arange(32) % 2, 1, -1)
    a[144:160] *= -1
    (got,) = apply(("f32",) * 3, [("%r = math.fma %x0, %x1, %x2 : $T(f32)", "f32")], a, b, c)
    want = np.array([exact_fma(*map(float, v)) for v in zip(a, b, c, strict=True)], np.float32)
    same_bits(got, want, "fma")


def to_odd(values: Array) -> Array:
    """float64 to float32 rounded to odd: a second rounding from it is exact."""
    near = values.astype(np.float32)
    word = near.view(np.uint32).copy()
    back = near.astype(np.float64)
    fix = (back != values) & ~np.isnan(values) & (word % 2 == 0)
    word[fix] += np.where(np.abs(back) > np.abs(values), -1, 1)[fix].astype(np.uint32)
    return word.view(np.float32)


@pytest.mark.parametrize("source", FLOATS)
def test_float_conversions_round_once_to_nearest_even(source: str) -> None:
    a = floats(source, 256, 5)
    wide = widen(source, a)
    order = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
    targets = [t for t in FLOATS if order[t] != order[source]]
    outs = []
    for target in targets:
        op = "extf" if order[target] > order[source] else "truncf"
        outs.append((f"%r = arith.{op} %x0 : $T({source}) to $T({target})", target))
    for target, got in zip(targets, apply((source,), outs, a), strict=True):
        if target == "bf16":
            want = bf16_bits(to_odd(wide) if source == "f64" else wide)
        else:
            want = wide.astype(STORAGE[target])
        if target == "f32" and source in ("f16", "bf16"):
            finite = ~np.isnan(wide)
            same_bits(got[finite], want[finite], f"{source} to {target}")
            assert np.isnan(got[~finite]).all()
        else:
            same_bits(got, canonical(target, want), f"{source} to {target}")


@pytest.mark.parametrize("elem", FLOATS)
def test_float_to_integer_saturates_and_maps_nan_to_zero(elem: str) -> None:
    a = floats(elem, 256, 9)
    values = [float(v) for v in widen(elem, a).astype(np.float64)]
    kinds = [(s, t) for s in ("s", "u") for t in ("i8", "i16", "i32", "i64")]
    outs = [(f"%r = arith.fpto{s}i %x0 : $T({elem}) to $T({t})", t) for s, t in kinds]
    for (sign, t), got in zip(kinds, apply((elem,), outs, a), strict=True):
        bits = int(t[1:])
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
        want = [0 if v != v else high if v >= high else low if v <= low else int(v) for v in values]
        wrapped = [(v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for v in want]
        same_bits(got, np.array(wrapped, STORAGE[t]), f"fpto{sign}i {elem} {t}")


def nearest(elem: str, number: int) -> Any:
    """An integer rounded once to a float type."""
    double = float(number)
    if int(double) != number:
        word = int(np.float64(double).view(np.int64))
        if word % 2 == 0:
            word += 1 if abs(int(double)) < abs(number) else -1
        double = float(np.int64(word).view(np.float64))
    if elem == "bf16":
        return bf16_bits(to_odd(np.array([double])))[0]
    return np.float16(double)


@pytest.mark.parametrize("source", ["i8", "i16", "i32", "i64"])
def test_integer_to_float_rounds_once(source: str) -> None:
    info = np.iinfo(STORAGE[source])
    rng = np.random.default_rng(3)
    a = rng.integers(info.min, info.max, 256, dtype=STORAGE[source], endpoint=True)
    a >>= (np.arange(256) % info.bits).astype(a.dtype)
    a[:4] = [0, -1, info.max, info.min]
    unsigned = a.view(f"u{a.itemsize}")
    kinds = [(s, t) for s in ("s", "u") for t in FLOATS]
    outs = [(f"%r = arith.{s}itofp %x0 : $T({source}) to $T({t})", t) for s, t in kinds]
    for (sign, t), got in zip(kinds, apply((source,), outs, a), strict=True):
        given = a if sign == "s" else unsigned
        if t in ("f32", "f64"):
            want = given.astype(STORAGE[t])
        else:
            want = np.array([nearest(t, int(v)) for v in given], STORAGE[t])
        same_bits(got, want, f"{sign}itofp {source} {t}")


def exact_double_fma(a: float, b: float, c: float) -> float:
    """One rounding of the exact a * b + c; Python divides integers correctly rounded."""
    if not (math.isfinite(a) and math.isfinite(b)) or 0 in (a, b):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if c == 0 else 0.0
    try:
        value = exact.numerator / exact.denominator
    except OverflowError:
        value = math.inf
    return math.copysign(value, 1 if exact > 0 else -1)


def test_fma_of_float64_rounds_once_with_and_without_the_instruction() -> None:
    rng = np.random.default_rng(17)
    size = 2048
    a, b, c = (floats("f64", size, seed) for seed in (31, 32, 33))
    b, c = np.roll(b, 3), np.roll(c, 7)
    with np.errstate(all="ignore"):
        # Cancellation, ties with a far smaller addend, products that are subnormal or overflow.
        a[64:1024], b[64:1024] = rng.standard_normal((2, 960))
        c[64:1024] = -(a * b)[64:1024]
        c[64:512] *= 1 + rng.integers(-2, 3, 448) * 2.0**-52
        a[512:768] = b[512:768] = 1 + 2.0**-27
        c[512:768] = np.exp2(-rng.integers(50, 180, 256)) * rng.choice([-1, 1], 256)
        a[1024:1280] = rng.standard_normal(256) * 2.0**-530
        b[1024:1280] = rng.standard_normal(256) * 2.0**-530
        c[1024:1280] = rng.integers(0, 1 << 20, 256) * 2.0**-1074
        a[1280:1536] = rng.standard_normal(256) * 2.0**512
        b[1280:1536] = rng.standard_normal(256) * 2.0**511
        c[1280:1536] = rng.standard_normal(256) * 2.0**1023
    (got,) = apply(("f64",) * 3, [("%r = math.fma %x0, %x1, %x2 : $T(f64)", "f64")], a, b, c,
                   shape=(size,))  # fmt: skip
    want = np.array([exact_double_fma(*map(float, v)) for v in zip(a, b, c, strict=True)])
    same_bits(got, canonical("f64", want), "fma f64")


@pytest.mark.parametrize("elem", ["f16", "bf16"])
def test_fma_of_16_bit_floats_rounds_once(elem: str) -> None:
    size = 4096
    a, b, c = (floats(elem, size, seed) for seed in (41, 42, 43))
    b, c = np.roll(b, 3), np.roll(c, 7)
    # Halfway cases of the product, which a much smaller addend decides.
    one, tiny = (rounded(elem, np.full(1, v, np.float32))[0] for v in (1.0, 2.0**-14))
    step = 2.0**-5 if elem == "f16" else 2.0**-4
    a[2048:] = rounded(elem, np.float32(1 + step) * np.ones(2048, np.float32))
    b[2048:] = a[2048:]
    c[2048:] = np.where(np.arange(2048) % 2 == 0, tiny, one)
    (got,) = apply((elem,) * 3, [(f"%r = math.fma %x0, %x1, %x2 : $T({elem})", elem)], a, b, c,
                   shape=(size,))  # fmt: skip
    wide = [widen(elem, v).astype(np.float64) for v in (a, b, c)]
    exact = [exact_double_fma(*map(float, v)) for v in zip(*wide, strict=True)]
    for index, (x, y, z) in enumerate(zip(*wide, strict=True)):
        if math.isfinite(x * y + z) and x * y + z != 0:
            true = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            if Fraction(exact[index]) != true:  # to odd, so that the next rounding is the only one
                word = np.float64(exact[index]).view(np.int64)
                below = abs(Fraction(exact[index])) < abs(true)
                if word % 2 == 0:
                    exact[index] = float(np.int64(word + (1 if below else -1)).view(np.float64))
    values = np.array(exact)
    if elem == "bf16":
        want = bf16_bits(to_odd(values))
    else:
        want = values.astype(np.float16)
    same_bits(got, canonical(elem, want), elem)
