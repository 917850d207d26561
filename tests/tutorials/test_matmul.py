"""Matrix products: programs in groups of rows, a leaky ReLU fused in; a persistent one."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def tile_of(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Tiles go down GROUP rows of tiles before they go on to the right."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    rows = min(tiles_m - first, GROUP)
    return first + (tile % in_group) % rows, (tile % in_group) // rows


@triton.jit
def product(a_ptr, b_ptr, M, N, K, am, ak, bk, bn, tile_m, tile_n,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """A tile of a @ b in float32. Rows and columns past the end wrap around."""
    rows = (tile_m * BM + tl.arange(0, BM)) % M
    cols = (tile_n * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * am + ks[None, :] * ak
    b_ptrs = b_ptr + ks[:, None] * bk + cols[None, :] * bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * ak
        b_ptrs += BK * bk
    return acc


@triton.jit
def put(c_ptr, acc, M, N, cm, cn, tile_m, tile_n, BM: tl.constexpr, BN: tl.constexpr):
    rows, cols = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows[:, None] * cm + cols[None, :] * cn, c, mask=mask)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
                  ACTIVATION: tl.constexpr):  # fmt: skip
    """A tile a program."""
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    acc = product(a_ptr, b_ptr, M, N, K, am, ak, bk, bn, tile_m, tile_n, BM, BN, BK)
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    put(c_ptr, acc, M, N, cm, cn, tile_m, tile_n, BM, BN)


@triton.jit
def persistent_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn,
                      BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      GROUP: tl.constexpr, PROGRAMS: tl.constexpr):  # fmt: skip
    """Every PROGRAMS-th tile a program."""
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        tile_m, tile_n = tile_of(tile, M, N, BM, BN, GROUP)
        acc = product(a_ptr, b_ptr, M, N, K, am, ak, bk, bn, tile_m, tile_n, BM, BN, BK)
        put(c_ptr, acc, M, N, cm, cn, tile_m, tile_n, BM, BN)


@triton.jit
def descriptor_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr,
                      BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr):  # fmt: skip
    """The persistent form through tensor descriptors; b is (N, K)."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS):
        tile_m, tile_n = tile_of(tile, M, N, BM, BN, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            a = a_desc.load([tile_m * BM, k * BK])
            b = b_desc.load([tile_n * BN, k * BK])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([tile_m * BM, tile_n * BN], acc.to(c_ptr.dtype.element_ty))


SHAPES = [(256, 96, 64), (100, 70, 130), (33, 300, 40)]
TILES = {"BM": 32, "BN": 64, "BK": 32, "GROUP": 3}


def operands(shape: tuple[int, int, int], dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    m, n, k = shape
    return [
        torch.randn(m, k).to(dtype),
        torch.randn(k, n).to(dtype),
        torch.empty(m, n, dtype=dtype),
    ]


def run(kernel: object, grid: tuple[int], a: torch.Tensor, b: torch.Tensor, c: torch.Tensor,
        **options: object) -> None:  # fmt: skip
    m, k = a.shape
    kernel[grid](  # type: ignore[index]
        a, b, c, m, b.shape[1], k, *a.stride(), *b.stride(), *c.stride(), **TILES, **options
    )


def close(c: torch.Tensor, wanted: torch.Tensor) -> None:
    """float32: within its rounding of K terms; float16: within its own."""
    loose = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1.5e-1}[c.dtype]
    torch.testing.assert_close(c.double(), wanted, rtol=loose / 10, atol=loose)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_grouped_matmul_with_activation(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    a, b, c = operands(shape, dtype)
    grid = (triton.cdiv(shape[0], 32) * triton.cdiv(shape[1], 64),)
    run(matmul_kernel, grid, a, b, c, ACTIVATION="leaky_relu")
    wanted = a.double() @ b.double()
    close(c, torch.where(wanted >= 0, wanted, 0.01 * wanted))


@pytest.mark.parametrize("shape", SHAPES)
def test_persistent_matmul_has_the_bits_of_the_plain_one(shape: tuple[int, int, int]) -> None:
    a, b, c = operands(shape, torch.float16)
    grid = (triton.cdiv(shape[0], 32) * triton.cdiv(shape[1], 64),)
    run(matmul_kernel, grid, a, b, c, ACTIVATION="")
    close(c, a.double() @ b.double())
    again = torch.empty_like(c)
    run(persistent_kernel, (5,), a, b, again, PROGRAMS=5)
    assert torch.equal(again, c)


def test_a_turned_operand() -> None:
    a, b, c = operands((64, 64, 64), torch.float32)
    run(matmul_kernel, (2,), a, b.T.contiguous().T, c, ACTIVATION="")
    close(c, a.double() @ b.double())


def test_persistent_matmul_through_descriptors() -> None:
    m, n, k = 96, 128, 80
    a, b, c = operands((m, n, k), torch.float16)
    turned = b.T.contiguous()
    descriptor_kernel[(3,)](a, turned, c, m, n, k, **TILES, PROGRAMS=3)
    plain = torch.empty_like(c)
    run(matmul_kernel, (6,), a, b, plain, ACTIVATION="")
    assert torch.equal(c, plain)
