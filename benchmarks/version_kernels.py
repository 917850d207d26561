"""Ordinary Triton kernels and the digests of what they compute, for comparing environments.

Every case draws its inputs from numpy with a fixed seed, runs one launch (or one seed entry) on
CPU tensors and hashes the bytes of the outputs. Equal digests mean equal bits.
"""

import hashlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

ROOT = Path(__file__).parent.parent
FLOATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y, one block a program."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


@triton.jit
def row_sum(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    """out[row] = sum of x[row, :] in float32, one row a program."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


@triton.jit
def softmax(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    """out = softmax of each row, one row a program."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < n
    x = tl.load(x_ptr + row * stride + cols, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(out_ptr + row * stride + cols, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def swiglu(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = gate * sigmoid(gate) * up, one block a program."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    gate = tl.load(gate_ptr + offsets, mask=inside).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=inside).to(tl.float32)
    out = gate * (1.0 / (1.0 + tl.exp(-gate))) * up
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ b, float32 accumulator, a BM x BN tile a program, k ascending."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        ks = start + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rows[:, None] * k + ks[None, :],
            mask=(rows < m)[:, None] & (ks < k)[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + ks[:, None] * n + cols[None, :],
            mask=(ks < k)[:, None] & (cols < n)[None, :],
            other=0.0,
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(
        c_ptr + rows[:, None] * n + cols[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=(rows < m)[:, None] & (cols < n)[None, :],
    )


@triton.jit
def integers(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Quotient and remainder (divisors are never 0), shifts and bit operations, one program."""
    offsets = tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=1)
    y = tl.load(y_ptr + offsets, mask=inside, other=1)
    out = (x // y) * 31 + (x % y) ^ (x >> 3) & (y << 2) | (x * 1664525 + 1013904223)
    tl.store(out_ptr + offsets, out, mask=inside)


@triton.jit
def casts(x_ptr, half_ptr, bf16_ptr, int_ptr, n, BLOCK: tl.constexpr):
    """float32 to float16, bfloat16 and int32, one program."""
    offsets = tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(half_ptr + offsets, x.to(tl.float16), mask=inside)
    tl.store(bf16_ptr + offsets, x.to(tl.bfloat16), mask=inside)
    tl.store(int_ptr + offsets, x.to(tl.int32), mask=inside)


@triton.jit
def root_and_quotient(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Correctly rounded x / sqrt(y), fma, minimum and maximum, one program."""
    offsets = tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.abs(tl.load(y_ptr + offsets, mask=inside, other=1.0))
    q = tl.div_rn(x, tl.sqrt_rn(y))
    out = tl.fma(q, x, y) + tl.minimum(x, y) * tl.maximum(q, 0.5)
    tl.store(out_ptr + offsets, tl.where(x > 0, out, -out), mask=inside)


def floats(seed: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Normal values with wide exponents and alternating signs, so that orders of sums tell."""
    draw = np.random.default_rng(seed)
    values = draw.standard_normal(shape) * np.exp2(draw.integers(-6, 6, shape))
    # Cloned into torch's memory, which is aligned to 64 bytes; numpy's is not, and vectors that
    # straddle cache lines would be timed on one side only.
    return torch.from_numpy(values.astype(np.float32)).to(dtype).clone()


def digest(*tensors: torch.Tensor) -> str:
    """Hash of the bytes of tensors."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def _elementwise(kernel: Any, dtype: torch.dtype) -> str:
    n = 3001
    x, y = floats(1, (n,), dtype), floats(2, (n,), dtype)
    out = torch.empty_like(x)
    kernel[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    return digest(out)


def _rows(kernel: Any, dtype: torch.dtype) -> str:
    x = floats(3, (37, 1000), dtype)
    out = torch.zeros_like(x) if kernel is softmax else torch.empty(37)
    kernel[(37,)](x, out, 1000, 1000, BLOCK=1024)
    return digest(out)


def _matmul(dtype: torch.dtype, m: int, n: int, k: int) -> str:
    a, b = floats(4, (m, k), dtype), floats(5, (k, n), dtype)
    c = torch.empty((m, n), dtype=dtype)
    matmul[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, c, m, n, k, BM=32, BN=32, BK=32)
    return digest(c)


def _integers() -> str:
    draw = np.random.default_rng(6)
    x = torch.from_numpy(draw.integers(-(2**31), 2**31, 500).astype(np.int32))
    y = torch.from_numpy(draw.integers(1, 1000, 500).astype(np.int32))
    out = torch.empty_like(x)
    integers[(1,)](x, y, out, 500, BLOCK=512)
    return digest(out)


def _casts() -> str:
    x = floats(7, (1000,), torch.float32) * 40
    outs = [torch.empty(1000, dtype=t) for t in (torch.float16, torch.bfloat16, torch.int32)]
    casts[(1,)](x, *outs, 1000, BLOCK=1024)
    return digest(*outs)


def _root() -> str:
    x, y = floats(8, (1000,), torch.float32), floats(9, (1000,), torch.float32)
    out = torch.empty_like(x)
    root_and_quotient[(1,)](x, y, out, 1000, BLOCK=1024)
    return digest(out)


def load_seed(name: str) -> ModuleType:
    """A seed kernel's module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "seed_kernels" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _seed_rms_norm(dtype: torch.dtype, with_residual: bool) -> str:
    seed = load_seed("rms_norm")
    x, weight = floats(10, (35, 1000), dtype), floats(11, (1000,), dtype)
    residual = floats(12, (35, 1000), dtype) if with_residual else None
    dy = floats(13, (35, 1000), dtype)
    trained = seed.forward_train(x, weight, 1e-6, residual)
    inferred = seed.forward_infer(x, weight, 1e-6, residual)
    dx, dw = seed.backward(dy, trained[2] if with_residual else x, weight, trained[1], None, None)
    return digest(*trained, *inferred, dx, dw)


def _seed_linear(dtype: torch.dtype, with_bias: bool) -> str:
    seed = load_seed("linear")
    x, weight = floats(14, (67, 136), dtype), floats(15, (200, 136), dtype)
    bias = floats(16, (200,), dtype) if with_bias else None
    dy = floats(17, (67, 200), dtype)
    outs = [*seed.forward_train(x, weight, bias), *seed.forward_infer(x, weight, bias)]
    return digest(*outs, *seed.backward(dy, x, weight, bias, None, None))


def _few_rows(dtype: torch.dtype) -> str:
    """The seed's product in tiles of few rows, on weights contiguous along k."""
    from hand_variants import linear_tiles

    seed = load_seed("linear")
    x, weight = floats(18, (21, 320), dtype), floats(19, (200, 320), dtype)
    tiles = ((1, 64, 64), (4, 32, 128), (16, 64, 32))
    return digest(*(linear_tiles(seed, x, weight, tile) for tile in tiles))


def cases() -> Iterator[tuple[str, Callable[[], str]]]:
    """(name, function that runs the case and returns its digest)."""
    for name, dtype in FLOATS.items():
        yield f"add/{name}", lambda dtype=dtype: _elementwise(add, dtype)
        yield f"row_sum/{name}", lambda dtype=dtype: _rows(row_sum, dtype)
        yield f"softmax/{name}", lambda dtype=dtype: _rows(softmax, dtype)
        yield f"swiglu/{name}", lambda dtype=dtype: _elementwise(swiglu, dtype)
        yield f"matmul/{name}", lambda dtype=dtype: _matmul(dtype, 65, 70, 100)
    yield "matmul_even/fp32", lambda: _matmul(torch.float32, 64, 64, 128)
    yield "integers", _integers
    yield "casts", _casts
    yield "root_and_quotient", _root
    for name in ("fp32", "bf16"):
        dtype = FLOATS[name]
        yield f"few_rows/{name}", lambda dtype=dtype: _few_rows(dtype)
        for extra in (False, True):
            mark = "+" if extra else ""
            yield (
                f"seed_rms_norm{mark}/{name}",
                lambda dtype=dtype, extra=extra: _seed_rms_norm(dtype, extra),
            )
            yield (
                f"seed_linear{mark}/{name}",
                lambda dtype=dtype, extra=extra: _seed_linear(dtype, extra),
            )
