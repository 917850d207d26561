"""Kernels that compare, choose and count what they load as people do: none may be refused."""

from typing import Any

import triton
import triton.language as tl

from kernelsmith.lang import tree_sum

N = tl.constexpr(64)


@triton.jit
def leaky_product(a_ptr, b_ptr, y_ptr):
    at = tl.arange(0, 16)
    tile = at[:, None] * 16 + at[None, :]
    acc = tl.zeros((16, 16), dtype=tl.float32)
    for k in range(4):
        acc = tl.dot(tl.load(a_ptr + tile + k * 256), tl.load(b_ptr + tile + k * 256), acc)
    y = acc + tl.load(a_ptr + at)[None, :]
    tl.store(y_ptr + tile, tl.where(y > 0, y, 0.01 * y))


@triton.jit
def product_with_a_gate(a_ptr, b_ptr, x_ptr, y_ptr):
    """The backward pass of relu in the epilogue of a product."""
    at = tl.arange(0, 16)
    tile = at[:, None] * 16 + at[None, :]
    acc = tl.dot(tl.load(a_ptr + tile), tl.load(b_ptr + tile))
    tl.store(y_ptr + tile, acc * (tl.load(x_ptr + tile) > 0).to(tl.float32))


@triton.jit
def attention_over_masked_rows(q_ptr, k_ptr, v_ptr, y_ptr, n):
    """Online softmax whose running maximum may be minus infinity."""
    at = tl.arange(0, 16)
    tile = at[:, None] * 16 + at[None, :]
    q = tl.load(q_ptr + tile)
    acc = tl.zeros((16, 16), dtype=tl.float32)
    total = tl.zeros((16,), dtype=tl.float32)
    m = tl.full((16,), float("-inf"), dtype=tl.float32)
    for start in range(0, n, 16):
        k = tl.load(k_ptr + (start + at)[None, :] * 16 + at[:, None])
        s = tl.where((start + at)[None, :] < n, tl.dot(q, k), float("-inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(s - safe[:, None])
        alpha = tl.where(m == float("-inf"), 0.0, tl.exp(m - safe))
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + (start + at)[:, None] * 16 + at[None, :])
        acc = tl.dot(p, v, acc * alpha[:, None])
        m = m_new
    total = tl.where(total == 0.0, 1.0, total)
    tl.store(y_ptr + tile, acc / total[:, None])


@triton.jit
def sum_without_nans(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr, tree_sum(tl.where(x == x, tl.clamp(x, -1.0, 1.0), 0.0)))


@triton.jit
def huber(a_ptr, b_ptr, y_ptr):
    at = tl.arange(0, N)
    d = tl.load(a_ptr + at) - tl.load(b_ptr + at)
    small = tl.abs(d) < 1.0
    tl.store(y_ptr, tl.sum(tl.where(small, 0.5 * d * d, tl.abs(d) - 0.5), axis=0))


@triton.jit
def norm_and_leaky(x_ptr, w_ptr, y_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    mean = tl.sum(x, axis=0) / N
    var = tl.sum((x - mean) * (x - mean), axis=0) / N
    y = (x - mean) / tl.sqrt(var + 1e-5) * tl.load(w_ptr + at)
    tl.store(y_ptr + at, tl.where(y > 0, y, 0.1 * y))


@triton.jit
def greedy_token(x_ptr, token_ptr, y_ptr, n):
    """The largest logit, its index and its log-probability."""
    m, best = float("-inf"), 0
    z = 0.0
    for i in range(n):
        x = tl.load(x_ptr + i)
        best = tl.where(x > m, i, best)
        new = tl.where(x > m, x, m)
        z = z * tl.exp(m - new) + tl.exp(x - new)
        m = new
    tl.store(token_ptr, best)
    tl.store(y_ptr, tl.load(x_ptr + best) - (m + tl.log(z)))


@triton.jit
def largest_product(a_ptr, b_ptr, y_ptr, at_ptr):
    at = tl.arange(0, 16)
    tile = at[:, None] * 16 + at[None, :]
    s = tl.dot(tl.load(a_ptr + tile), tl.load(b_ptr + tile))
    value, index = tl.max(s, axis=1, return_indices=True)
    tl.store(y_ptr + at, value)
    tl.store(at_ptr + at, index)


@triton.jit
def scaled_to_eight_bits(x_ptr, y_ptr, scale_ptr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    largest = tl.max(tl.abs(x), axis=0)
    scale = tl.where(largest == 0.0, 1.0, largest / 127.0)
    tl.store(y_ptr + at, (x / scale).to(tl.int8))
    tl.store(scale_ptr, scale)


@triton.jit
def sorted_values(x_ptr, y_ptr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.sort(tl.load(x_ptr + at)))


@triton.jit
def reversed_sum(x_ptr, y_ptr):
    x = tl.flip(tl.load(x_ptr + tl.arange(0, N)), 0)
    tl.store(y_ptr, tl.sum(x, axis=0))


@triton.jit
def embedded_and_normed(token_ptr, table_ptr, length_ptr, y_ptr):
    """Rows found by a token, as many as an integer input says."""
    at = tl.arange(0, N)
    acc = tl.zeros((N,), dtype=tl.float32)
    for i in range(tl.load(length_ptr)):
        token = tl.load(token_ptr + i)
        if token >= 0:
            acc += tl.load(table_ptr + token * N + at)
    tl.store(y_ptr + at, acc / tl.sqrt(tl.sum(acc * acc, axis=0)))


@triton.jit
def dropped_out(x_ptr, y_ptr, seed):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr, tl.sum(tl.where(tl.rand(seed, at) > 0.5, x * 2.0, 0.0), axis=0))


@triton.jit
def padded_attention_mask(x_ptr, y_ptr, n):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(x_ptr + N + at, mask=at < n, other=0.0)
    tl.store(y_ptr, tl.sum(tl.where(at < 8, x, y), axis=0))


KERNELS: dict[str, tuple[Any, str]] = {
    "leaky_product": (leaky_product, ""),
    "product_with_a_gate": (product_with_a_gate, ""),
    "attention_over_masked_rows": (
        attention_over_masked_rows,
        "*fp32 *fp32 *fp32 *fp32 i32",
    ),
    "sum_without_nans": (sum_without_nans, ""),
    "huber": (huber, ""),
    "norm_and_leaky": (norm_and_leaky, ""),
    "greedy_token": (greedy_token, "*fp32 *i32 *fp32 i32"),
    "largest_product": (largest_product, "*fp32 *fp32 *fp32 *i32"),
    "scaled_to_eight_bits": (scaled_to_eight_bits, "*fp32 *i8 *fp32"),
    "sorted_values": (sorted_values, ""),
    "reversed_sum": (reversed_sum, ""),
    "embedded_and_normed": (embedded_and_normed, "*i32 *fp32 *i32 *fp32"),
    "dropped_out": (dropped_out, "*fp32 *fp32 i32"),
    "padded_attention_mask": (padded_attention_mask, "*fp32 *fp32 i32"),
}
"""Name -> kernel, types of its arguments ("": pointers to float32)."""
