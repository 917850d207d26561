"""Hand-written variants of the seeds, bit-equal to them: what a person would write for the CPU.

``linear_tiles`` runs the seed's own kernel with tiles chosen by the number of tokens;
``rms_norm_one_pass`` keeps a row in registers instead of reading it twice; ``swiglu_flat`` takes
all elements as one line; ``logprob_two_tiles`` takes the maximum, whose order is free, in fewer
lanes, and rows of at most 512 columns in a tile of their own: the seed's other lanes add zeros.
"""

from types import ModuleType
from typing import Any

import torch
import triton
import triton.language as tl

from kernelsmith.lang import tree_sum

# (tokens up to, BLOCK_M, BLOCK_N, BLOCK_K): the table a person arrives at by trying.
TILE_TABLE = (
    (1, 1, 128, 256),
    (2, 2, 128, 256),
    (4, 4, 128, 128),
    (8, 8, 128, 128),
    (16, 16, 128, 128),
    (40, 8, 64, 256),
    (64, 64, 64, 128),
    (10**9, 128, 128, 64),
)


def tiles_for(tokens: int) -> tuple[int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K of the table."""
    for up_to, *tiles in TILE_TABLE:
        if tokens <= up_to:
            return (tiles[0], tiles[1], tiles[2])
    raise AssertionError("the last row takes all")


def linear_tiles(
    seed: ModuleType, x: torch.Tensor, weight: torch.Tensor, tiles: tuple[int, int, int]
) -> torch.Tensor:
    """y = x @ weight^T by the seed's kernel with other tiles: the same order of products."""
    (m, k), n = x.shape, weight.shape[0]
    block_m, block_n, block_k = tiles
    y = x.new_empty((m, n))
    kernel: Any = seed._matmul
    kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        x,
        weight,
        y,
        None,
        None,
        m,
        n,
        k,
        x.stride(0),
        x.stride(1),
        weight.stride(1),
        weight.stride(0),
        y.stride(0),
        0,
        HAS_BIAS=False,
        HAS_CARRY=False,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
    )
    return y


@triton.jit
def _one_pass(x_ptr, weight_ptr, y_ptr, x_stride, y_stride, n_cols, eps, BLOCK: tl.constexpr):
    """y of one row of at most BLOCK columns; program ``i`` owns row ``i``."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    h = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
    mean = tl.div_rn(tree_sum(h * h), n_cols.to(tl.float32))
    rstd = tl.div_rn(1.0, tl.sqrt_rn(mean + eps))
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    y = (h * rstd) * weight
    tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=inside)


def rms_norm_one_pass(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """y of ``rms_norm`` for at most 1024 columns, each row read once."""
    y = torch.empty_like(x)
    rows, cols = x.shape
    assert cols <= 1024
    _one_pass[(rows,)](x, weight, y, x.stride(0), y.stride(0), cols, eps, BLOCK=1024)
    return y


@triton.jit
def _gated_line(gate_ptr, up_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    """y of BLOCK elements; program ``i`` owns block ``i``, rows do not matter."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_elements
    gate = tl.load(gate_ptr + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=inside, other=0.0).to(tl.float32)
    s = tl.div_rn(1.0, 1.0 + tl.exp(0.0 - gate))
    y = (gate * s) * up
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def swiglu_flat(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """y of ``swiglu`` for contiguous tensors of fewer than 2^31 elements."""
    assert gate.is_contiguous()
    assert up.is_contiguous()
    y = torch.empty_like(gate)
    count = gate.numel()
    _gated_line[(triton.cdiv(count, 1024),)](gate, up, y, count, BLOCK=1024)
    return y


@triton.jit
def _two_tiles(
    x_ptr,
    target_ptr,
    logprob_ptr,
    entropy_ptr,
    x_stride,
    n_cols,
    MAX_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """logprob and entropy of one row: the seed's sums, the maximum in MAX_BLOCK lanes."""
    row = tl.program_id(0).to(tl.int64)
    largest = tl.full((MAX_BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, n_cols, MAX_BLOCK):
        cols = start + tl.arange(0, MAX_BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n_cols, other=float("-inf"))
        largest = tl.maximum(largest, x.to(tl.float32))
    m = tl.max(largest, axis=0)
    exps = tl.zeros((BLOCK,), dtype=tl.float32)
    products = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n_cols, other=float("-inf"))
        below = x.to(tl.float32) - m
        e = tl.exp(below)
        exps += e
        products += tl.where(e > 0.0, e * below, 0.0)
    z = tree_sum(exps)
    log_z = tl.log(z)
    chosen = tl.load(x_ptr + row * x_stride + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(logprob_ptr + row, chosen - (m + log_z))
    tl.store(entropy_ptr + row, log_z - tl.div_rn(tree_sum(products), z))


@triton.jit
def _one_tile(x_ptr, target_ptr, logprob_ptr, entropy_ptr, x_stride, n_cols, BLOCK: tl.constexpr):
    """logprob and entropy of one row of at most BLOCK columns."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + cols, mask=cols < n_cols, other=float("-inf"))
    x = x.to(tl.float32)
    m = tl.max(x, axis=0)
    below = x - m
    e = tl.exp(below)
    z = tree_sum(e)
    log_z = tl.log(z)
    chosen = tl.load(x_ptr + row * x_stride + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(logprob_ptr + row, chosen - (m + log_z))
    products = tree_sum(tl.where(e > 0.0, e * below, 0.0))
    tl.store(entropy_ptr + row, log_z - tl.div_rn(products, z))


def logprob_two_tiles(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """logprob and entropy of ``logprob``, bit for bit."""
    rows, cols = x.shape
    logprob, entropy = (x.new_empty((rows,), dtype=torch.float32) for _ in range(2))
    if cols <= 512:
        block = triton.next_power_of_2(cols)
        _one_tile[(rows,)](x, target, logprob, entropy, x.stride(0), cols, BLOCK=block)
    else:
        _two_tiles[(rows,)](
            x, target, logprob, entropy, x.stride(0), cols, MAX_BLOCK=128, BLOCK=1024
        )
    return logprob, entropy
