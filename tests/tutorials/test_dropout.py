"""Dropout: with a mask that is kept, and with a seed from which the mask is drawn again."""

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, keep_ptr, out_ptr, n, p, BLOCK: tl.constexpr):
    """Where ``keep`` says so, x / (1 - p)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.load(keep_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(keep != 0, x / (1 - p), 0.0), mask=mask)


@triton.jit
def seeded_dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """The mask is philox of the seed and the element's index."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def scaled(x: torch.Tensor, keep: torch.Tensor, p: float) -> torch.Tensor:
    """In float64, then rounded as the kernel rounds: 1 - p first, then the quotient."""
    return torch.where(keep, (x.double() / np.float32(1 - np.float32(p))).float(), 0.0)


def test_dropout_by_a_mask() -> None:
    torch.manual_seed(0)
    x, keep = torch.randn(1003), torch.rand(1003) > 0.4
    out = torch.empty_like(x)
    dropout_kernel[(4,)](x, keep.int(), out, 1003, 0.4, BLOCK=256)
    assert torch.equal(out, scaled(x, keep, 0.4))


def philox_uniform(seed: int, n: int) -> torch.Tensor:
    """[0, 1) from the first word of philox 4x32-10 of each index, in Python's integers."""
    out = np.empty(n, np.float32)
    for index in range(n):
        c0, c1, c2, c3, k0, k1 = index, 0, 0, 0, seed & 0xFFFFFFFF, seed >> 32
        for _ in range(10):
            a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
            c0, c1, c2, c3 = (
                (b >> 32) ^ c1 ^ k0,
                b & 0xFFFFFFFF,
                (a >> 32) ^ c3 ^ k1,
                a & 0xFFFFFFFF,
            )
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        folded = c0 if c0 < 1 << 31 else (1 << 32) - 1 - c0
        out[index] = np.float32(folded) * np.float32(4.6566127342e-10)
    return torch.from_numpy(out)


def test_seeded_dropout_draws_philox_and_draws_it_again() -> None:
    torch.manual_seed(0)
    x = torch.randn(700)
    outs = []
    for seed, block in ((123, 256), (123, 64), (512, 256)):
        out = torch.empty_like(x)
        seeded_dropout_kernel[(triton.cdiv(700, block),)](x, out, 700, 0.5, seed, BLOCK=block)
        assert torch.equal(out, scaled(x, philox_uniform(seed, 700) > 0.5, 0.5))
        outs.append(out)
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
