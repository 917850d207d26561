"""Integer operations: wrap-around, and every undefined case given a result."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.devices.ttir_texts import STORAGE, apply, same_bits


def truncated(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def table(bits: int) -> dict[str, Callable[[int, int], int]]:
    """Each op on Python integers; results wrap afterwards."""

    def u(value: int) -> int:
        return value % (1 << bits)

    lowest = -(1 << bits - 1)
    return {
        "arith.addi": lambda x, y: x + y,
        "arith.subi": lambda x, y: x - y,
        "arith.muli": lambda x, y: x * y,
        "arith.divsi": lambda x, y: 0 if y == 0 else truncated(x, y),
        "arith.remsi": lambda x, y: x if y == 0 else x - y * truncated(x, y),
        "arith.divui": lambda x, y: 0 if y == 0 else u(x) // u(y),
        "arith.remui": lambda x, y: x if y == 0 else u(x) % u(y),
        "arith.andi": lambda x, y: x & y,
        "arith.ori": lambda x, y: x | y,
        "arith.xori": lambda x, y: x ^ y,
        "arith.shli": lambda x, y: 0 if u(y) >= bits else x << u(y),
        "arith.shrsi": lambda x, y: x >> min(u(y), bits - 1),
        "arith.shrui": lambda x, y: 0 if u(y) >= bits else u(x) >> u(y),
        "arith.maxsi": max,
        "arith.minsi": min,
        "arith.maxui": lambda x, y: max(u(x), u(y)),
        "arith.minui": lambda x, y: min(u(x), u(y)),
        "arith.ceildivsi": lambda x, y: (
            0 if y == 0 else lowest if (x, y) == (lowest, -1) else -((-x) // y)
        ),
        "arith.floordivsi": lambda x, y: 0 if y == 0 else x // y,
        "arith.ceildivui": lambda x, y: 0 if y == 0 else -(-u(x) // u(y)),
        "tt.mulhiui": lambda x, y: u(x) * u(y) >> bits,
    }


@pytest.mark.parametrize("elem", ["i8", "i16", "i32", "i64"])
def test_every_integer_op_is_defined_everywhere(elem: str) -> None:
    kind = STORAGE[elem]
    info = np.iinfo(kind)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(info.min, info.max, 256, dtype=kind, endpoint=True) for _ in range(2))
    b[:128] = rng.integers(-4, 5, 128)
    a[:8] = info.min
    b[:8] = [-1, 0, 1, 2, -2, info.min, info.max, 3]
    a[8:12], b[8:12] = [0, 1, -1, info.max], 0
    ops = table(info.bits)
    outs = [(f"%r = {name} %x0, %x1 : $T({elem})", elem) for name in ops]
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    half = 1 << info.bits - 1
    for (name, op), got in zip(ops.items(), apply((elem, elem), outs, a, b), strict=True):
        want = [(op(x, y) + half) % (2 * half) - half for x, y in pairs]
        same_bits(got, np.array(want, kind), f"{name} {elem}")


def test_comparisons_casts_and_selects() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-(2**31), 2**31, 256).astype(np.int32) for _ in range(2))
    b[::3] = a[::3]
    ua, ub = a.view(np.uint32), b.view(np.uint32)
    want = {
        "eq": a == b, "ne": a != b, "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b,
        "ult": ua < ub, "ule": ua <= ub, "ugt": ua > ub, "uge": ua >= ub,
    }  # fmt: skip
    outs = [(f"%r = arith.cmpi {p}, %x0, %x1 : $T(i32)", "i1") for p in want]
    outs += [
        ("%r = arith.trunci %x0 : $T(i32) to $T(i8)", "i8"),
        ("%r = arith.extsi %x0 : $T(i32) to $T(i64)", "i64"),
        ("%r = arith.extui %x0 : $T(i32) to $T(i64)", "i64"),
        ("%t = arith.cmpi slt, %x0, %x1 : $T(i32)\n%r = arith.extsi %t : $T(i1) to $T(i32)", "i32"),
        ("%r = math.absi %x0 : $T(i32)", "i32"),
    ]
    *compared, narrow, signed, unsigned, mask, size = apply(("i32", "i32"), outs, a, b)
    for (name, expected), got in zip(want.items(), compared, strict=True):
        same_bits(got, expected.astype(np.uint8), name)
    same_bits(narrow, a.astype(np.int8), "trunci")
    same_bits(signed, a.astype(np.int64), "extsi")
    same_bits(unsigned, ua.astype(np.int64), "extui")
    same_bits(mask, -(a < b).astype(np.int32), "extsi i1")
    same_bits(size, np.abs(a), "absi")
