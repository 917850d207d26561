"""Kernels that people bring: texts, never imported."""

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _rows(x_ptr, w_ptr, y_ptr, x_stride, y_stride, n_cols, factor, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n_cols).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=cols < n_cols).to(tl.float32)
    y = x * w * factor
    tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)

"""

SCALE = f'''"""Rows times a weight, scaled."""
{KERNEL}
def forward(x, weight, factor=2.0):
    """Scales.

    Args:
        x: [M, N] of dtype T.
        weight: [N] of dtype T.
    """
    y = torch.empty_like(x)
    _rows[(x.shape[0],)](x, weight, y, x.stride(0), y.stride(0), x.shape[1], factor, BLOCK=1024)
    return (y,)
'''

SUMMED = f'''"""A scale with a gradient that is summed over tokens."""
{KERNEL}
@triton.jit
def _sum(dy_ptr, carry_ptr, dw_ptr, dy_stride, n_rows, n_cols, HAS: tl.constexpr):
    cols = tl.arange(0, 1024)
    total = tl.zeros((1024,), dtype=tl.float32)
    if HAS:
        total = tl.load(carry_ptr + cols, mask=cols < n_cols)
    for row in range(n_rows):
        total += tl.load(dy_ptr + row * dy_stride + cols, mask=cols < n_cols).to(tl.float32)
    tl.store(dw_ptr + cols, total, mask=cols < n_cols)


def forward_train(x, weight, bias):
    rows, cols = x.shape
    y = x.new_empty((rows, cols))
    row_max = None
    _rows[(rows,)](x, weight, y, x.stride(0), y.stride(0), cols, 1.0, BLOCK=1024)
    if bias is None:
        return (y,)
    row_max = x.new_empty((rows,), dtype=torch.float32)
    return y, row_max


def forward_infer(x, weight):
    return _launch(x, weight)


def backward(dy, x, dw_carry):
    dx = torch.empty_like(dy)
    return dx, _gradient(dy, dw_carry)


def _launch(x, weight):
    y = torch.empty_like(x)
    _rows[(x.shape[0],)](x, weight, y, x.stride(0), y.stride(0), x.shape[1], 1.0, BLOCK=1024)
    return (y,)


def _gradient(dy, carry):
    dw = dy.new_empty((dy.shape[1],), dtype=torch.float32)
    _sum[(1,)](dy, carry, dw, dy.stride(0), dy.shape[0], dy.shape[1], HAS=carry is not None)
    return dw


def cost(x):
    return x.shape[0]
'''

WILD = """import os
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[], key=["n"])
@triton.jit
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_print("at", at)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at), mask=at < n)


def add(x, y):
    open("ran", "w").close()
    M, N = x.shape
    out = torch.zeros((M, N), device=x.device, dtype=x.dtype)
    _add[(4,)](x, y, out, out.numel(), BLOCK=128)
    return out


os.mkdir("ran")
"""
