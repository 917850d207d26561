"""Forms of the language that kernels use: argument types, loop variables, chains, constants."""

from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.conformance.atomics import _OLD, _TEXT, step_of
from tests.conformance.case import Case, given, result, updated
from tests.conformance.dots import chain
from tests.conformance.reductions import along, rounded
from tests.conformance.tiles import one, tile, to
from tests.conformance.values import Array


@triton.jit
def wide_loop(y, begin, end, step, BLOCK: tl.constexpr):
    """A loop variable of 64 bits."""
    total = begin * 0
    for k in range(begin, end, step):
        total += k % 1000003
    tl.store(y + tl.arange(0, BLOCK), total)


@triton.jit
def arguments(y, z, flag, small, big, unsigned, number, BLOCK: tl.constexpr):
    """A bool, 32 and 64 bits, one too large for a sign, a float."""
    at = tl.arange(0, BLOCK)
    value = tl.where(flag, small + big, small - big) + (unsigned >> 60).to(tl.int64)
    tl.store(y + at, value)
    tl.store(z + at, number * 2.0 + at)


@triton.jit
def masked_scalars(x, y, n):
    """A scalar load and store with a condition."""
    pid = tl.program_id(0)
    value = tl.load(x + pid, mask=pid < n, other=-5)
    tl.store(y + pid, value * 2, mask=pid != 3)


@triton.jit
def optional(x, bias, y, BLOCK: tl.constexpr):
    """A pointer that may be None."""
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    if bias is not None:
        a += tl.load(bias + at)
    tl.store(y + at, a)


@triton.jit
def same_row(x, y, stride, BM: tl.constexpr, BN: tl.constexpr):
    """A stride of zero."""
    i, j = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    tl.store(y + i * BN + j, tl.load(x + i * stride + j))


@triton.jit
def empty(x):
    pass


def _form(name: str, op: str, kernel: Any, args: tuple[Any, ...], oracle: Any,
          grid: tuple[int, ...] = (1,), dtype: str = "int32",
          **constants: Any) -> Case:  # fmt: skip
    return Case(family="forms", name=name, ops=(op,), dtype=dtype, kernel=kernel, args=args,
                oracle=oracle, constants=constants, grid=grid)  # fmt: skip


def _kernels() -> list[Case]:
    begin, end, step = 2**40, 2**40 + 100, 7
    total = sum(k % 1000003 for k in range(begin, end, step))
    big = 2**63 + 2**61
    x, y, rows = given("int32", 32), result("int32", 32), given("int32", 32)
    return [
        _form("wide_loop", "range(int64)", wide_loop, (result("int64", 16), begin, end, step),
              lambda: np.full(16, total), dtype="int64", BLOCK=16),
        *(_form(f"arguments/{flag}", "arguments", arguments,
                (result("int64", 16), result("fp32", 16), flag, -3, 2**40, big, 1.7),
                lambda flag=flag: (
                    np.full(16, (-3 + 2**40 if flag else -3 - 2**40) + (big >> 60)),
                    np.float32(1.7) * 2.0 + np.arange(16.0),
                ), dtype="int64", BLOCK=16)
          for flag in (True, False)),
        _form("masked_scalars", "load(scalar mask)", masked_scalars, (given("int32", 8),
              updated("int32", 8), 6),
              lambda x, y: np.where(np.arange(8) == 3, y, 2 * np.where(np.arange(8) < 6, x, -5)),
              (8,)),
        _form("optional/given", "None", optional, (x, rows, y), lambda a, b: a + b, BLOCK=32),
        _form("optional/none", "None", optional, (x, None, y), lambda a: a, BLOCK=32),
        _form("zero_stride", "load(stride 0)", same_row, (x, result("int32", 8, 32), 0),
              lambda a: np.repeat(a[None], 8, 0), BM=8, BN=32),
        _form("empty", "empty", empty, (updated("int32", 4),), lambda a: a, (3,)),
    ]  # fmt: skip


