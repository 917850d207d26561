"""A small kernel as jobs, for any sandbox: traced in one worker, compiled and run in another."""

from kernelsmith import devices
from kernelsmith.model import (
    CompileJob,
    CompileResult,
    Inputs,
    InputSpec,
    Run,
    RunJob,
    TensorMeta,
    TraceCall,
    TraceJob,
    TraceResult,
)

SOURCE = """
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) * 2.0, mask=at < n)

def forward(x):
    y = x.new_empty(x.shape)
    n = x.shape[0] * x.shape[1]
    double[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
"""
DATA_FILE = "x.bin"


def meta(rows: int, cols: int) -> TensorMeta:
    """What it doubles."""
    return TensorMeta(shape=(rows, cols), strides=(cols, 1), dtype="float32")


def trace_job(x: TensorMeta) -> TraceJob:
    call = TraceCall(key="call", entry="forward", args=(("x", x),), num_programs=1)
    return TraceJob(source=SOURCE, entries=("forward",), calls=(call,), device="cpu")


def objects_of(trace: TraceResult) -> dict[str, str]:
    """Which object each traced class becomes."""
    device = devices.get("cpu")
    return {name: device.object_id(one.ttir) for name, one in trace.classes.items()}


def compile_job(trace: TraceResult) -> CompileJob:
    object_of = objects_of(trace)
    ttirs = {object_of[name]: one.ttir for name, one in trace.classes.items()}
    return CompileJob(ttirs=ttirs, device="cpu")


def code_files(job: CompileJob) -> list[str]:
    """What it leaves."""
    return [f"{name}.obj" for name in job.ttirs]


def inputs(x: TensorMeta) -> Inputs:
    spec = InputSpec(
        name="x", meta=x, recipe="token", base_shape=x.shape, token_axis=0, file=DATA_FILE
    )
    return Inputs(tensors=(spec,), scalars=(), regime="normal", seed=1)


def run_job(
    trace: TraceResult, compiled: CompileResult, x: TensorMeta, misalign_bytes: int = 0
) -> RunJob:
    """Wants the code and ``DATA_FILE`` beside it."""
    plan = trace.plans["call"]
    run = Run(key="run", plan=plan, inputs=inputs(x), misalign_bytes=misalign_bytes)
    return RunJob(runs=(run,), objects=compiled.objects, object_of=objects_of(trace), device="cpu")
