"""Hand-written variants of the seeds, bit-equal to them: what a person would write for the CPU.

``linear_tiles`` runs the seed's own kernel with tiles chosen by the number of tokens;
``rms_norm_one_pass`` keeps a row in registers instead of reading it twice.
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
