"""The order of every sum, against transcriptions that spell it out addition by addition."""

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.lang import tree_sum

F32 = np.float32


@triton.jit
def _sum_vector(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tree_sum(tl.load(x_ptr + tl.arange(0, N))))


@triton.jit
def _sum_rows(x_ptr, out_ptr, R: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, R)
    x = tl.load(x_ptr + rows[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + rows, tree_sum(x))


def pairs(x: np.ndarray) -> np.ndarray:
    """Adjacent pairs, level by level, over the last axis."""
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def telling(shape: tuple[int, ...], seed: int = 3) -> np.ndarray:
    """float32 values of wide exponents: nearly every other order gives other bits."""
    rng = np.random.default_rng(seed)
    mantissa = rng.standard_normal(shape).astype(F32)
    return (mantissa * np.exp2(rng.integers(-8, 9, shape))).astype(F32)


@pytest.mark.parametrize("size", [1, 2, 4, 64, 1024])
def test_tree_sum_of_a_vector_adds_adjacent_pairs(cpu_device: None, size: int) -> None:
    x = telling((size,))
    out = torch.empty(1)
    _sum_vector[(1,)](torch.from_numpy(x), out, N=size)
    assert out.numpy().tobytes() == pairs(x).tobytes()


@pytest.mark.parametrize(("rows", "size"), [(1, 8), (8, 1), (16, 64), (4, 512)])
def test_tree_sum_of_rows_adds_adjacent_pairs(cpu_device: None, rows: int, size: int) -> None:
    x = telling((rows, size))
    out = torch.empty(rows)
    _sum_rows[(1,)](torch.from_numpy(x), out, R=rows, N=size)
    assert out.numpy().tobytes() == pairs(x).tobytes()


def lanes(x: np.ndarray, block: int = 1024) -> np.ndarray:
    acc = np.zeros((x.shape[0], block), F32)
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        acc[:, : part.shape[1]] += part
    return acc


def float32(tensor: Any) -> np.ndarray:
    return tensor.float().numpy()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("regime", ["normal", "cancel", "absorb", "ties", "logspace"])
@pytest.mark.parametrize(("tokens", "cols"), [(9, 1024), (5, 1000), (4, 2048), (33, 128)])
def test_rms_norm_bits_equal_its_transcription(
    rms_norm: Any, dtype: str, regime: str, tokens: int, cols: int
) -> None:
    case = rms_norm.case("train", dtype, regime, M=tokens, N=cols)
    given = rms_norm.tensors(case)
    x, weight = float32(given["x"]), float32(given["weight"])
    mean = (pairs(lanes(x * x)) / F32(cols)).astype(F32)
    rstd = F32(1) / np.sqrt(mean + F32(1e-6))
    y = torch.from_numpy((x * rstd[:, None]) * weight).to(given["x"].dtype)
    out = rms_norm.run(case, given)
    assert out["rstd"].numpy().tobytes() == rstd.tobytes()
    assert torch.equal(out["y"].view(torch.uint8), y.view(torch.uint8))

    case = rms_norm.case("residual_backward", dtype, regime, M=tokens, N=cols)
    given = rms_norm.tensors(case)
    dy, x, weight, dh = (float32(given[n]) for n in ("dy", "x", "weight", "dh"))
    rstd = given["rstd"].numpy()[:, None]
    g, hat = dy * weight, x * rstd
    mean = (pairs(lanes(g * hat)) / F32(cols)).astype(F32)[:, None]
    dx = torch.from_numpy(rstd * (g - hat * mean) + dh).to(given["x"].dtype)
    dw = np.zeros(cols, F32)
    for block in range(0, tokens, 32):
        partial = np.zeros(cols, F32)
        for row in range(block, min(block + 32, tokens)):
            partial += dy[row] * hat[row]
        dw += partial
    out = rms_norm.run(case, given)
    assert torch.equal(out["dx"].view(torch.uint8), dx.view(torch.uint8))
    assert out["dw"].numpy().tobytes() == dw.tobytes()


@pytest.mark.parametrize("regime", ["normal", "cancel", "absorb"])
def test_linear_bits_equal_one_chain_of_fma(linear: Any, regime: str) -> None:
    case = linear.case("bias_train", "bfloat16", regime, M=5, N=40, K=72)
    given = linear.tensors(case)
    x, weight = given["x"].double().numpy(), given["weight"].double().numpy()
    acc = np.zeros((5, 40), F32)
    for k in range(72):
        # The product of two bfloat16 is exact in float64, and so is the sum but for exponents
        # further apart than these inputs have.
        acc = (acc.astype(np.float64) + x[:, k : k + 1] * weight[:, k]).astype(F32)
    y = torch.from_numpy(acc + float32(given["bias"])).bfloat16()
    assert torch.equal(linear.run(case, given)["y"].view(torch.uint8), y.view(torch.uint8))


def test_linear_sums_db_by_blocks_of_64_tokens(linear: Any) -> None:
    case = linear.case("bias_backward", "float32", "normal", M=131, N=40, K=8)
    given = linear.tensors(case)
    dy = float32(given["dy"])
    padded = np.zeros((192, 40), F32)
    padded[:131] = dy
    db = np.zeros(40, F32)
    for start in range(0, 192, 64):
        db += pairs(padded[start : start + 64].T)
    assert linear.run(case, given)["db"].numpy().tobytes() == db.tobytes()
