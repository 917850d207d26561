"""The kernels that the stages run."""

import triton
import triton.language as tl

from kernelsmith.lang import tree_sum


@triton.jit
def matmul(a_ptr, w_ptr, out_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """out[m, n] = a[m, k] w[n, k]^T: one BM x BN tile a program, float32 accumulator, k ascending
    in steps of BK, float32 output so that the last bit shows."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        at = start + steps
        a = tl.load(
            a_ptr + rows[:, None].to(tl.int64) * k + at[None, :],
            mask=(rows[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        w = tl.load(
            w_ptr + cols[:, None].to(tl.int64) * k + at[None, :],
            mask=(cols[:, None] < n) & (at[None, :] < k),
            other=0.0,
        )
        acc = tl.dot(a, tl.trans(w), acc)
    tl.store(
        out_ptr + rows[:, None].to(tl.int64) * n + cols[None, :],
        acc,
        mask=(rows[:, None] < m) & (cols[None, :] < n),
    )


@triton.jit
def elementwise(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    """out = OP(x, y), one block a program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=1.0)
    y = tl.load(y_ptr + at, mask=inside, other=1.0)
    if OP == "add":
        out = x + y
    elif OP == "multiply_add":
        out = x * y + x
    elif OP == "fma":
        out = tl.fma(x, y, x)
    elif OP == "divide":
        out = x / y
    elif OP == "div_rn":
        out = tl.div_rn(x, y)
    elif OP == "sqrt_rn":
        out = tl.sqrt_rn(tl.abs(x))
    elif OP == "sqrt":
        out = tl.sqrt(tl.abs(x))
    elif OP == "rsqrt":
        out = tl.rsqrt(tl.abs(x))
    elif OP == "exp":
        out = tl.exp(x)
    elif OP == "exp2":
        out = tl.exp2(x)
    elif OP == "log":
        out = tl.log(tl.abs(x))
    elif OP == "log2":
        out = tl.log2(tl.abs(x))
    elif OP == "sin":
        out = tl.sin(x)
    elif OP == "erf":
        out = tl.erf(x)
    elif OP == "sigmoid":
        out = tl.sigmoid(x)
    elif OP == "to_bfloat16":
        out = x.to(tl.bfloat16).to(tl.float32)
    elif OP == "to_float16":
        out = x.to(tl.float16).to(tl.float32)
    elif OP == "to_int32":
        out = x.to(tl.int32).to(tl.float32)
    elif OP == "maximum":
        out = tl.maximum(x, y)
    else:
        out = tl.floor(x) + tl.ceil(y)
    tl.store(out_ptr + at, out, mask=inside)


OPS = (
    "add",
    "multiply_add",
    "fma",
    "divide",
    "div_rn",
    "sqrt_rn",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "log",
    "log2",
    "sin",
    "erf",
    "sigmoid",
    "to_bfloat16",
    "to_float16",
    "to_int32",
    "maximum",
    "floor_ceil",
)


@triton.jit
def row_sum(x_ptr, out_ptr, n, TREE: tl.constexpr, BLOCK: tl.constexpr):
    """out[row] = sum of a row's squares: lanes over a fixed BLOCK, then ``tree_sum`` or
    ``tl.sum``; one row a program."""
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        squares += x * x
    total = tree_sum(squares) if TREE else tl.sum(squares, axis=0)
    tl.store(out_ptr + row, total)


@triton.jit
def spin(x_ptr, out_ptr, n):
    """Never ends where x[0] is finite; each turn stores, so that no compiler leaves it out."""
    left = n
    while left > 0:
        tl.store(out_ptr, left.to(tl.float32))
        left = n + (tl.load(x_ptr, volatile=True) * 0.0).to(tl.int32)


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x, one block a program."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)
