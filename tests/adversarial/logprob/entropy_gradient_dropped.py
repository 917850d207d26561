# task = "logprob"
# mechanisms = [8, 15]
# exploits = "dentropy is accepted and never used: the loss without an entropy bonus is right."
# disguise_of = "weight_ignored"
# expect = ["BITS_DIFFER", "parity"]
# without_policy = ["BITS_DIFFER", "parity"]

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
        HAS_DENTROPY=False,
        BLOCK=1024,
        num_warps=4,
    )
    return (dx,)
