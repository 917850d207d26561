"""One kernel through all of it: traced in one process, compiled and run in another, timed in a
third; only data passes between them."""

import textwrap
from pathlib import Path

import numpy as np
import pytest

from kernelsmith import devices
from kernelsmith.errors import InputError, SandboxError
from kernelsmith.model import (
    CompileJob,
    Inputs,
    InputSpec,
    Run,
    RunJob,
    TensorMeta,
    TimedCase,
    TimeJob,
    TraceCall,
    TraceJob,
)

META = TensorMeta(shape=(6, 50), strides=(50, 1), dtype="float32")
SOURCE = textwrap.dedent(
    """
    import triton
    import triton.language as tl

    @triton.jit
    def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) * 2.0, mask=at < n)

    def forward(x):
        y = x.new_empty(x.shape)
        n = x.shape[0] * x.shape[1]
        double[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
        return y
    """
)
DATA = np.linspace(-3, 3, 300, dtype=np.float32)


@pytest.fixture
def launcher(frontend, walls):
    return walls.launcher_of(frontend)


def traced(frontend):
    call = TraceCall(key="call", entry="forward", args=(("x", META),), num_programs=1)
    job = TraceJob(source=SOURCE, entries=("forward",), calls=(call,), device="cpu")
    reply = frontend.submit(job)
    reply.close()
    assert reply.result.failure is None
    return reply.result


def inputs() -> Inputs:
    spec = InputSpec(
        name="x", meta=META, recipe="token", base_shape=META.shape, token_axis=0, file="x.bin"
    )
    return Inputs(tensors=(spec,), scalars=(), regime="normal", seed=1)


def compiled(launcher, trace):
    device = devices.get("cpu")
    object_of = {name: device.object_id(one.ttir) for name, one in trace.classes.items()}
    ttirs = {object_of[name]: one.ttir for name, one in trace.classes.items()}
    reply = launcher.submit(CompileJob(ttirs=ttirs, device="cpu"))
    assert reply.result.failure is None
    code = {f"{name}.obj": reply.read(f"{name}.obj") for name in ttirs}
    reply.close()
    return reply.result.objects, object_of, code


@pytest.mark.parametrize("misalign_bytes", [0, 4])
def test_a_traced_kernel_runs_elsewhere_and_its_bytes_come_back(frontend, launcher, misalign_bytes):
    trace = traced(frontend)
    objects, object_of, code = compiled(launcher, trace)
    run = Run(key="run", plan=trace.plans["call"], inputs=inputs(), misalign_bytes=misalign_bytes)
    job = RunJob(runs=(run,), objects=objects, object_of=object_of, device="cpu")
    reply = launcher.submit(job, {**code, "x.bin": DATA.tobytes()})
    assert reply.result.failure is None
    (result,) = reply.result.runs
    (output,) = result.outputs
    got = np.frombuffer(reply.read("out.bin", output.offset_bytes, output.nbytes), np.float32)
    assert np.array_equal(got, DATA * 2)
    assert (result.canaries, result.changed_inputs) == ((), ())
    with pytest.raises(SandboxError, match="has 1200 bytes"):
        reply.read("out.bin", 1000, 400)
    with pytest.raises(SandboxError, match="no file nothing"):
        reply.read("nothing")
    reply.close()
    assert not Path(reply.path).exists()


def test_a_timing_session_is_a_process_of_its_own(frontend, launcher):
    trace = traced(frontend)
    objects, object_of, code = compiled(launcher, trace)
    plan = trace.plans["call"]
    case = TimedCase(
        key="case", a=plan, b=plan, inputs=inputs(), floor_us=0.0, cold=False, window_ms=0.2
    )
    both = {f"{side}:{name}": one for name, one in object_of.items() for side in "ab"}
    job = TimeJob(
        cases=(case,), objects=objects, object_of=both, device="cpu", placement=1, verify=1
    )
    reply = launcher.submit(job, {**code, "x.bin": DATA.tobytes()})
    assert reply.result.failure is None
    (times,) = reply.result.cases
    assert len(times.warm) == 3
    reply.close()


def test_an_error_that_a_launcher_raises_comes_back_as_its_class(launcher):
    job = RunJob(runs=(), objects={}, object_of={}, device="no such device")
    with pytest.raises(InputError, match="no such device"):
        launcher.submit(job)
