"""Reductions along every axis. Sums are checked to the bit in the documented order."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tests.conformance.case import Case
from tests.conformance.float_ops import maximum, minimum
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import STORAGE, Array, is_float, round_to

LANES = 32
Combine = Callable[[Any, Any], Any]


def documented(values: tuple[Array, ...], axis: int, combine: Combine) -> Any:
    """The order that the device documents, for a region over a tuple of operands.

    Along the last axis of length D element j belongs to lane j mod 32 (mod D where D is less); a
    lane takes its elements in ascending order, then lane l meets lane l + half, by halves. Along
    any other axis: ascending."""
    rank = values[0].ndim
    moved = tuple(np.moveaxis(value, axis, 0) for value in values)
    steps = len(moved[0])
    if axis != rank - 1:
        return reduce(combine, [tuple(v[k] for v in moved) for k in range(steps)])
    width = min(steps, LANES)
    rows = [tuple(v[k : k + width] for v in moved) for k in range(0, steps, width)]
    total = reduce(combine, rows)
    while width > 1:
        width //= 2
        total = combine(tuple(v[:width] for v in total), tuple(v[width:] for v in total))
    return tuple(v[0] for v in total)


def along(axis: int | None, step: Callable[[Array, Array], Array]) -> Callable[[Array], Array]:
    """The oracle of a reduction with one operand; None: over all elements in row-major order."""

    def oracle(a: Array) -> Array:
        given, at = (a.ravel(), 0) if axis is None else (a, axis)
        return documented((given,), at, lambda x, y: (step(x[0], y[0]),))[0]

    return oracle


def rounded(dtype: str, step: Any) -> Any:
    """A step whose result takes the type it is computed in."""
    if is_float(dtype):
        return lambda x, y: round_to(dtype, step(x, y))
    return lambda x, y: step(x, y).astype(STORAGE[dtype])


# In float64 first: a float32 sum or product of two float32 is exact there but for one rounding.
STEPS: dict[str, Any] = {"sum": np.add, "max": maximum, "min": minimum, "xor_sum": np.bitwise_xor}
SHAPES = (((64,), 0), ((8, 64), 1), ((8, 64), 0), ((4, 8, 16), 1), ((2, 4, 8, 16), 3))
KINDS = (
    ("sum", "fp32", "fp32"), ("sum", "fp64", "fp64"), ("sum", "bf16", "fp32"),
    ("sum", "fp16", "fp32"), ("sum", "int32", "int32"), ("sum", "int64", "int64"),
    ("sum", "int8", "int32"), ("sum", "uint8", "uint32"),
    ("max", "fp32", "fp32"), ("max", "bf16", "bf16"), ("max", "int32", "int32"),
    ("max", "uint32", "uint32"), ("max", "int8", "int8"), ("max", "fp64", "fp64"),
    ("min", "fp32", "fp32"), ("min", "fp16", "fp16"), ("min", "int64", "int64"),
    ("min", "uint8", "uint8"), ("xor_sum", "int32", "int32"), ("xor_sum", "uint64", "uint64"),
)  # fmt: skip


def _out(shape: tuple[int, ...], axis: int | None, keep: bool = False) -> tuple[int, ...]:
    if axis is None:
        return ()
    return tuple(
        d for k, d in enumerate(shape) if k != axis or keep for d in [1 if k == axis else d]
    )


def _plain(op: str, dtype: str, out: str, shape: tuple[int, ...], axis: int | None) -> Case:
    integer = not is_float(dtype)
    step = {"max": np.maximum, "min": np.minimum}.get(op, STEPS[op]) if integer else STEPS[op]
    # Sums of the narrow types are taken in float32 or int32, as tl does.
    inner = out
    if op in ("sum", "xor_sum") and integer:
        oracle = along(axis, rounded(inner, step))
        oracle = _widened(oracle, inner)
    else:
        oracle = along(axis, rounded(inner, step))
    convert = {("sum", "bf16"): ".to(tl.float32)", ("sum", "fp16"): ".to(tl.float32)"}
    text = f"tl.{op}(a{convert.get((op, dtype), '')}, axis={axis})"
    recipe = "ordinary" if not integer and op == "sum" else "any"
    return tile(
        "reductions", op, text, oracle, one(dtype, shape, recipe), out=to(out, *_out(shape, axis)),
        name=f"{op}_axis{axis}",
    )  # fmt: skip


def _widened(oracle: Any, dtype: str) -> Any:
    return lambda a: oracle(a.astype(STORAGE[dtype]))


def _extreme(op: str, dtype: str, shape: tuple[int, ...], axis: int, left: bool = True) -> Case:
    """argmax and argmin: the first of equals where ties break left."""
    pick = np.argmax if op == "argmax" else np.argmin
    return tile(
        "reductions", op, f"tl.{op}(a, axis={axis}, tie_break_left={left})",
        lambda a: pick(a, axis=axis).astype(np.int32),
        one(dtype, shape, ("below", 9) if left else "any"),
        out=to("int32", *_out(shape, axis)), name=f"{op}_axis{axis}_{'left' if left else 'any'}",
    )  # fmt: skip


def _with_indices() -> list[Case]:
    body = "y0, y1 = tl.max(a, axis=1, return_indices=True)"
    return [
        tile(
            "reductions", "max(return_indices)", body,
            lambda a: (a.max(axis=1), a.argmax(axis=1).astype(np.int32)),
            one(dtype, (16, 32), ("below", 12)),
            out=(to(dtype, 16), to("int32", 16)), name="max_with_indices",
        )
        for dtype in ("fp32", "int32", "bf16")
    ]  # fmt: skip


_LOG_SUM = """@triton.jit
def merge(m0, s0, m1, s1):
    m = tl.maximum(m0, m1)
    return m, s0 * tl.exp2(m0 - m) + s1 * tl.exp2(m1 - m)

