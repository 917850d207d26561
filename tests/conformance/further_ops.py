"""Maps of scalar functions, tl's own compositions, and the atomics that only Triton 3.9 has."""

import numpy as np

from tests.conformance.case import Case, given, result, ulp, updated
from tests.conformance.exact import exactly, extended
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import Array

LATEST = ("3.9.0",)
_CLAMPED = """@triton.jit
def step(a, b):
    if a < b:
        return a * a
    elif b == 0:
        return b
    return a - b

"""
_PAIR = """@triton.jit
def step(a, b):
    return a + b, a - b

"""
_DIGITS = """@triton.jit
def step(a):
    count = 0
    while a > 0:
        a = a // 10
        count += 1
    return count

"""
_LOADS = """import triton
import triton.language as tl

@triton.jit
def kernel(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.atomic_load(x + at)
    tl.atomic_store(y + at, a + 1)
"""
_POLL = """import triton
import triton.language as tl

@triton.jit
def kernel(y, z, BLOCK: tl.constexpr):
    tl.atomic_add(y, 1)
    tl.atomic_poll(y, 1)
    tl.store(z + tl.arange(0, BLOCK), 5)
"""


def _maps() -> list[Case]:
    def pieces(a: Array, b: Array) -> Array:
        return np.where(a < b, a * a, np.where(b == 0, b, a - b)).astype(np.int32)

    def digits(a: Array) -> Array:
        return np.array([len(str(v)) if v else 0 for v in a.tolist()], np.int32)

    small = ("between", -40, 40)
    return [
        tile("further_ops", "map_elementwise", "tl.map_elementwise(step, a, b)", pieces,
             one("int32", (64,), small), one("int32", (64,), small), out=to("int32", 64),
             preamble=_CLAMPED, name="map_branches"),
        tile("further_ops", "map_elementwise", "tl.map_elementwise(step, a, b)", pieces,
             one("int32", (8, 16), small), one("int32", (8, 16), small), out=to("int32", 8, 16),
             preamble=_CLAMPED, name="map_branches"),
        tile("further_ops", "map_elementwise", "y0, y1 = tl.map_elementwise(step, a, b)",
             lambda a, b: (a + b, a - b), one("fp32", (64,), "ordinary"), one("fp32", (64,)),
             out=(to("fp32", 64),) * 2, preamble=_PAIR, name="map_two_results"),
        tile("further_ops", "map_elementwise", "tl.map_elementwise(step, a)", digits,
             one("int32", (64,), ("below", 100000)), out=to("int32", 64), preamble=_DIGITS,
             name="map_loop"),
    ]  # fmt: skip


def _compositions() -> list[Case]:
    def softmax(a: Array) -> Array:
        powers = [exactly("exp", value - a.max()) for value in a.tolist()]
        return np.array([extended(power / sum(powers)) for power in powers], np.longdouble)

    def zeroed(a: Array, b: Array) -> Array:
        return np.where(b != 0, a, 0)

    return [
        tile("further_ops", "softmax", "tl.softmax(a)", softmax,
             one("fp32", (128,), ("between", -8, 8)), out=to("fp32", 128),
             tolerance=ulp(14)),
        tile("further_ops", "reduce_or", "tl.reduce_or(a, axis=1)",
             lambda a: np.bitwise_or.reduce(a, axis=1), one("int32", (8, 32), "any"),
             out=to("int32", 8)),
        tile("further_ops", "cat", "tl.cat(a, b)", lambda a, b: np.concatenate([a, b]),
             one("int32", (32,)), one("int32", (32,)), out=to("int32", 64), name="cat_in_order",
             versions=LATEST),
        tile("further_ops", "expect_zero", "tl.expect_zero(a, b != 0)", zeroed,
             one("fp32", (64,), "ordinary"), one("int8", (64,), ("between", 1, 2)),
             out=to("fp32", 64), versions=LATEST),
    ]  # fmt: skip


def _latest_atomics() -> list[Case]:
    found = [
        Case(family="further_ops", name=f"atomic_load_store/{dtype}",
             ops=("atomic_load", "atomic_store"), dtype=dtype, kernel=_LOADS,
             args=(given(dtype, 64), result(dtype, 64)), oracle=lambda x: x + 1,
             constants={"BLOCK": 16}, grid=(4,), versions=LATEST)
        for dtype in ("int32", "int64")
    ]  # fmt: skip
    found.append(
        Case(family="further_ops", name="atomic_poll", ops=("atomic_poll",), dtype="int32",
             kernel=_POLL, args=(updated("int32", 1, recipe=("below", 1)), result("int32", 16)),
             oracle=lambda y: (y + 1, np.full(16, 5)), constants={"BLOCK": 16}, versions=LATEST)
    )  # fmt: skip
    return found


def cases() -> list[Case]:
    return [*_maps(), *_compositions(), *_latest_atomics()]