def _tiles() -> list[Case]:
    def pieces(a: Array, b: Array) -> Array:
        return np.where(a[:, None] > 0, b[None, :], -np.inf)

    def normalised(a: Array) -> Array:
        total = along(1, rounded("fp32", np.add))(a)[:, None]
        centred = np.float32(a) - np.float32(np.float32(total) / np.float32(64))
        squares = along(1, rounded("fp32", np.add))(np.float64(centred * centred))[:, None]
        return centred / np.sqrt(np.float32(squares))

    return [
        tile("forms", "chain of sums", "tl.sum(tl.sum(a, axis=0), axis=0)",
             lambda a: along(0, rounded("fp32", np.add))(along(0, rounded("fp32", np.add))(a)),
             one("fp32", (16, 32)), out=to("fp32")),
        tile("forms", "chain of reductions", "tl.max(tl.sum(a, axis=2), axis=0)",
             lambda a: along(2, rounded("int32", np.add))(a).max(0), one("int32", (4, 8, 16)),
             out=to("int32", 8)),
        tile("forms", "where(broadcast)",
             'tl.where(a[:, None] > 0, b[None, :], float("-inf"))', pieces,
             one("fp32", (16,)), one("fp32", (32,)), out=to("fp32", 16, 32)),
        tile("forms", "constants",
             'y = tl.where(a > 0, float("inf"), float("nan")) + 1e-45 * a',
             lambda a: np.where(a > 0, np.inf, np.nan), one("fp32", (64,)), out=to("fp32", 64)),
        tile("forms", "sum, then use",
             "c = a - tl.sum(a, axis=1)[:, None] / 64\n"
             "y = c / tl.sqrt(tl.sum(c * c, axis=1))[:, None]", normalised,
             one("fp32", (8, 64)), out=to("fp32", 8, 64)),
        tile("forms", "dot of what is computed",
             'y = tl.dot(a + 1.0, tl.trans(b * 2.0), input_precision="ieee")',
             lambda a, b: chain(np.float32(a + 1.0), (b * 2.0).T, np.zeros((16, 16))),
             one("fp32", (16, 32), ("between", 1, 2)), one("fp32", (16, 32)),
             out=to("fp32", 16, 16)),
        tile("forms", "dot, then sum", 'y = tl.sum(tl.dot(a, b, input_precision="ieee"), axis=0)',
             lambda a, b: along(0, rounded("fp32", np.add))(chain(a, b, np.zeros((16, 16)))),
             one("fp32", (16, 16)), one("fp32", (16, 16)), out=to("fp32", 16)),
        tile("forms", "scan of a scan", "tl.cumsum(tl.cumsum(a, axis=0), axis=0)",
             lambda a: a.cumsum(dtype=np.int32).cumsum(dtype=np.int32), one("int32", (64,)),
             out=to("int32", 64)),
        tile("forms", "shift by the width", "a >> (b + 31)",
             lambda a, b: np.where(b > 0, np.where(a < 0, -1, 0), a >> 31),
             one("int32", (64,), "any"), one("int32", (64,), ("below", 2)), out=to("int32", 64)),
    ]  # fmt: skip


def _signed_zeros() -> list[Case]:
    """-0 is below +0 for an atomic too."""
    found = []
    for op in ("max", "min"):
        step = step_of(op, "fp32")
        text = _TEXT.format(params="x, y, z", body=_OLD.format(op=op, extra=""))
        found.append(
            Case(family="forms", name=f"atomic_{op}_of_zeros", ops=(f"atomic_{op}",),
                 dtype="fp32", kernel=text,
                 args=(given("fp32", 200, recipe="finite"), updated("fp32", 200, recipe="finite"),
                       result("fp32", 200), 200),
                 oracle=lambda x, y, step=step: (step(y, x), y), constants={"BLOCK": 64},
                 grid=(4,))
        )  # fmt: skip
    return found


def cases() -> list[Case]:
    return [*_kernels(), *_tiles(), *_signed_zeros()]