"""
_FIRST = """@triton.jit
def merge(a, b):
    return tl.where(a == 0, b, a)

"""
_AFFINE = """@triton.jit
def merge(a0, b0, a1, b1):
    return a1 * a0, a1 * b0 + b1

"""
_PRODUCT = """@triton.jit
def merge(a, b):
    return a * b

"""


def affine(x: Any, y: Any) -> Any:
    """(a, b) then (c, d) is c * (a t + b) + d; every operation rounded to float32."""
    r = lambda value: round_to("fp32", value)  # noqa: E731
    return r(y[0] * x[0]), r(r(y[0] * x[1]) + y[1])


def _custom() -> list[Case]:
    found = []
    for shape, axis in (((128,), 0), ((8, 64), 1), ((64, 8), 0)):
        found.append(
            tile(
                "reductions", "reduce", f"y0, y1 = tl.reduce((a, b), {axis}, merge)",
                lambda a, b, axis=axis: documented((a, b), axis, affine),
                one("fp32", shape, ("between", -1.5, 1.5)), one("fp32", shape),
                out=(to("fp32", *_out(shape, axis)),) * 2, preamble=_AFFINE,
                name=f"affine_axis{axis}",
            )
        )  # fmt: skip
    found.append(
        tile(
            "reductions", "reduce", "y = tl.reduce(a, 1, merge)",
            lambda a: documented((a,), 1, lambda x, y: (np.where(x[0] == 0, y[0], x[0]),))[0],
            one("int32", (16, 64), ("below", 3)), out=to("int32", 16), preamble=_FIRST,
            name="first_not_zero",
        )
    )  # fmt: skip
    for dtype in ("fp32", "int32", "int64", "fp64"):
        found.append(
            tile(
                "reductions", "reduce", "y = tl.reduce(a, 1, merge)",
                along(1, rounded(dtype, np.multiply)),
                one(dtype, (8, 32), ("between", 1, 4)), out=to(dtype, 8), preamble=_PRODUCT,
                name="product",
            )
        )  # fmt: skip
    return found


def cases() -> list[Case]:
    found = []
    for index, (op, dtype, out) in enumerate(KINDS):
        chosen = SHAPES if dtype in ("fp32", "int32") else SHAPES[index % 3 : index % 3 + 2]
        found += [_plain(op, dtype, out, shape, axis) for shape, axis in chosen]
    for op, dtype in (("sum", "fp32"), ("max", "fp32"), ("sum", "int32")):
        found.append(_plain(op, dtype, dtype, (8, 16), None))
    for size in (1, 2, 16, 32, 256, 2048):
        found.append(_plain("sum", "fp32", "fp32", (size,), 0))
    for op in ("argmax", "argmin"):
        for dtype in ("fp32", "int32", "fp16"):
            found.append(_extreme(op, dtype, (8, 32), 1))
            found.append(_extreme(op, dtype, (32, 8), 0))
        found.append(_extreme(op, "int32", (4, 16), 1, left=False))
    found.append(
        tile(
            "reductions", "sum(keep_dims)", "y = a / tl.sum(a, axis=1, keep_dims=True)",
            lambda a: a / along(1, rounded("fp32", np.add))(a)[:, None],
            one("fp32", (8, 64), "positive"), out=to("fp32", 8, 64), name="sum_keep_dims",
        )
    )  # fmt: skip
    found.append(
        tile(
            "reductions", "sum(dtype)", "y = tl.sum(a, axis=0, dtype=tl.int64)",
            _widened(along(0, rounded("int64", np.add)), "int64"),
            one("int32", (64,), "any"), out=to("int64"), name="sum_into_int64",
        )
    )  # fmt: skip
    return found + _with_indices() + _custom()
