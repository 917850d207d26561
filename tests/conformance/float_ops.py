"""Float arithmetic, comparison and selection: one rounding an operation, in every type."""

from fractions import Fraction
from typing import Any

import numpy as np

from tests.conformance.case import Case
from tests.conformance.expressions import elementwise
from tests.conformance.values import FLOATS, STORAGE, Array, narrow, round_to, widen

TYPES = ("fp32", "bf16", "fp16", "fp64")


def minimum(a: Array, b: Array, propagate: bool = False) -> Array:
    """-0 below +0; a NaN operand loses, or wins where it propagates."""
    pick = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    if propagate:
        return np.where(np.isnan(a) | np.isnan(b), np.nan, pick)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, pick))


def maximum(a: Array, b: Array, propagate: bool = False) -> Array:
    return -minimum(-a, -b, propagate)


# name: (tl expression, oracle on float64 values, operands, recipe)
ARITHMETIC: dict[str, tuple[str, Any, int, Any]] = {
    "add": ("a + b", np.add, 2, "any"),
    "sub": ("a - b", np.subtract, 2, "any"),
    "mul": ("a * b", np.multiply, 2, "any"),
    "div": ("a / b", np.divide, 2, "any"),
    "maximum": ("tl.maximum(a, b)", maximum, 2, "any"),
    "minimum": ("tl.minimum(a, b)", minimum, 2, "any"),
    "maximum_nan": (
        "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
        lambda a, b: maximum(a, b, True),
        2,
        "any",
    ),
    "minimum_nan": (
        "tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
        lambda a, b: minimum(a, b, True),
        2,
        "any",
    ),
    "abs": ("tl.abs(a)", np.abs, 1, "any"),
    "clamp": (
        "tl.clamp(a, b, tl.abs(b) + tl.abs(b))",
        lambda a, b: minimum(maximum(a, b), 2 * np.abs(b)),
        2,
        "ordinary",
    ),
    "where": ("tl.where(a > b, a + a, b)", lambda a, b: np.where(a > b, a + a, b), 2, "ordinary"),
}
# Only these types have them in tl.
WIDE: dict[str, tuple[str, Any, int, Any]] = {
    "sqrt": ("tl.sqrt(a)", np.sqrt, 1, "any"),
    "floor": ("tl.floor(a)", np.floor, 1, "any"),
    "ceil": ("tl.ceil(a)", np.ceil, 1, "any"),
    "fdiv": ("tl.fdiv(a, b)", np.divide, 2, "any"),
}
COMPARISONS = {
    "eq": ("==", np.equal),
    "ne": ("!=", np.not_equal),
    "lt": ("<", np.less),
    "le": ("<=", np.less_equal),
    "gt": (">", np.greater),
    "ge": (">=", np.greater_equal),
}


def exact_fma(dtype: str, a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding, in rational arithmetic."""
    out = np.empty(a.shape)
    for index, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        out[index] = x * y + z if exact == 0 else _nearest(dtype, exact)
    return out


def _nearest(dtype: str, exact: Fraction) -> float:
    """The nearest value of a format, ties to even."""
    form = FLOATS[dtype]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = max(exponent, form.least_exponent) - (form.precision - 1)
    scaled = size / Fraction(2) ** quantum
    steps = round(scaled)  # to even
    value = float(Fraction(steps) * Fraction(2) ** quantum)
    value = np.inf if value > form.largest else value
    return value if exact > 0 else -value


def _moved(dtype: str) -> Case:
    """A select between loaded values keeps a NaN's payload."""

    def pick(a: Array, b: Array) -> Array:
        return np.where(widen(dtype, b) > 0, a, b)

    return elementwise("float_ops", "where", "tl.where(b > 0, a, b)", pick, dtype, dtype,
                       name="where_payload", moves=True)  # fmt: skip


def cases() -> list[Case]:
    found = []
    for dtype in TYPES:
        table = {**ARITHMETIC, **(WIDE if dtype in ("fp32", "fp64") else {})}
        for op, (expression, oracle, count, recipe) in table.items():
            operands = (dtype,) * count
            found.append(elementwise("float_ops", op, expression, oracle, *operands, recipe=recipe))
        for op, (sign, compare) in COMPARISONS.items():
            found.append(
                elementwise("float_ops", op, f"a {sign} b", compare, dtype, dtype, out="int1")
            )
        found.append(_moved(dtype))
        # Of +0 the negation's sign is Triton's own business: releases before 3.9 subtract from 0.
        found.append(elementwise("float_ops", "neg", "-a", np.negative, dtype, recipe="nonzero"))
        # Two roundings, never one: nothing is contracted to an fma.
        found.append(
            elementwise(
                "float_ops", "mul", "a * b + c", _two_roundings(dtype), dtype, dtype, dtype,
                recipe="ordinary", name="mul_add",
            )
        )  # fmt: skip
    for dtype in TYPES:
        found.append(
            elementwise(
                "float_ops", "fma", "tl.fma(a, b, c)",
                lambda a, b, c, dtype=dtype: exact_fma(dtype, a, b, c),
                dtype, dtype, dtype, recipe="ordinary",
            )
        )  # fmt: skip
    found += [
        elementwise("float_ops", "sqrt_rn", "tl.sqrt_rn(a)", np.sqrt, "fp32"),
        elementwise("float_ops", "div_rn", "tl.div_rn(a, b)", np.divide, "fp32", "fp32"),
        elementwise("float_ops", "mod", "a % b", np.fmod, "fp32", "fp32", recipe="ordinary"),
        elementwise("float_ops", "mod", "a % b", np.fmod, "fp64", "fp64", recipe="ordinary"),
    ]
    found += [_mixed(*pair) for pair in (("bf16", "fp32"), ("fp16", "fp32"))]
    found += [_scalar(dtype) for dtype in TYPES]
    return found


def _two_roundings(dtype: str) -> Any:
    return lambda a, b, c: round_to(dtype, a * b) + c


def _mixed(left: str, right: str) -> Case:
    """Two types meet in the wider one, or in float32 where neither holds the other."""
    out = "fp32"
    return elementwise("float_ops", "add", "a + b", np.add, left, right, out=out, name="promoted")


def _scalar(dtype: str) -> Case:
    """A Python number takes the tensor's type."""
    third = widen(dtype, narrow(dtype, np.array([0.3]))).astype(STORAGE["fp64"])
    return elementwise(
        "float_ops", "mul", "a * 0.3", lambda a: a * third, dtype, name="mul_by_number"
    )
