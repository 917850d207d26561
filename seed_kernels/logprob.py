"""Log-probability of the chosen token and entropy, over a vocabulary of logits, with backward.

    m       = max over columns of x
    e_j     = exp(x_j - m)
    z       = sum of e_j
    t       = sum of e_j * (x_j - m), a term with e_j = 0 counting as zero
    lse     = m + log(z)
    logprob = x[target] - lse
    entropy = log(z) - t / z

    p_j  = exp(x_j - lse),  l_j = x_j - lse
    dx_j = round(dlogprob * (onehot_j - p_j) [- dentropy * (p_j * (l_j + entropy))])

Rows are tokens, columns the vocabulary. All arithmetic is float32, products and sums rounded
apart in the order of the brackets, division correctly rounded, ``exp`` and ``log`` the device's;
``round`` is the cast to the dtype of x (bfloat16 or float32, to nearest even). Outputs of forward
are float32. The maximum is exact, so its order is free; both sums run over a fixed tile in a
fixed order.

A logit of minus infinity is a token that cannot be chosen: its e is 0, and it adds nothing to
either sum. Rows with plus infinity or NaN, or with nothing above minus infinity, give NaN.

Training calls ``forward_train`` and inference ``forward_infer``; for one token both give the
same bits, whatever else is in the batch.
"""

import torch
import triton
import triton.language as tl

from kernelsmith.lang import tree_sum


@triton.jit
def _forward(
    x_ptr,
    target_ptr,
    logprob_ptr,
    entropy_ptr,
    lse_ptr,
    x_stride,
    n_cols,
    STORE_LSE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """logprob, entropy and, as asked, lse of one row.

    Program ``i`` owns row ``i`` and reads it twice. First the maximum, in lanes [BLOCK]. Then lane
    ``j`` of two float32 accumulators adds the terms of columns ``j, j + BLOCK, ...`` in ascending
    order; the lanes of each are summed as a tree of adjacent pairs.
    """
    row = tl.program_id(0).to(tl.int64)
    largest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=float("-inf"))
        largest = tl.maximum(largest, x.to(tl.float32))
    m = tl.max(largest, axis=0)
    exps = tl.zeros((BLOCK,), dtype=tl.float32)
    products = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=float("-inf"))
        below = x.to(tl.float32) - m
        e = tl.exp(below)
        exps += e
        products += tl.where(e > 0.0, e * below, 0.0)
    z = tree_sum(exps)
    log_z = tl.log(z)
    lse = m + log_z
    target = tl.load(target_ptr + row)
    chosen = tl.load(x_ptr + row * x_stride + target).to(tl.float32)
    tl.store(logprob_ptr + row, chosen - lse)
    tl.store(entropy_ptr + row, log_z - tl.div_rn(tree_sum(products), z))
    if STORE_LSE:
        tl.store(lse_ptr + row, lse)


@triton.jit
def _backward(
    x_ptr,
    target_ptr,
    lse_ptr,
    entropy_ptr,
    dlogprob_ptr,
    dentropy_ptr,
    dx_ptr,
    x_stride,
    dx_stride,
    n_cols,
    HAS_DENTROPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dx of one row. Program ``i`` owns row ``i``, in blocks of BLOCK columns."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    lse = tl.load(lse_ptr + row)
    dlogprob = tl.load(dlogprob_ptr + row)
    if HAS_DENTROPY:
        entropy = tl.load(entropy_ptr + row)
        dentropy = tl.load(dentropy_ptr + row)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        x = tl.load(x_ptr + row * x_stride + cols, mask=inside, other=0.0).to(tl.float32)
        l = x - lse
        p = tl.exp(l)
        dx = dlogprob * (tl.where(cols == target, 1.0, 0.0) - p)
        if HAS_DENTROPY:
            dx = dx - dentropy * tl.where(p > 0.0, p * (l + entropy), 0.0)
        tl.store(dx_ptr + row * dx_stride + cols, dx.to(dx_ptr.dtype.element_ty), mask=inside)


def forward_train(x, target):
    """Forward of a training step: also returns lse, which backward needs.

    Args:
        x: [M, N] of dtype T (bfloat16 or float32), logits; rows may be strided, columns are
            contiguous.
        target: [M] int64, columns of the chosen tokens, in [0, N).

    Returns:
        ``(logprob, entropy, lse)``: [M] float32 each.
    """
    n_rows = x.shape[0]
    n_cols = x.shape[1]
    logprob = x.new_empty((n_rows,), dtype=torch.float32)
    entropy = x.new_empty((n_rows,), dtype=torch.float32)
    lse = x.new_empty((n_rows,), dtype=torch.float32)
    _forward[(n_rows,)](
        x,
        target,
        logprob,
        entropy,
        lse,
        x.stride(0),
        n_cols,
        STORE_LSE=True,
        BLOCK=1024,
        num_warps=4,
    )
    return logprob, entropy, lse


def forward_infer(x, target):
    """Forward of sampling and scoring: bit for bit as ``forward_train`` has it, no lse.

    Args:
        x: [M, N] of dtype T (bfloat16 or float32), logits; rows may be strided, columns are
            contiguous.
        target: [M] int64, columns of the chosen tokens, in [0, N).

    Returns:
        ``(logprob, entropy)``: [M] float32 each.
    """
    n_rows = x.shape[0]
    n_cols = x.shape[1]
    logprob = x.new_empty((n_rows,), dtype=torch.float32)
    entropy = x.new_empty((n_rows,), dtype=torch.float32)
    _forward[(n_rows,)](
        x,
        target,
        logprob,
        entropy,
        None,
        x.stride(0),
        n_cols,
        STORE_LSE=False,
        BLOCK=1024,
        num_warps=4,
    )
    return logprob, entropy


def backward(dlogprob, dentropy, x, target, lse, entropy):
    """Gradient of the loss by the logits.

    Args:
        dlogprob: [M] float32, gradient of logprob.
        dentropy: None, or [M] float32, gradient of entropy.
        x: [M, N] of dtype T, the logits.
        target: [M] int64, as forward took it.
        lse: [M] float32, from ``forward_train``.
        entropy: None, or [M] float32, from ``forward_train``; given where dentropy is.

    Returns:
        ``(dx,)``: [M, N] of dtype T, a function of one token.
    """
    n_rows = x.shape[0]
    n_cols = x.shape[1]
    dx = x.new_empty((n_rows, n_cols))
    _backward[(n_rows,)](
        x,
        target,
        lse,
        entropy,
        dlogprob,
        dentropy,
        dx,
        x.stride(0),
        dx.stride(0),
        n_cols,
        HAS_DENTROPY=dentropy is not None,
        BLOCK=1024,
        num_warps=4,
    )
    return (dx,)
