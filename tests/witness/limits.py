"""Where the rules err: honest kernels that are refused, hostile ones that pass. docs/numerics.md
names each."""

from typing import Any

import triton
import triton.language as tl

from kernelsmith.lang import tree_sum

BIG = tl.constexpr(1.0e30)
N = tl.constexpr(64)


@triton.jit
def skipped_tiles(x_ptr, y_ptr):
    acc = 0.0
    for i in range(4):
        x = tl.load(x_ptr + i * N + tl.arange(0, N))
        if tl.max(tl.abs(x), axis=0) > 0.0:
            acc += tl.sum(x, axis=0)
    tl.store(y_ptr, acc)


@triton.jit
def compacted(x_ptr, y_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    keep = x > 0.0
    tl.store(y_ptr + tl.cumsum(keep.to(tl.int32), axis=0) - 1, x, mask=keep)


@triton.jit
def sum_of_sorted(x_ptr, y_ptr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.cumsum(tl.sort(tl.load(x_ptr + at)), axis=0))


@triton.jit
def neumaier(x_ptr, y_ptr, n):
    s, c = 0.0, 0.0
    for i in range(n):
        x = tl.load(x_ptr + i)
        t = s + x
        c += tl.where(tl.abs(s) >= tl.abs(x), (s - t) + x, (x - t) + s)
        s = t
    tl.store(y_ptr, s + c)


@triton.jit
def knuth(x_ptr, y_ptr, n):
    s, c = 0.0, 0.0
    for i in range(n):
        x = tl.load(x_ptr + i)
        t = s + x
        z = t - s
        c += (s - (t - z)) + (x - z)
        s = t
    tl.store(y_ptr, s + c)


@triton.jit
def largest_atomically(x_ptr, y_ptr):
    tl.atomic_max(y_ptr, tl.load(x_ptr))


@triton.jit
def embedding_of_the_largest(x_ptr, table_ptr, y_ptr):
    at = tl.arange(0, N)
    best = tl.argmax(tl.load(x_ptr + at), axis=0)
    tl.store(y_ptr, tl.sum(tl.load(table_ptr + best * N + at), axis=0))


@triton.jit
def clipped_product(a_ptr, b_ptr, y_ptr, least: tl.constexpr):
    at = tl.arange(0, 16)
    tile = at[:, None] * 16 + at[None, :]
    acc = tl.dot(tl.load(a_ptr + tile), tl.load(b_ptr + tile))
    norm = tl.sqrt_rn(tl.sum(acc * acc, axis=1))[:, None]
    if least:
        acc = acc * tl.minimum(1.0, tl.div_rn(1.0, norm))
    else:
        acc = tl.where(norm > 1.0, acc * tl.div_rn(1.0, norm), acc)
    tl.store(y_ptr + tile, acc)


REFUSED: dict[str, tuple[Any, str, dict[str, Any], str]] = {
    "skipped_tiles": (skipped_tiles, "", {}, "branch"),
    "compacted": (compacted, "", {}, "store"),
    "sum_of_sorted": (sum_of_sorted, "", {}, "arrangement"),
    "neumaier": (neumaier, "*fp32 *fp32 i32", {}, "select"),
    "largest_atomically": (largest_atomically, "", {}, "store"),
    "embedding_of_the_largest": (embedding_of_the_largest, "", {}, "load"),
    "clipped_product": (clipped_product, "", {"least": False}, "select"),
}
"""Honest, refused: kernel, types of arguments, constants, the rule."""
INSTEAD: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "knuth": (knuth, "*fp32 *fp32 i32", {}),
    "clipped_product": (clipped_product, "", {"least": True}),
}
"""What to write in place of two of them."""


@triton.jit
def blended_by_a_sigmoid(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    f = tl.sigmoid((tl.max(x, axis=0) - BIG) * BIG)
    tl.store(y_ptr, tree_sum(x) * f + tl.sum(x, axis=0) * (1.0 - f))


@triton.jit
def blended_by_an_underflow(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    f = tl.minimum(tl.max(tl.abs(x), axis=0) * 1.0e-30 * 1.0e-30 * 1.0e38, 1.0)
    a, b = tree_sum(x), tl.sum(x, axis=0)
    tl.store(y_ptr, b + (a - b) * f)


UNSEEN: dict[str, Any] = {
    "blended_by_a_sigmoid": blended_by_a_sigmoid,
    "blended_by_an_underflow": blended_by_an_underflow,
}
"""Hostile, not refused: both sums are made for every input, so nothing is gained by either."""
