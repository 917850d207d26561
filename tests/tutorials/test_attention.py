"""Fused attention, forward and backward, causal and not, against torch in float64."""

import sys
from pathlib import Path

import pytest
import torch
import triton

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.tutorials import attention_kernels as kernels  # noqa: E402

HEADS, D = 3, 32
TILES = {"D": D, "BM": 32, "BN": 16}


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool,
              scale: float) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(o, M) by the kernel."""
    o, m = torch.empty_like(q), torch.empty(q.shape[:2])
    rows = q.shape[1]
    grid = (triton.cdiv(rows, TILES["BM"]), q.shape[0])
    kernels.forward[grid](q, k, v, o, m, rows, scale, CAUSAL=causal, **TILES)
    return o, m


def gradients(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float,
              do: torch.Tensor) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """dq, dk, dv by the kernels."""
    o, m = attention(q, k, v, causal, scale)
    delta = torch.empty_like(m)
    rows, heads = q.shape[1], q.shape[0]
    by_rows, by_cols = triton.cdiv(rows, TILES["BM"]), triton.cdiv(rows, TILES["BN"])
    kernels.row_dots[(by_rows, heads)](o, do, delta, rows, D=D, BM=TILES["BM"])
    dq, dk, dv = (torch.empty_like(each) for each in (q, k, v))
    kernels.backward_columns[(by_cols, heads)](
        q, k, v, do, dk, dv, m, delta, rows, scale, CAUSAL=causal, **TILES
    )
    kernels.backward_rows[(by_rows, heads)](
        q, k, v, do, dq, m, delta, rows, scale, CAUSAL=causal, **TILES
    )
    return dq, dk, dv


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool,
              scale: float) -> torch.Tensor:  # fmt: skip
    s = q @ k.transpose(1, 2) * scale
    if causal:
        rows = q.shape[1]
        s = s.masked_fill(~torch.ones(rows, rows).tril().bool(), -float("inf"))
    return torch.softmax(s, -1) @ v


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("dtype", "rows", "loose"), [(torch.float32, 80, 2e-5), (torch.float16, 64, 6e-3)]
)
def test_attention_forward_and_backward(
    dtype: torch.dtype, rows: int, loose: float, causal: bool
) -> None:
    torch.manual_seed(20)
    q, k, v, do = (torch.randn(HEADS, rows, D).to(dtype) for _ in range(4))
    wide = [each.double().requires_grad_() for each in (q, k, v)]
    wanted = reference(*wide, causal, 0.5)
    o, _ = attention(q, k, v, causal, 0.5)
    torch.testing.assert_close(o.double(), wanted.detach(), rtol=loose, atol=loose)
    targets = torch.autograd.grad(wanted, wide, do.double())
    for name, got, target in zip(
        ("dq", "dk", "dv"), gradients(q, k, v, causal, 0.5, do), targets, strict=True
    ):
        bound = 4 * loose * float(target.abs().max())
        worst = float((got.double() - target).abs().max())
        assert worst <= bound, f"{name}: {worst} > {bound}"


def test_a_batch_of_heads_has_the_bits_of_each_alone() -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(HEADS, 48, D) for _ in range(3))
    together, _ = attention(q, k, v, True, 0.3)
    for head in range(HEADS):
        alone, _ = attention(q[head : head + 1], k[head : head + 1], v[head : head + 1], True, 0.3)
        assert torch.equal(alone[0], together[head])
