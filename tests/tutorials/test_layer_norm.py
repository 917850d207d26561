"""Layer norm, forward and backward: weight gradients by locks and atomics, and without."""

from dataclasses import dataclass

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps,
                   BLOCK: tl.constexpr):  # fmt: skip
    """A row a program, walked in blocks three times."""
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(w_ptr + cols, mask=mask)
        b = tl.load(b_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def row_gradient(x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, row, stride, cols, mask, N):
    """dx of a row, and the row's terms of dw and db."""
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    x_hat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(x_hat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    return (wdy - (x_hat * c1 + c2)) * rstd, dy * x_hat, dy


@triton.jit
def locked_kernel(dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr,
                  stride, N, GROUP: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """A row a program; rows of a group add up under the group's lock, whose second word says
    whether the buffer holds anything yet."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    dx, dw, db = row_gradient(x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, row, stride, cols, mask, N)
    tl.store(dx_ptr + row * stride + cols, dx, mask=mask)
    group = row % GROUP
    lock_ptr += group
    count_ptr = lock_ptr + GROUP
    dw_ptr = dw_ptr + group * N + cols
    db_ptr = db_ptr + group * N + cols
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(count_ptr) == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptr, mask=mask)
        db += tl.load(db_ptr, mask=mask)
    tl.store(dw_ptr, dw, mask=mask)
    tl.store(db_ptr, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def grouped_kernel(dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, M, stride, N,
                   GROUP: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Every GROUP-th row a program, in ascending order: no lock, one order of sums."""
    group = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    dw_total = tl.zeros([BLOCK], dtype=tl.float32)
    db_total = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(group, M, GROUP):
        dx, dw, db = row_gradient(
            x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, row, stride, cols, mask, N
        )
        tl.store(dx_ptr + row * stride + cols, dx, mask=mask)
        dw_total += dw
        db_total += db
    tl.store(dw_ptr + group * N + cols, dw_total, mask=mask)
    tl.store(db_ptr + group * N + cols, db_total, mask=mask)


@triton.jit
def total_kernel(part_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Column sums of the groups' parts."""
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, M, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        total += tl.load(part_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + cols, tl.sum(total, axis=0), mask=cols < N)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    x: torch.Tensor
    w: torch.Tensor
    b: torch.Tensor
    dy: torch.Tensor
    y: torch.Tensor
    mean: torch.Tensor
    rstd: torch.Tensor


EPS = 1e-5
ROWS, COLS, GROUP = 39, 301, 8


@pytest.fixture
def tensors() -> Tensors:
    """Inputs, and what the forward kernel made of them."""
    torch.manual_seed(0)
    x = -2.3 + 0.5 * torch.randn(ROWS, COLS)
    w, b = torch.rand(COLS), torch.rand(COLS)
    y, mean, rstd = torch.empty_like(x), torch.empty(ROWS), torch.empty(ROWS)
    forward_kernel[(ROWS,)](x, y, w, b, mean, rstd, COLS, COLS, EPS, BLOCK=128)
    dy = 0.1 * torch.randn(ROWS, COLS)
    return Tensors(x=x, w=w, b=b, dy=dy, y=y, mean=mean, rstd=rstd)


def wanted(t: Tensors) -> tuple[torch.Tensor, ...]:
    """y, dx, dw, db by torch in float64."""
    x, w, b = (each.double().requires_grad_() for each in (t.x, t.w, t.b))
    y = torch.nn.functional.layer_norm(x, (COLS,), w, b, EPS)
    return (y.detach(), *torch.autograd.grad(y, (x, w, b), t.dy.double()))


def totals(parts: torch.Tensor) -> torch.Tensor:
    out = torch.empty(COLS)
    total_kernel[(triton.cdiv(COLS, 128),)](parts, out, GROUP, COLS, BM=32, BN=128)
    return out


def close(got: torch.Tensor, target: torch.Tensor) -> None:
    torch.testing.assert_close(got.double(), target, rtol=2e-5, atol=2e-5)


def test_forward(tensors: Tensors) -> None:
    close(tensors.y, wanted(tensors)[0])


def test_backward_with_locks(tensors: Tensors) -> None:
    t = tensors
    dx, parts = torch.empty_like(t.x), torch.zeros(2, GROUP, COLS)
    locks = torch.zeros(2 * GROUP, dtype=torch.int32)
    locked_kernel[(ROWS,)](
        dx, t.dy, parts[0], parts[1], t.x, t.w, t.mean, t.rstd, locks, COLS, COLS,
        GROUP=GROUP, BLOCK=512,
    )  # fmt: skip
    assert locks.tolist() == [0] * GROUP + [1] * GROUP
    for got, target in zip((dx, totals(parts[0]), totals(parts[1])), wanted(t)[1:], strict=True):
        close(got, target)


def test_backward_without_locks_is_the_same_bits_every_time(tensors: Tensors) -> None:
    t = tensors
    seen = []
    for _ in range(2):
        dx, parts = torch.empty_like(t.x), torch.empty(2, GROUP, COLS)
        grouped_kernel[(GROUP,)](
            dx, t.dy, parts[0], parts[1], t.x, t.w, t.mean, t.rstd, ROWS, COLS, COLS,
            GROUP=GROUP, BLOCK=512,
        )  # fmt: skip
        seen.append((dx, totals(parts[0]), totals(parts[1])))
    for got, again, target in zip(*seen, wanted(t)[1:], strict=True):
        assert torch.equal(got, again)
        close(got, target)
