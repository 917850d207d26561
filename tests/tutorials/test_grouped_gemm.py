"""Grouped GEMM: many products of different sizes in one launch, their pointers in tensors."""

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_kernel(a_ptrs, b_ptrs, c_ptrs, sizes, strides, groups, PROGRAMS: tl.constexpr,
                   BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """A fixed number of programs walks the tiles of all products."""
    tile = tl.program_id(0)
    end = 0
    for g in range(groups):
        m, n, k = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
        begin = end
        end += tiles_m * tiles_n
        while tile >= begin and tile < end:
            lda, ldb = tl.load(strides + g * 3), tl.load(strides + g * 3 + 1)
            ldc = tl.load(strides + g * 3 + 2)
            a_ptr = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_ptrs + g).to(tl.pointer_type(tl.float16))
            rows = (tile - begin) // tiles_n * BM + tl.arange(0, BM)
            cols = (tile - begin) % tiles_n * BN + tl.arange(0, BN)
            ks = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for start in range(0, k, BK):
                inside = start + ks < k
                a = tl.load(a_ptr + rows[:, None] * lda + (start + ks)[None, :],
                            mask=(rows < m)[:, None] & inside[None, :], other=0.0)  # fmt: skip
                b = tl.load(b_ptr + (start + ks)[:, None] * ldb + cols[None, :],
                            mask=inside[:, None] & (cols < n)[None, :], other=0.0)  # fmt: skip
                acc += tl.dot(a, b)
            tl.store(c_ptr + rows[:, None] * ldc + cols[None, :], acc.to(tl.float16),
                     mask=(rows < m)[:, None] & (cols < n)[None, :])  # fmt: skip
            tile += PROGRAMS


def test_grouped_gemm_of_four_sizes() -> None:
    torch.manual_seed(0)
    shapes = [(128, 64, 96), (40, 100, 33), (1, 200, 64), (70, 16, 16)]
    a = [torch.randn(m, k).half() for m, _, k in shapes]
    b = [torch.randn(k, n).half() for _, n, k in shapes]
    c = [torch.zeros(m, n).half() for m, n, _ in shapes]

    def addresses(tensors: list[torch.Tensor]) -> torch.Tensor:
        return torch.tensor([each.data_ptr() for each in tensors])

    sizes = torch.tensor(shapes, dtype=torch.int32)
    strides = torch.tensor(
        [[x.stride(0), y.stride(0), z.stride(0)] for x, y, z in zip(a, b, c, strict=True)],
        dtype=torch.int32,
    )
    grouped_kernel[(3,)](
        addresses(a), addresses(b), addresses(c), sizes, strides, len(shapes),
        PROGRAMS=3, BM=32, BN=32, BK=32,
    )  # fmt: skip
    for x, y, z in zip(a, b, c, strict=True):
        torch.testing.assert_close(z.double(), x.double() @ y.double(), rtol=2e-3, atol=2e-2)
