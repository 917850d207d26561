"""Small jit functions, each with one thing that the lint or the binary must show."""

import triton
import triton.language as tl

from kernelsmith.lang import tree_sum


@triton.jit
def summed(x_ptr, y_ptr, n, TREE: tl.constexpr, BLOCK: tl.constexpr):
    """y = 1 + sum of the squares of a row, in lanes over a fixed BLOCK as the seeds have it."""
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        squares += x * x
    total = tree_sum(squares) if TREE else tl.sum(squares, axis=0)
    tl.store(y_ptr, (total + 1.0).to(y_ptr.dtype.element_ty))


@triton.jit
def plain(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y = x * 3 + x."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * 3.0 + x, mask=at < n)


@triton.jit
def fused(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y = fma(x, 3, x)."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.fma(x, 3.0, x), mask=at < n)


@triton.jit
def approximate(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y = exp(x) + log(x)."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.exp(x) + tl.log(x), mask=at < n)


@triton.jit
def atomic(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y += x, atomically."""
    at = tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def product(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y = x x^T of a BLOCK x BLOCK tile in float16 on tensor cores; many live registers."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at[:, None] * n + at[None, :])
    y = tl.dot(x, tl.trans(x))
    tl.store(y_ptr + at[:, None] * n + at[None, :], y)


@triton.jit
def staged(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y = the sum over tiles of x x^T; a tile of x is in shared memory once a stage."""
    at = tl.arange(0, BLOCK)
    y = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + (start + at[:, None]) * BLOCK + at[None, :])
        y = tl.dot(x, tl.trans(x), y)
    tl.store(y_ptr + at[:, None] * BLOCK + at[None, :], y.to(tl.float16))
