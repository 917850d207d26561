"""Element types: how they are stored, what their bits mean, rounding to them, inputs that tell.

Written from the formats' definitions in numpy alone, so that an oracle shares no code with the
device. Values are *wide*: float64 for floats (float32 and narrower are exact in it), numpy's
integers for integers. Integers wrap.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A binary float format: significand bits with the implicit one, exponent range, specials."""

    precision: int
    least_exponent: int  # of the smallest normal number
    largest: float
    infinite: bool  # False: overflow saturates (fp8 as Triton converts to it)
    nan: int


FLOATS: dict[str, Format] = {
    "fp64": Format(precision=53, least_exponent=-1022, largest=np.finfo(np.float64).max.item(),
                   infinite=True, nan=0x7FF8000000000000),
    "fp32": Format(precision=24, least_exponent=-126, largest=float(np.finfo(np.float32).max),
                   infinite=True, nan=0x7FC00000),
    "fp16": Format(precision=11, least_exponent=-14, largest=65504.0, infinite=True, nan=0x7E00),
    "bf16": Format(precision=8, least_exponent=-126, largest=2.0**127 * (2 - 2.0**-7),
                   infinite=True, nan=0x7FC0),
    "fp8e5": Format(precision=3, least_exponent=-14, largest=57344.0, infinite=False, nan=0x7F),
    "fp8e4nv": Format(precision=4, least_exponent=-6, largest=448.0, infinite=False, nan=0x7F),
    "fp8e4b8": Format(precision=4, least_exponent=-7, largest=240.0, infinite=False, nan=0x80),
    "fp8e5b16": Format(precision=3, least_exponent=-15, largest=57344.0, infinite=False, nan=0x80),
}  # fmt: skip
STORAGE: dict[str, Any] = {
    "fp64": np.float64, "fp32": np.float32, "fp16": np.float16, "bf16": np.uint16,
    "fp8e5": np.uint8, "fp8e4nv": np.uint8, "fp8e4b8": np.uint8, "fp8e5b16": np.uint8,
    "int1": np.bool_,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip
INTEGERS = tuple(name for name in STORAGE if "int" in name and name != "int1")


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


@np.errstate(all="ignore")
def widen(dtype: str, stored: Array) -> Array:
    """What stored bits mean: float64, or the integers themselves."""
    if dtype == "bf16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if dtype in _SMALL:
        return _SMALL[dtype][stored]
    return stored.astype(np.float64) if is_float(dtype) else stored


def _small_table(exponent_bits: int, bias: int) -> Array:
    """Values of the 256 codes of an 8-bit float, before infinities and NaN."""
    fraction_bits = 7 - exponent_bits
    codes = np.arange(256)
    exponent = codes >> fraction_bits & (1 << exponent_bits) - 1
    fraction = (codes & (1 << fraction_bits) - 1) / 2.0**fraction_bits
    magnitude = np.where(
        exponent == 0,
        np.ldexp(fraction, 1 - bias),
        np.ldexp(1 + fraction, np.maximum(exponent, 1) - bias),
    )
    return np.where(codes & 128, -magnitude, magnitude)


def _small_tables() -> dict[str, Array]:
    tables = {
        "fp8e5": _small_table(5, 15), "fp8e4nv": _small_table(4, 7),
        "fp8e4b8": _small_table(4, 8), "fp8e5b16": _small_table(5, 16),
    }  # fmt: skip
    tables["fp8e5"][[0x7C, 0xFC]] = np.inf, -np.inf
    tables["fp8e5"][[0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]] = np.nan
    tables["fp8e4nv"][[0x7F, 0xFF]] = np.nan
    tables["fp8e4b8"][0x80] = tables["fp8e5b16"][0x80] = np.nan
    return tables


_SMALL = _small_tables()


@np.errstate(all="ignore")
def round_to(dtype: str, values: Array, *, toward_zero: bool = False) -> Array:
    """float64 values rounded once to a float format, as float64; what is too large becomes
    infinite, or the largest value where the format saturates."""
    form = FLOATS[dtype]
    values = np.asarray(values, np.float64)
    if dtype == "fp64":
        return values
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(values)
        quantum = np.maximum(exponent - 1, form.least_exponent) - (form.precision - 1)
        steps = np.ldexp(values, -quantum)
        out = np.ldexp(np.trunc(steps) if toward_zero else np.rint(steps), quantum)
        over = np.abs(out) > form.largest
        beyond = form.largest if toward_zero or not form.infinite else np.inf
        out = np.where(over & np.isfinite(values), np.copysign(beyond, values), out)
        out = np.where(np.isfinite(values), out, values)
        if not form.infinite:
            out = np.where(np.isinf(values), np.copysign(form.largest, values), out)
    return np.where(out == 0, np.copysign(0.0, values), out)


@np.errstate(all="ignore")
def narrow(dtype: str, values: Array) -> Array:
    """Wide values as they are stored: floats rounded once to nearest even with the canonical
    NaN, integers wrapped."""
    if not is_float(dtype):
        given = np.asarray(values)
        return given != 0 if dtype == "int1" else given.astype(STORAGE[dtype])
    form = FLOATS[dtype]
    rounded = round_to(dtype, np.asarray(values).astype(np.float64))
    nan = np.isnan(rounded)
    with np.errstate(all="ignore"):
        if dtype == "fp64":
            out = rounded.copy()
        elif dtype in ("fp32", "fp16"):
            out = rounded.astype(STORAGE[dtype])  # exact
        elif dtype == "bf16":
            out = (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        else:
            out = _small_code(dtype, rounded)
    out = np.asarray(out)
    bits(out)[nan] = form.nan
    return out


def _small_code(dtype: str, values: Array) -> Array:
    """Codes of values that the format has; where it has no -0, that is 0."""
    table = _SMALL[dtype][:128]
    finite = np.nonzero(np.isfinite(table))[0]
    order = finite[np.argsort(table[finite])]
    found = order[np.searchsorted(table[order], np.nan_to_num(np.abs(values)))]
    sign = np.signbit(values) & ((values != 0) | (FLOATS[dtype].nan != 0x80))
    return (found + np.where(sign, 128, 0)).astype(np.uint8)


def bits(stored: Array) -> Array:
    """An array's bits as unsigned integers, the same memory."""
    return stored.view(np.dtype(f"u{stored.itemsize}"))


@np.errstate(all="ignore")
def draw(dtype: str, shape: tuple[int, ...], recipe: Any, rng: np.random.Generator) -> Array:
    """Stored inputs.

    ``recipe``: "any" (bit patterns of every kind, specials in front), "ordinary" (magnitudes where
    rounding matters), "finite" ("any" without infinities and NaN), "nonzero", "positive",
    ("below", n) for integers in [0, n), ("between", a, b) for uniform floats or integers."""
    size = int(np.prod(shape))
    if isinstance(recipe, tuple):
        low, high = (0, recipe[1]) if recipe[0] == "below" else recipe[1:]
        if is_float(dtype):
            return narrow(dtype, rng.uniform(low, high, shape))
        return rng.integers(low, high, shape).astype(STORAGE[dtype])
    if dtype == "int1":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if not is_float(dtype):
        return _integers(dtype, size, recipe, rng).reshape(shape)
    out = _floats(dtype, size, rng)
    if recipe in ("ordinary", "nonzero", "positive"):
        scale = np.exp2(rng.integers(-6, 6, size))
        wide = rng.standard_normal(size) * scale
        wide = np.where(wide == 0, 1.0, wide)
        out = narrow(dtype, np.abs(wide) if recipe == "positive" else wide)
    elif recipe == "finite":
        out = np.where(np.isfinite(widen(dtype, out)), out, narrow(dtype, np.full(size, 1.5)))
    elif recipe != "any":
        raise ValueError(f"no such recipe: {recipe}")
    return out.reshape(shape)


def _integers(dtype: str, size: int, recipe: str, rng: np.random.Generator) -> Array:
    storage = STORAGE[dtype]
    info = np.iinfo(storage)
    out = rng.integers(info.min, info.max, size, dtype=storage, endpoint=True)
    out >>= (np.arange(size) % info.bits).astype(storage)
    edge = np.array([0, 1, info.max, info.min, 2, 3, 7, info.max - 1], storage)[:size]
    out[: len(edge)] = edge
    if info.min < 0 and size > 8:
        out[8] = -1
    if recipe in ("nonzero", "positive"):
        out = np.where(out == 0, storage(3), out)
    if recipe == "positive":
        out = np.where(out < 0, ~out, out)
        out = np.where(out == 0, storage(3), out)
    return out


def _floats(dtype: str, size: int, rng: np.random.Generator) -> Array:
    storage = STORAGE[dtype]
    width = np.dtype(f"u{np.dtype(storage).itemsize}")
    out = np.frombuffer(rng.bytes(size * width.itemsize), width).copy()
    ordinary = narrow(dtype, rng.standard_normal(size) * np.exp2(rng.integers(-8, 8, size)))
    out = np.where(np.arange(size) % 2 == 0, bits(ordinary), out)
    form = FLOATS[dtype]
    tiny = 2.0 ** (form.least_exponent - form.precision + 1)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0,
               form.largest, -form.largest, tiny, -tiny, 2.0**form.least_exponent,
               2.0**form.least_exponent - tiny]  # fmt: skip
    head = bits(narrow(dtype, np.array(special)))[:size]
    out[: len(head)] = head
    return out.view(storage)
