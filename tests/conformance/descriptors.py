"""Tensor descriptors and block pointers: whole tiles, tiles over the edge, gathers, scatters."""

from dataclasses import replace
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tests.conformance.case import Case, given, result, updated
from tests.conformance.memory import moved
from tests.conformance.values import FLOATS, STORAGE, Array

BLOCK_POINTERS = ("3.6.0", "3.7.1")


@triton.jit
def tiles(x, y, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [BM, BN])
    b = tl.make_tensor_descriptor(y, [rows, cols], [cols, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    b.store([i, j], a.load([i, j]))


@triton.jit
def shifted(x, y, rows, cols, up, left, BM: tl.constexpr, BN: tl.constexpr,
            PADDING: tl.constexpr):  # fmt: skip
    """A tile that begins before the first row and ends after the last column."""
    a = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [BM, BN], padding_option=PADDING)
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(y + at, a.load([up, left]))


@triton.jit
def deep(x, y, n0, n1, n2, B0: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [n0, n1, n2], [n1 * n2, n2, 1], [B0, B1, B2])
    b = tl.make_tensor_descriptor(y, [n0, n1, n2], [n1 * n2, n2, 1], [B0, B1, B2])
    i = tl.program_id(0) * B0
    b.store([i, 0, 0], a.load([i, 0, 0]))


@triton.jit
def flat(x, y, n, BLOCK: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [n], [1], [BLOCK])
    b = tl.make_tensor_descriptor(y, [n], [1], [BLOCK])
    for k in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        b.store([k], a.load([k]))


@triton.jit
def gathered(x, index, y, rows, cols, left, R: tl.constexpr, BN: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [1, BN])
    at = tl.load(index + tl.arange(0, R))
    out = tl.arange(0, R)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(y + out, a.gather(at, left))


@triton.jit
def scattered(x, index, y, rows, cols, left, R: tl.constexpr, BN: tl.constexpr):
    b = tl.make_tensor_descriptor(y, [rows, cols], [cols, 1], [1, BN])
    at = tl.load(index + tl.arange(0, R))
    a = tl.load(x + tl.arange(0, R)[:, None] * BN + tl.arange(0, BN)[None, :])
    b.scatter(a, at, left)


@triton.jit
def added(x, y, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [BM, BN])
    b = tl.make_tensor_descriptor(y, [rows, cols], [cols, 1], [BM, BN])
    i = tl.program_id(0) * BM
    b.atomic_add([i, 0], a.load([i, 0]))


_BLOCKS = """import triton
import triton.language as tl

@triton.jit
def kernel(x, y, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_block_ptr(x, (rows, cols), (cols, 1), (i, j), (BM, BN), (1, 0))
    b = tl.make_block_ptr(y, (rows, cols), (cols, 1), (i, j), (BM, BN), (1, 0))
    tl.store(b, tl.load(a, boundary_check=(0, 1), padding_option="{padding}"),
             boundary_check=(0, 1))
"""
_ADVANCE = """import triton
import triton.language as tl

@triton.jit
def kernel(x, y, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM
    a = tl.make_block_ptr(x, (rows, cols), (cols, 1), (i, 0), (BM, BN), (1, 0))
    total = tl.zeros([BM, BN], tl.int32)
    for _ in range(0, cols, BN):
        total += tl.load(a, boundary_check=(1,), padding_option="zero")
        a = tl.advance(a, (0, BN))
    at = (i + tl.arange(0, BM))[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(y + at, total)
"""


def _tiles() -> list[Case]:
    found = []
    for dtype, rows, cols in (("fp32", 32, 64), ("fp32", 37, 68), ("bf16", 40, 72),
                              ("int8", 33, 96), ("fp16", 16, 32), ("int32", 5, 12)):  # fmt: skip
        found.append(
            moved(f"tiles/{dtype}/{rows}x{cols}", "tensor_descriptor", tiles,
                     (given(dtype, rows, cols, recipe="any"), result(dtype, rows, cols), rows,
                      cols),
                     lambda a: a, {"BM": 16, "BN": 32}, (-(-rows // 16), -(-cols // 32)))
        )  # fmt: skip
    for dtype, padding in (("fp32", "zero"), ("bf16", "zero"), ("int32", "zero"),
                           ("fp32", "nan"), ("fp16", "nan")):  # fmt: skip

        def window(a: Array, dtype: str = dtype, padding: str = padding) -> Array:
            fill = FLOATS[dtype].nan if padding == "nan" else 0
            width = np.dtype(STORAGE[dtype]).itemsize
            out = np.full((16, 32), fill, f"u{width}").view(STORAGE[dtype])
            out[3:15, :20] = a[:, 12:]
            return out

        found.append(
            moved(f"over_the_edge/{dtype}_{padding}", f"tensor_descriptor({padding})", shifted,
                     (given(dtype, 12, 32, recipe="any"), result(dtype, 16, 32), 12, 32, -3, 12),
                     window, {"BM": 16, "BN": 32, "PADDING": padding})
        )  # fmt: skip
    found += [
        moved("deep/fp32", "tensor_descriptor(3-D)", deep,
                 (given("fp32", 6, 5, 12, recipe="any"), result("fp32", 6, 5, 12), 6, 5, 12),
                 lambda a: a, {"B0": 4, "B1": 8, "B2": 16}, (2,)),
        moved("flat/bf16", "tensor_descriptor(1-D)", flat,
                 (given("bf16", 500, recipe="any"), result("bf16", 500), 500),
                 lambda a: a, {"BLOCK": 64}, (3,)),
    ]  # fmt: skip
    return found


def _rows() -> list[Case]:
    found = []
    for dtype in ("fp32", "bf16"):
        found.append(
            moved(f"gather/{dtype}", "tensor_descriptor.gather", gathered,
                     (given(dtype, 20, 64, recipe="any"),
                      given("int32", 16, recipe=("below", 20)), result(dtype, 16, 32), 20, 64,
                      16),
                     lambda a, at: a[at, 16:48], {"R": 16, "BN": 32})
        )  # fmt: skip

    def put(x: Array, at: Array, y: Array) -> Array:
        out = y.copy()
        out[at, 16:48] = x
        return out

    holder = moved("scatter/fp32", "tensor_descriptor.scatter", scattered,
                      (given("fp32", 16, 32, recipe="any"),
                       given("int32", 16, recipe=("below", 500)),
                       updated("fp32", 500, 64, recipe="any"), 500, 64, 16),
                      put, {"R": 16, "BN": 32})  # fmt: skip
    found.append(holder)
    found.append(
        moved("atomic_add/int32", "tensor_descriptor.atomic_add", added,
                 (given("int32", 30, 16), updated("int32", 30, 16), 30, 16),
                 lambda x, y: x + y, {"BM": 16, "BN": 16}, (2,))
    )  # fmt: skip
    return found


def _block_pointers() -> list[Case]:
    def case(name: str, text: str, args: Any, move: Any, grid: Any) -> Case:
        return moved(name, "make_block_ptr", text, args, move, {"BM": 16, "BN": 32}, grid,
                        "descriptors", BLOCK_POINTERS)  # fmt: skip

    found = []
    for dtype, rows, cols in (("fp32", 37, 70), ("bf16", 16, 64), ("int8", 20, 40)):
        found.append(
            case(f"block_pointer/{dtype}/{rows}x{cols}", _BLOCKS.format(padding="zero"),
                 (given(dtype, rows, cols, recipe="any"), result(dtype, rows, cols), rows, cols),
                 lambda a: a, (-(-rows // 16), -(-cols // 32)))
        )  # fmt: skip

    def totals(a: Array) -> Array:
        wide = np.zeros((32, 96), np.int32)
        wide[:, :70] = a
        return wide.reshape(32, 3, 32).sum(1, dtype=np.int32)

    found.append(
        case("advance/int32", _ADVANCE, (given("int32", 32, 70), result("int32", 32, 32), 32, 70),
             totals, (2,))
    )  # fmt: skip
    return found


def cases() -> list[Case]:
    found = [*_tiles(), *_rows(), *_block_pointers()]
    return [replace(case, family="descriptors") for case in found]
