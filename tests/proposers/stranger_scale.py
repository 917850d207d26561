import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, out, n, factor, SIZE: tl.constexpr):
    at = tl.program_id(axis=0) * SIZE + tl.arange(0, SIZE)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) * factor, mask=inside)


def forward_infer(x):
    size = 256
    n = x.shape[0]
    out = torch.empty_like(x)
    grid = (triton.cdiv(n, size),)
    scale_kernel[grid](x, out, n, 2.0, size, num_warps=4)
    return (out,)
