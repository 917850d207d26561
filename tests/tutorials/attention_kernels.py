"""Fused attention: online softmax in base 2 forward, two passes backward.

Tensors are (batch * heads, rows, D), contiguous. M is log2 of each row's sum of exp, with its
maximum, as the backward pass needs it. The accumulator and all of softmax are float32.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def inner(acc, total, m, q, k_ptr, v_ptr, rows, begin, end, N, scale, CAUSAL: tl.constexpr,
          D: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    """Goes over columns [begin, end); with CAUSAL those after the row are left out."""
    d = tl.arange(0, D)
    for start in tl.range(begin, end, BN):
        cols = start + tl.arange(0, BN)
        inside = cols < N
        k = tl.load(k_ptr + cols[None, :] * D + d[:, None], mask=inside[None, :], other=0.0)
        s = tl.dot(q, k) * scale
        keep = inside[None, :]
        if CAUSAL:
            keep = keep & (rows[:, None] >= cols[None, :])
        s = tl.where(keep, s, -1.0e6)
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        p = tl.where(keep, p, 0.0)
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + cols[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    return acc, total, m


@triton.jit
def forward(q_ptr, k_ptr, v_ptr, o_ptr, m_ptr, N, scale, CAUSAL: tl.constexpr, D: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    """A block of rows of one head a program: the columns before the block, then its own."""
    block, head = tl.program_id(0), tl.program_id(1)
    q_ptr += head * N * D
    k_ptr += head * N * D
    v_ptr += head * N * D
    rows, d = block * BM + tl.arange(0, BM), tl.arange(0, D)
    inside = rows[:, None] < N
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :], mask=inside, other=0.0)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    total = tl.zeros([BM], dtype=tl.float32)
    m = tl.full([BM], -float("inf"), dtype=tl.float32)
    scale *= LOG2E
    before, end = 0, N
    if CAUSAL:
        before, end = block * BM, (block + 1) * BM
        acc, total, m = inner(
            acc, total, m, q, k_ptr, v_ptr, rows, 0, before, N, scale, False, D, BN
        )
    acc, total, m = inner(
        acc, total, m, q, k_ptr, v_ptr, rows, before, end, N, scale, CAUSAL, D, BN
    )
    tl.store(m_ptr + head * N + rows, m + tl.log2(total), mask=rows < N)
    o = (acc / total[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + head * N * D + rows[:, None] * D + d[None, :], o, mask=inside)


@triton.jit
def row_dots(o_ptr, do_ptr, delta_ptr, N, D: tl.constexpr, BM: tl.constexpr):
    """delta = sum of o * do along a row."""
    rows, head = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1)
    at = head * N * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    inside = rows[:, None] < N
    o = tl.load(o_ptr + at, mask=inside, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * N + rows, tl.sum(o * do, axis=1), mask=rows < N)


@triton.jit
def weights(q, k, m, rows, cols, N, scale, CAUSAL: tl.constexpr):
    """softmax(q k^T * scale) of a tile from the rows' M, rows down, columns across."""
    p = tl.exp2(tl.dot(q, tl.trans(k)) * (scale * LOG2E) - m[:, None])
    keep = (cols[None, :] < N) & (rows[:, None] < N)
    if CAUSAL:
        keep = keep & (rows[:, None] >= cols[None, :])
    return tl.where(keep, p, 0.0)


@triton.jit
def backward_columns(q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, m_ptr, delta_ptr, N, scale,
                     CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
                     BN: tl.constexpr):  # fmt: skip
    """dk and dv of a block of columns: goes over the rows that see it."""
    cols, head, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(1), tl.arange(0, D)
    base = head * N * D
    at, inside = base + cols[:, None] * D + d[None, :], cols[:, None] < N
    k = tl.load(k_ptr + at, mask=inside, other=0.0)
    v = tl.load(v_ptr + at, mask=inside, other=0.0)
    dk = tl.zeros([BN, D], dtype=tl.float32)
    dv = tl.zeros([BN, D], dtype=tl.float32)
    first = 0
    if CAUSAL:
        first = tl.program_id(0) * BN // BM * BM
    for start in range(first, N, BM):
        rows = start + tl.arange(0, BM)
        there, seen = base + rows[:, None] * D + d[None, :], rows < N
        q = tl.load(q_ptr + there, mask=seen[:, None], other=0.0)
        do = tl.load(do_ptr + there, mask=seen[:, None], other=0.0)
        m = tl.load(m_ptr + head * N + rows, mask=seen, other=0.0)
        delta = tl.load(delta_ptr + head * N + rows, mask=seen, other=0.0)
        p = weights(q, k, m, rows, cols, N, scale, CAUSAL)
        dv = tl.dot(tl.trans(p).to(do.dtype), do, dv)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dk = tl.dot(tl.trans(ds).to(q.dtype), q, dk)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=inside)
    tl.store(dk_ptr + at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward_rows(q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, m_ptr, delta_ptr, N, scale,
                  CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
                  BN: tl.constexpr):  # fmt: skip
    """dq of a block of rows: goes over the columns that it sees."""
    rows, head, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1), tl.arange(0, D)
    base = head * N * D
    at, seen = base + rows[:, None] * D + d[None, :], rows < N
    q = tl.load(q_ptr + at, mask=seen[:, None], other=0.0)
    do = tl.load(do_ptr + at, mask=seen[:, None], other=0.0)
    m = tl.load(m_ptr + head * N + rows, mask=seen, other=0.0)
    delta = tl.load(delta_ptr + head * N + rows, mask=seen, other=0.0)
    dq = tl.zeros([BM, D], dtype=tl.float32)
    end = N
    if CAUSAL:
        end = min(N, (tl.program_id(0) + 1) * BM)
    for start in range(0, end, BN):
        cols = start + tl.arange(0, BN)
        there = base + cols[:, None] * D + d[None, :]
        k = tl.load(k_ptr + there, mask=cols[:, None] < N, other=0.0)
        v = tl.load(v_ptr + there, mask=cols[:, None] < N, other=0.0)
        p = weights(q, k, m, rows, cols, N, scale, CAUSAL)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + at, (dq * scale).to(dq_ptr.dtype.element_ty), mask=seen[:, None])
