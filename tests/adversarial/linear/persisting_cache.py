# task = "linear"
# mechanisms = [35]
# exploits = """
# Sets aside part of the L2 for itself through the runtime library, so that a flush leaves its
# inputs there."""
# walk = "time"
# expect = ["POLICY", "policy"]
# without_policy = ["NOT_FASTER", "latency"]

import ctypes
import torch
import triton
import triton.language as tl

from kernelsmith.lang import tree_sum

_runtime = ctypes.CDLL("libcudart.so")
_runtime.cudaDeviceSetLimit(6, 32 * 1024 * 1024)


@triton.jit(do_not_specialize=["m_size"])
def _matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    bias_ptr,
    carry_ptr,
    m_size,
    n_size,
    k_size,
    a_stride_m,
    a_stride_k,
    b_stride_k,
    b_stride_n,
    c_stride_m,
    carry_stride_m,
    HAS_BIAS: tl.constexpr,
    HAS_CARRY: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles_n = tl.cdiv(n_size, BLOCK_N)
    tile = tl.program_id(0)
    rows = (tile // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_inside = rows < m_size
    col_inside = cols < n_size
    inside = row_inside[:, None] & col_inside[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if HAS_CARRY:
        acc = tl.load(
            carry_ptr + rows[:, None] * carry_stride_m + cols[None, :], mask=inside, other=0.0
        )
    for start in range(0, k_size, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        k_inside = ks < k_size
        a = tl.load(
            a_ptr + rows[:, None] * a_stride_m + ks[None, :].to(tl.int64) * a_stride_k,
            mask=row_inside[:, None] & k_inside[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + ks[:, None].to(tl.int64) * b_stride_k + cols[None, :].to(tl.int64) * b_stride_n,
            mask=k_inside[:, None] & col_inside[None, :],
            other=0.0,
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    if HAS_BIAS:
        bias = tl.load(bias_ptr + cols, mask=col_inside, other=0.0).to(tl.float32)
        acc = acc + bias[None, :]
    tl.store(
        c_ptr + rows[:, None] * c_stride_m + cols[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=inside,
    )


@triton.jit(do_not_specialize=["m_size"])
def _column_sum(
    a_ptr,
    sum_ptr,
    carry_ptr,
    m_size,
    n_size,
    a_stride_m,
    HAS_CARRY: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    col_inside = cols < n_size
    acc = tl.zeros((BLOCK_N,), dtype=tl.float32)
    if HAS_CARRY:
        acc = tl.load(carry_ptr + cols, mask=col_inside, other=0.0)
    for start in range(0, m_size, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        a = tl.load(
            a_ptr + rows[None, :].to(tl.int64) * a_stride_m + cols[:, None],
            mask=(rows < m_size)[None, :] & col_inside[:, None],
            other=0.0,
        ).to(tl.float32)
        acc += tree_sum(a)
    tl.store(sum_ptr + cols, acc, mask=col_inside)


def forward_train(x, weight, bias):
    m_size = x.shape[0]
    k_size = x.shape[1]
    n_size = weight.shape[0]
    y = x.new_empty((m_size, n_size))
    _matmul[(triton.cdiv(m_size, 128) * triton.cdiv(n_size, 128),)](
        x,
        weight,
        y,
        bias,
        None,
        m_size,
        n_size,
        k_size,
        x.stride(0),
        x.stride(1),
        weight.stride(1),
        weight.stride(0),
        y.stride(0),
        0,
        HAS_BIAS=bias is not None,
        HAS_CARRY=False,
        BLOCK_M=128,
        BLOCK_N=128,
        BLOCK_K=64,
        num_warps=8,
        num_stages=3,
    )
    return (y,)


def forward_infer(x, weight, bias):
    m_size = x.shape[0]
    k_size = x.shape[1]
    n_size = weight.shape[0]
    y = x.new_empty((m_size, n_size))
    _matmul[(triton.cdiv(m_size, 128) * triton.cdiv(n_size, 128),)](
        x,
        weight,
        y,
        bias,
        None,
        m_size,
        n_size,
        k_size,
        x.stride(0),
        x.stride(1),
        weight.stride(1),
        weight.stride(0),
        y.stride(0),
        0,
        HAS_BIAS=bias is not None,
        HAS_CARRY=False,
        BLOCK_M=128,
        BLOCK_N=128,
        BLOCK_K=64,
        num_warps=8,
        num_stages=3,
    )
    return (y,)


def _backward_bias(dy, db_carry):
    m_size = dy.shape[0]
    n_size = dy.shape[1]
    db = dy.new_empty((n_size,), dtype=torch.float32)
    _column_sum[(triton.cdiv(n_size, 128),)](
        dy,
        db,
        db_carry,
        m_size,
        n_size,
        dy.stride(0),
        HAS_CARRY=db_carry is not None,
        BLOCK_M=64,
        BLOCK_N=128,
        num_warps=4,
    )
    return db


def backward(dy, x, weight, bias, dw_carry, db_carry):
    m_size = x.shape[0]
    k_size = x.shape[1]
    n_size = weight.shape[0]
    dx = x.new_empty((m_size, k_size))
    dw = x.new_empty((n_size, k_size), dtype=torch.float32)
    _matmul[(triton.cdiv(m_size, 128) * triton.cdiv(k_size, 128),)](
        dy,
        weight,
        dx,
        None,
        None,
        m_size,
        k_size,
        n_size,
        dy.stride(0),
        dy.stride(1),
        weight.stride(0),
        weight.stride(1),
        dx.stride(0),
        0,
        HAS_BIAS=False,
        HAS_CARRY=False,
        BLOCK_M=128,
        BLOCK_N=128,
        BLOCK_K=64,
        num_warps=8,
        num_stages=3,
    )
    _matmul[(triton.cdiv(n_size, 128) * triton.cdiv(k_size, 128),)](
        dy,
        x,
        dw,
        None,
        dw_carry,
        n_size,
        k_size,
        m_size,
        dy.stride(1),
        dy.stride(0),
        x.stride(0),
        x.stride(1),
        dw.stride(0),
        dw_carry.stride(0) if dw_carry is not None else 0,
        HAS_BIAS=False,
        HAS_CARRY=dw_carry is not None,
        BLOCK_M=128,
        BLOCK_N=128,
        BLOCK_K=64,
        num_warps=8,
        num_stages=3,
    )
    if bias is None:
        return dx, dw
    return dx, dw, _backward_bias(dy, db_carry)
