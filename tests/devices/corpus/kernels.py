"""Kernels whose TTIR, as each supported Triton prints it, is kept beside this file."""

import triton
import triton.language as tl


@triton.jit
def tree_sum(x):
    for _ in tl.static_range(0, 10):
        if x.shape[0] > 1:
            x = tl.reshape(x, (x.shape[0] // 2, 2))
            a, b = tl.split(x)
            x = a + b
    return tl.sum(x, 0)


@triton.jit
def norm(x_ptr, w_ptr, y_ptr, r_ptr, stride, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([B], dtype=tl.float32)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        x = tl.load(x_ptr + row * stride + c, mask=c < n, other=0.0).to(tl.float32)
        acc += x * x
    r = tl.div_rn(1.0, tl.sqrt_rn(tree_sum(acc) / n + eps))
    tl.store(r_ptr + row, r)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        m = c < n
        x = tl.load(x_ptr + row * stride + c, mask=m, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c, mask=m, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * stride + c, (x * r * w).to(y_ptr.dtype.element_ty), mask=m)


@triton.jit
def linear(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr):  # fmt: skip
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    xp = x_ptr + (om % M)[:, None] * K + ok[None, :]
    wp = w_ptr + (on % N)[None, :] * K + ok[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(xp, mask=ok[None, :] < K - k * BK, other=0.0)
        b = tl.load(wp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        xp += BK
        wp += BK
    bias = tl.load(b_ptr + on, mask=on < N, other=0.0)
    acc = acc + bias[None, :].to(tl.float32)
    yp = y_ptr + om[:, None] * N + on[None, :]
    tl.store(yp, acc.to(y_ptr.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def chain(x_ptr, w_ptr, y_ptr, N, K, BN: tl.constexpr):
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BN,), tl.float32)
    for k in range(K):
        x = tl.load(x_ptr + k).to(tl.float32)
        w = tl.load(w_ptr + on * K + k, mask=on < N, other=0.0).to(tl.float32)
        acc = tl.fma(x, w, acc)
    tl.store(y_ptr + on, acc, mask=on < N)


@triton.jit
def shapes(x, y, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, N)[None, :]
    a = tl.load(x + i * N + j)
    tl.store(y + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(a))
    y += M * N
    tl.store(y + tl.arange(0, M), tl.sum(a, 1))
    y += M
    tl.store(y + tl.arange(0, N), tl.sum(a, 0))
    y += N
    tl.store(y + tl.arange(0, M), tl.max(a, 1))
    y += M
    tl.store(y + tl.arange(0, M), tl.argmax(a, 1).to(tl.float32))
    y += M
    tl.store(y + tl.arange(0, N), tl.argmin(a, 0).to(tl.float32))
    y += N
    p = tl.permute(tl.reshape(a, (2, M // 2, N)), (1, 2, 0))
    e, o = tl.split(p)
    tl.store(y + tl.arange(0, M // 2)[:, None] * N + j, e - o * 2.0)
    y += M * N // 2
    deep = tl.arange(0, M // 2)[:, None, None] * N * 2 + tl.arange(0, N)[None, :, None] * 2
    tl.store(y + deep + tl.arange(0, 2)[None, None, :], tl.join(e, o))
    y += M * N
    tl.store(y + tl.arange(0, 2 * M), tl.interleave(tl.sum(a, 1), tl.max(a, 1)))
    y += 2 * M
    tl.store(y + i * N + j, tl.sum(a, 1)[:, None] / a)
    y += M * N
    tl.store(y, tl.sum(tl.reshape(a, (M * N,)), 0))
    tl.store(y + 1, tree_sum(tl.reshape(a, (M * N,))))


@triton.jit(noinline=True)
def scaled(x, y):
    return x * y + 1.0


@triton.jit
def control(x, y, n, B: tl.constexpr):
    if tl.program_id(0) > 0:
        return
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(x + B + i)
    z = tl.zeros([B], tl.float32)
    m = tl.full([B], 1, tl.int32)
    for k in range(n):
        a, b = b, a + b * 0.5
        z = z + a
        m = m * 3 + k
        if k % 2 == 0:
            z = z * 0.5
        else:
            z = z - b
    left = n
    total = 0
    while left > 0:
        total += left // 3
        left -= 1
    tl.store(y + i, a)
    tl.store(y + B + i, b)
    tl.store(y + 2 * B + i, z)
    tl.store(y + 3 * B + i, m.to(tl.float32))
    tl.store(y + 4 * B + i, scaled(total.to(tl.float32), 2.0) + tl.zeros([B], tl.float32))


@triton.jit
def hints(x, y, n, B: tl.constexpr):
    i = tl.max_contiguous(tl.multiple_of(tl.program_id(0) * B + tl.arange(0, B), B), B)
    a = tl.zeros((B,), tl.float32)
    for j in tl.range(0, n, num_stages=3):
        a += tl.load(x + i + j * B, eviction_policy="evict_last", cache_modifier=".cg")
    for _ in tl.static_range(3):
        a = a * 0.5
    tl.debug_barrier()
    tl.assume(n > 0)
    tl.store(y + i, a, eviction_policy="evict_first")
