"""``tl.dot`` is one fused multiply-add a k, k ascending, however operands lie in memory."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.devices.cpu import activated


@pytest.fixture(scope="module", autouse=True)
def device() -> Iterator[None]:
    with activated(threads=1):
        yield


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, m, n, k, a_m, a_k, b_k, b_n,
    B_TURNED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    row_inside, col_inside = rows < m, cols < n
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        ks = start + tl.arange(0, BK)
        k_inside = ks < k
        a_mask = row_inside[:, None] & k_inside[None, :]
        a = tl.load(a_ptr + rows[:, None] * a_m + ks[None, :] * a_k, mask=a_mask, other=0.0)
        if B_TURNED:
            b_mask = col_inside[:, None] & k_inside[None, :]
            b = tl.load(b_ptr + cols[:, None] * b_n + ks[None, :] * b_k, mask=b_mask, other=0.0)
            b = tl.trans(b)
        else:
            b_mask = k_inside[:, None] & col_inside[None, :]
            b = tl.load(b_ptr + ks[:, None] * b_k + cols[None, :] * b_n, mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    inside = row_inside[:, None] & col_inside[None, :]
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=inside)


def values(seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Multiples of 2**-8 below 8: products and sums of them are exact in float64."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 2**7, shape) * np.exp2(draw.integers(-8, -4, shape))
    return torch.from_numpy((sizes * draw.choice([-1, 1], shape)).astype(np.float32)).to(dtype)


def chain(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    """The sum in float32 with one rounding a k, k ascending."""
    a64, b64 = a.double().numpy(), b.double().numpy()
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        acc = (acc.astype(np.float64) + a64[:, k : k + 1] * b64[k]).astype(np.float32)
    return acc


@pytest.mark.parametrize(
    ("dtype", "layout", "tile"),
    [
        (torch.bfloat16, "a rows, b columns", (1, 16, 32)),
        (torch.bfloat16, "a rows, b columns", (64, 32, 32)),
        (torch.float32, "a rows, b columns", (16, 64, 64)),
        (torch.float32, "a columns, b rows", (64, 32, 32)),
        (torch.bfloat16, "a rows, b rows", (16, 64, 64)),
        (torch.float16, "a rows, b columns", (16, 64, 64)),
    ],
)
def test_dot_has_the_bits_of_the_chain(
    dtype: torch.dtype, layout: str, tile: tuple[int, int, int]
) -> None:
    m, n, k = 19, 80, 100
    a, b = values(1, (m, k), dtype), values(2, (k, n), dtype)
    if "a columns" in layout:
        a = a.T.contiguous().T
    if "b columns" in layout:
        b = b.T.contiguous().T
    wanted = chain(a, b)
    block_m, block_n, block_k = tile
    for turned in (False, True):
        c = torch.empty(m, n)
        product[(triton.cdiv(m, block_m), triton.cdiv(n, block_n))](
            a, b, c, m, n, k, *a.stride(), *b.stride(),
            B_TURNED=turned, BM=block_m, BN=block_n, BK=block_k,
        )  # fmt: skip
        assert (c.numpy().view(np.uint32) == wanted.view(np.uint32)).all(), turned


@triton.jit
def twice(a_ptr, b_ptr, c_ptr, d_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    first = tl.dot(a, b, input_precision="ieee")
    second = first
    for _ in range(2):
        # ``first`` lives on: no dot may add to it in place.
        second = tl.dot(a, b, first, input_precision="ieee") + second
    tl.store(c_ptr + at, first)
    tl.store(d_ptr + at, second)


def test_an_accumulator_that_is_read_again_keeps_its_value() -> None:
    a, b = values(3, (32, 32), torch.float32), values(4, (32, 32), torch.float32)
    c, d = torch.empty(32, 32), torch.empty(32, 32)
    twice[(1,)](a, b, c, d, N=32)
    first = chain(a, b)
    assert (c.numpy() == first).all()
    acc = first.copy()
    for k in range(32):
        product_k = a.double().numpy()[:, k : k + 1] * b.double().numpy()[k]
        acc = (acc.astype(np.float64) + product_k).astype(np.float32)
    assert (d.numpy() == acc + (acc + first)).all()
