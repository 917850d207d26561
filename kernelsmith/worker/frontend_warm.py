"""Warms the front end: one trace and one emission of a kernel of our own.

Triton imports and caches much on first use (a second of a job's time). It is done before the
template forks and holds no candidate.
"""

from pathlib import Path
from typing import Any

import torch
import triton

from kernelsmith.errors import InfrastructureError
from kernelsmith.model import TensorMeta, TraceCall, TraceJob
from kernelsmith.worker import frontend

SOURCE = """
import torch
import triton
import triton.language as tl

from kernelsmith.lang import tree_sum


@triton.jit
def _warm(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        total += x * x
    square = tl.dot(total[:, None] + tl.zeros((BLOCK, BLOCK), dtype=tl.float32),
                    tl.zeros((BLOCK, BLOCK), dtype=tl.float32), input_precision="ieee")
    scale = tl.div_rn(1.0, tl.sqrt_rn(tree_sum(total) + eps)) + tl.sum(tl.sum(square, 1), 0)
    tl.store(y_ptr + row, scale)


def forward(x, eps):
    y = x.new_empty((x.shape[0],), dtype=torch.float32)
    _warm[(x.shape[0],)](x, y, x.shape[1], eps, BLOCK=16, num_warps=4)
    return y
"""


def warm_front_end(spool: Path) -> dict[str, Any]:
    """Sets torch to one thread and traces the kernel above.

    Returns:
        Facts for the record: versions of torch and Triton.

    Raises:
        InfrastructureError: the kernel does not trace or emit.
    """
    import pydantic_core

    torch.set_num_threads(1)
    meta = TensorMeta(shape=(4, 64), strides=(64, 1), dtype="bfloat16")
    call = TraceCall(key="warm", entry="forward", args=(("x", meta), ("eps", 1e-6)), num_programs=1)
    folder = spool / "warm"
    folder.mkdir(exist_ok=True)
    for real in (False, True):
        job = TraceJob(source=SOURCE, entries=("forward",), calls=(call,), device="cpu", real=real)
        result = frontend.run(job, folder)
        if result.failure is not None:
            raise InfrastructureError(f"the front end's own kernel: {result.failure.message}")
        pydantic_core.to_json(result, inf_nan_mode="constants")
    return {"torch": torch.__version__, "triton": triton.__version__}
