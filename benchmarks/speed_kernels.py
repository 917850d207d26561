"""Softmax and causal attention as tutorials write them: what the CPU device's speed is shown on."""

from typing import Any

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
# Queries and keys a step: found by trying 16 to 128 of each on one machine.
ATTENTION_BLOCKS = (64, 64)


@triton.jit
def _softmax(x_ptr, y_ptr, x_stride, y_stride, n_cols, BLOCK: tl.constexpr):
    """y of one row of at most BLOCK columns; program ``i`` owns row ``i``."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=inside)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row of [M, N], bfloat16 or float32."""
    y = torch.empty_like(x)
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    _softmax[(rows,)](x, y, x.stride(0), y.stride(0), cols, BLOCK=block)
    return y


@triton.jit
def _attend(
    q, k_ptr, v_ptr, rows, acc, total, largest, begin, end, n_keys, scale,
    MASKED: tl.constexpr, HEAD: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Takes keys ``begin .. end`` in blocks of BLOCK_N into the running softmax.

    Args:
        acc: [BLOCK_M, HEAD] float32; total, largest: [BLOCK_M] float32 (base-2 exponents).
        MASKED: the blocks reach past the diagonal or the last key.
    """
    dims = tl.arange(0, HEAD)
    for start in range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys < n_keys
        if MASKED:
            k = tl.load(k_ptr + dims[:, None] + keys[None, :] * HEAD, mask=inside[None, :], other=0)
        else:
            k = tl.load(k_ptr + dims[:, None] + keys[None, :] * HEAD)
        scores = tl.dot(q, k, input_precision="ieee") * scale
        if MASKED:
            scores = tl.where(rows[:, None] >= keys[None, :], scores, float("-inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - new[:, None])
        shrink = tl.exp2(largest - new)
        total = total * shrink + tl.sum(p, axis=1)
        if MASKED:
            v = tl.load(v_ptr + keys[:, None] * HEAD + dims[None, :], mask=inside[:, None], other=0)
        else:
            v = tl.load(v_ptr + keys[:, None] * HEAD + dims[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        largest = new
    return acc, total, largest


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, out_ptr, n_keys, scale,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention of BLOCK_M queries of one head.

    Program (b, h) owns queries ``[b * BLOCK_M, (b + 1) * BLOCK_M)`` of head h. Keys before the
    block need no mask; those of the block itself do.
    """
    head = tl.program_id(1).to(tl.int64) * n_keys * HEAD
    first = tl.program_id(0) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    inside = rows < n_keys
    q = tl.load(
        q_ptr + head + rows[:, None] * HEAD + dims[None, :], mask=inside[:, None], other=0.0
    )
    acc = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    acc, total, largest = _attend(
        q, k_ptr + head, v_ptr + head, rows, acc, total, largest, 0, first, n_keys, scale,
        MASKED=False, HEAD=HEAD, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    acc, total, largest = _attend(
        q, k_ptr + head, v_ptr + head, rows, acc, total, largest, first,
        tl.minimum(first + BLOCK_M, n_keys), n_keys, scale,
        MASKED=True, HEAD=HEAD, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    out = acc / total[:, None]
    tl.store(
        out_ptr + head + rows[:, None] * HEAD + dims[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=inside[:, None],
    )


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: tuple[int, int] = ATTENTION_BLOCKS
) -> torch.Tensor:
    """Causal attention of [heads, tokens, head] contiguous tensors, bfloat16 or float32; BLOCK_M
    a multiple of BLOCK_N."""
    heads, tokens, size = q.shape
    out = torch.empty_like(q)
    block_m, block_n = blocks
    kernel: Any = _attention
    kernel[(triton.cdiv(tokens, block_m), heads)](
        q, k, v, out, tokens, LOG2_E / size**0.5, HEAD=size, BLOCK_M=block_m, BLOCK_N=block_n
    )
    return out
