"""What a kernel says rather than computes: assertions, prints, barriers, assumptions."""

import numpy as np
import triton
import triton.language as tl

from tests.conformance.case import Case, given, result


@triton.jit
def asserted(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    tl.device_assert(a >= 0, "negative")
    tl.store(y + at, a + 1)


@triton.jit
def barriers(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.assume(n > 0)
    tl.static_assert(BLOCK > 0)
    a = tl.load(x + at, mask=at < n)
    tl.debug_barrier()
    tl.store(y + at, a, mask=at < n)


@triton.jit
def printed(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    if tl.sum(a, axis=0) < 0:
        tl.device_print("negative total", a)
    tl.store(y + at, a * 2)


def cases() -> list[Case]:
    size = 32
    positive = given("int32", size, recipe=("below", 1000))
    out = result("int32", size)
    blocks = {"BLOCK": size, "debug": True}
    rows = (
        ("device_assert", asserted, (positive, out), lambda a: a + 1),
        ("debug_barrier", barriers, (positive, out, 30),
         lambda a: np.where(np.arange(size) < 30, a, 0)),
        ("device_print", printed, (positive, out), lambda a: a * 2),
    )  # fmt: skip
    return [
        Case(family="effects", name=op, ops=(op,), dtype="int32", kernel=kernel, args=args,
             oracle=oracle, constants=blocks)
        for op, kernel, args, oracle in rows
    ]  # fmt: skip
