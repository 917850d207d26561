"""Conversions between every two types, bit casts, and rounding modes."""

from typing import Any

import numpy as np

from tests.conformance.case import Case, Stored
from tests.conformance.expressions import elementwise
from tests.conformance.integer_ops import wrapped
from tests.conformance.values import (
    FLOATS,
    INTEGERS,
    STORAGE,
    Array,
    is_float,
    narrow,
    round_to,
)

WIDE_FLOATS = ("fp64", "fp32", "fp16", "bf16")
NARROW_FLOATS = ("fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16")


def to_integer(dtype: str) -> Any:
    """Toward zero, saturating, NaN to 0."""
    info = np.iinfo(STORAGE[dtype])

    def convert(a: Array) -> Array:
        return wrapped(
            [
                0
                if v != v
                else info.max
                if v >= info.max
                else info.min
                if v <= info.min
                else int(v)
                for v in a.tolist()
            ],
            STORAGE[dtype],
        )

    return convert


def from_integer(dtype: str) -> Any:
    """Rounded once: by whole numbers, since 64-bit integers do not fit a double."""

    def convert(a: Array) -> Stored:
        return Stored(array=np.array([_rounded(dtype, int(v)) for v in a.tolist()]).ravel())

    return convert


def _rounded(dtype: str, number: int) -> Any:
    form = FLOATS[dtype]
    drop = max(abs(number).bit_length() - form.precision, 0)
    quotient, rest = divmod(abs(number), 1 << drop)
    half = (1 << drop) >> 1
    quotient += drop > 0 and (rest > half or (rest == half and quotient % 2 == 1))
    value = float(quotient << drop)
    value = value if value <= form.largest else np.inf
    return narrow(dtype, np.array([value if number >= 0 else -value]))


def float_to_float(source: str, out: str) -> Any:
    """One rounding; float16 and bfloat16 to float32 move NaN payloads, so NaN is left out."""
    del source
    return lambda a: round_to(out, a)


def cases() -> list[Case]:
    found = []
    kinds = (*WIDE_FLOATS, *INTEGERS)
    for source in kinds:
        for out in kinds:
            if source != out and not (source in INTEGERS and out in INTEGERS):
                found.append(_pair(source, out))
    for source in INTEGERS:
        others = [out for out in INTEGERS if out != source]
        found += [_pair(source, out) for out in others[:: 2 if "64" in source else 3]]
    for small in NARROW_FLOATS:
        found += [_pair(small, out) for out in ("fp32", "fp16", "bf16")]
        found += [_pair(source, small) for source in ("fp32", "fp16", "bf16")]
    found += _truth() + _casts_of_bits() + _toward_zero()
    return found


def _pair(source: str, out: str) -> Case:
    recipe = "any"
    if is_float(source) and is_float(out):
        oracle = float_to_float(source, out)
        quiet = source in ("fp16", "bf16", *NARROW_FLOATS) and out in WIDE_FLOATS
        recipe = "finite" if quiet else "any"
    elif is_float(source):
        oracle = to_integer(out)
    elif is_float(out):
        oracle = from_integer(out)
    else:
        oracle = _wrap_to(out)
    return elementwise("conversions", "to", f"a.to(tl.{_spell(out)})", oracle, source, out=out,
                       recipe=recipe)  # fmt: skip


def _wrap_to(out: str) -> Any:
    return lambda a: a.astype(STORAGE[out])


def _spell(dtype: str) -> str:
    names = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
             "fp8e5": "float8e5", "fp8e4nv": "float8e4nv",
             "fp8e4b8": "float8e4b8", "fp8e5b16": "float8e5b16"}  # fmt: skip
    return names.get(dtype, dtype)


def _truth() -> list[Case]:
    """To bool: anything but zero, NaN included; from bool: 0 and 1."""
    found = []
    for source in (*WIDE_FLOATS, "int8", "int32", "int64", "uint8"):
        found.append(
            elementwise("conversions", "to", "a.to(tl.int1)", lambda a: a != 0, source, out="int1")
        )
    for out in ("fp32", "bf16", "int32", "int8"):
        found.append(
            elementwise("conversions", "to", f"a.to(tl.{_spell(out)})",
                        lambda a: a.astype(np.int8).astype(np.float64), "int1", out=out)
        )  # fmt: skip
    return found


def _casts_of_bits() -> list[Case]:
    pairs = (("fp32", "int32"), ("int32", "fp32"), ("fp16", "int16"), ("int16", "bf16"),
             ("bf16", "uint16"), ("fp64", "int64"), ("uint64", "fp64"), ("uint8", "int8"),
             ("uint8", "fp8e5"), ("fp8e4nv", "int8"))  # fmt: skip
    return [
        elementwise(
            "conversions", "bitcast", f"a.to(tl.{_spell(out)}, bitcast=True)",
            lambda a, out=out: a.view(STORAGE[out]), source, out=out, name="bitcast", moves=True,
        )
        for source, out in pairs
    ]  # fmt: skip


def _toward_zero() -> list[Case]:
    return [
        elementwise(
            "conversions", "to(rtz)",
            f'a.to(tl.{_spell(out)}, fp_downcast_rounding="rtz")',
            lambda a, out=out: round_to(out, a, toward_zero=True),
            "fp32", out=out, recipe="ordinary", name="toward_zero",
        )
        for out in ("fp16", "bf16")
    ]  # fmt: skip
