"""Small candidate modules for the front end's tests."""

from pathlib import Path
from typing import Any

from kernelsmith.model import TensorMeta, TraceCall, TraceJob, TraceResult
from kernelsmith.worker import frontend

HEADER = """import torch
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)


"""
# The first line of what follows HEADER.
BODY_LINE = HEADER.count("\n") + 1


def tensor(*shape: int, dtype: str = "float32", pad: int = 0) -> TensorMeta:
    """A row-major tensor, each row followed by ``pad`` elements."""
    strides = [1]
    for index, size in enumerate(reversed(shape[1:])):
        strides.insert(0, strides[0] * size + (pad if index == 0 else 0))
    return TensorMeta(shape=shape, strides=tuple(strides) if shape else (), dtype=dtype)


def call(key: str = "call", entry: str = "forward", **args: Any) -> TraceCall:
    return TraceCall(key=key, entry=entry, args=tuple(args.items()), num_programs=2)


def trace(source: str, *calls: TraceCall, tmp_path: Path, **options: Any) -> TraceResult:
    entries = tuple(dict.fromkeys(one.entry for one in calls))
    job = TraceJob(source=source, entries=entries, calls=calls, device="cpu", **options)
    return frontend.run(job, tmp_path)
