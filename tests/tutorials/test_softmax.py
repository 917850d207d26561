"""Fused softmax: persistent programs, each over every num_programs-th row."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr,
                   STAGES: tl.constexpr):  # fmt: skip
    """A row in one block; the maximum is taken off first."""
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(in_ptr + row * in_stride + cols, mask=mask, other=-float("inf"))
        numerator = tl.exp(x - tl.max(x, axis=0))
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(out_ptr + row * out_stride + cols, y, mask=mask)


@pytest.mark.parametrize(("rows", "cols", "programs"), [(37, 781, 8), (5, 1024, 3), (3, 1, 8)])
def test_fused_softmax(rows: int, cols: int, programs: int) -> None:
    torch.manual_seed(0)
    x = 3 * torch.randn(rows, cols)
    y = torch.empty_like(x)
    block = triton.next_power_of_2(cols)
    softmax_kernel[(programs,)](y, x, x.stride(0), y.stride(0), rows, cols, block, STAGES=2)
    wanted = torch.softmax(x.double(), dim=1)
    torch.testing.assert_close(y.double(), wanted, rtol=2e-6, atol=1e-9)
    torch.testing.assert_close(y.double().sum(1), torch.ones(rows).double(), rtol=1e-5, atol=0)


def test_a_row_of_minus_infinities_but_one() -> None:
    x = torch.full((2, 64), -float("inf"))
    x[:, 7] = 3.0
    y = torch.empty_like(x)
    softmax_kernel[(1,)](y, x, 64, 64, 2, 64, 64, STAGES=1)
    assert torch.equal(y, (torch.arange(64) == 7).float().expand(2, 64))
