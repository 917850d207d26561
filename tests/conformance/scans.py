"""Scans: element k is the combination of elements 0 to k, in ascending order (descending when
reversed), each step rounded."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conformance.case import Case
from tests.conformance.float_ops import maximum
from tests.conformance.reductions import _AFFINE, _PRODUCT, affine, rounded
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import STORAGE, Array, is_float

_MAXIMUM = """@triton.jit
def merge(a, b):
    return tl.maximum(a, b)

"""
_LATEST = '''@triton.jit
def merge(v0, f0, v1, f1):
    """The latest value whose flag is set."""
    return tl.where(f1 != 0, v1, v0), f0 | f1

'''


def scan(values: tuple[Array, ...], axis: int, combine: Any, reverse: bool) -> tuple[Array, ...]:
    """The documented order, over a tuple of operands."""
    moved = [np.moveaxis(value, axis, 0) for value in values]
    if reverse:
        moved = [value[::-1] for value in moved]
    total = tuple(value[0] for value in moved)
    steps = [total]
    for k in range(1, len(moved[0])):
        total = combine(total, tuple(value[k] for value in moved))
        steps.append(total)
    outs = [np.stack([step[i] for step in steps]) for i in range(len(values))]
    if reverse:
        outs = [out[::-1] for out in outs]
    return tuple(np.moveaxis(out, 0, axis) for out in outs)


def plain(dtype: str, step: Any, axis: int, reverse: bool) -> Callable[[Array], Array]:
    single = rounded(dtype, step)
    return lambda a: scan((a,), axis, lambda x, y: (single(x[0], y[0]),), reverse)[0]


SHAPES = (((64,), 0), ((8, 32), 1), ((32, 8), 0), ((2, 8, 16), 1))
SUMS = ("fp32", "fp64", "int32", "int64", "bf16", "fp16", "int8", "uint32")


def _cumulative(op: str, dtype: str, shape: tuple[int, ...], axis: int, reverse: bool) -> Case:
    # As tl.sum: 16-bit floats add up in float32, integers narrower than 32 bits in 32.
    out = {"bf16": "fp32", "fp16": "fp32", "int8": "int32"}.get(dtype, dtype)
    step = np.add if op == "cumsum" else np.multiply
    oracle = plain(out, step, axis, reverse)
    recipe: Any = "ordinary" if op == "cumsum" else ("between", 0.5, 1.5)
    if not is_float(dtype):
        recipe = "any" if op == "cumsum" else ("between", 1, 4)
    return tile(
        "scans", op, f"tl.{op}(a{_widen(dtype, out)}, axis={axis}, reverse={reverse})",
        lambda a: oracle(a if is_float(dtype) else a.astype(STORAGE[out])),
        one(dtype, shape, recipe), out=to(out, *shape),
        name=f"{op}_axis{axis}{'_reverse' if reverse else ''}",
    )  # fmt: skip


def _widen(dtype: str, out: str) -> str:
    spelled = {"fp32": "float32", "int32": "int32"}
    return f".to(tl.{spelled[out]})" if out != dtype else ""


def _custom() -> list[Case]:
    found = []
    for shape, axis in SHAPES[:3]:
        for reverse in (False, True):
            mark = "_reverse" if reverse else ""
            found.append(
                tile(
                    "scans", "associative_scan",
                    f"y0, y1 = tl.associative_scan((a, b), {axis}, merge, reverse={reverse})",
                    lambda a, b, axis=axis, reverse=reverse: scan((a, b), axis, affine, reverse),
                    one("fp32", shape, ("between", -1.2, 1.2)), one("fp32", shape),
                    out=(to("fp32", *shape),) * 2, preamble=_AFFINE,
                    name=f"affine_axis{axis}{mark}",
                )
            )  # fmt: skip
            found.append(
                tile(
                    "scans", "associative_scan",
                    f"tl.associative_scan(a, {axis}, merge, reverse={reverse})",
                    plain("fp32", maximum, axis, reverse),
                    one("fp32", shape, "any"), out=to("fp32", *shape), preamble=_MAXIMUM,
                    name=f"running_max_axis{axis}{mark}",
                )
            )  # fmt: skip
    found.append(
        tile(
            "scans", "associative_scan",
            "y0, y1 = tl.associative_scan((a, b), 1, merge)",
            lambda a, b: scan(
                (a, b), 1,
                lambda x, y: (np.where(y[1] != 0, y[0], x[0]), x[1] | y[1]), False,
            ),
            one("fp32", (8, 64)), one("int32", (8, 64), ("below", 2)),
            out=(to("fp32", 8, 64), to("int32", 8, 64)), preamble=_LATEST, name="latest",
        )
    )  # fmt: skip
    for dtype in ("int32", "fp64"):
        found.append(
            tile(
                "scans", "associative_scan", "tl.associative_scan(a, 0, merge)",
                plain(dtype, np.multiply, 0, False),
                one(dtype, (32,), ("between", 1, 3)), out=to(dtype, 32), preamble=_PRODUCT,
                name="product",
            )
        )  # fmt: skip
    return found


def _carried() -> Case:
    """Blocks of a long row, each scanned, the last total carried on."""
    body = "y = tl.cumsum(a, axis=1) + tl.sum(b, axis=1)[:, None]"

    def oracle(a: Array, b: Array) -> Array:
        total = plain("int32", np.add, 1, False)(a)
        return total + b.sum(axis=1, dtype=np.int32)[:, None]

    shape = (4, 32)
    return tile("scans", "cumsum", body, oracle, one("int32", shape), one("int32", shape),
                out=to("int32", *shape), name="cumsum_plus_carry")  # fmt: skip


def cases() -> list[Case]:
    found = [_carried()]
    for index, dtype in enumerate(SUMS):
        chosen = SHAPES if dtype in ("fp32", "int32") else SHAPES[index % 3 :][:1]
        for shape, axis in chosen:
            found.append(_cumulative("cumsum", dtype, shape, axis, False))
        found.append(_cumulative("cumsum", dtype, (4, 64), 1, True))
    for dtype in ("fp32", "int32", "fp64"):
        for shape, axis in SHAPES[:3]:
            found.append(_cumulative("cumprod", dtype, shape, axis, dtype == "fp64"))
    return found + _custom()
