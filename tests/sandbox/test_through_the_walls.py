"""One kernel through all of it: traced in one process, compiled and run in another, timed in a
third; only data passes between them."""

from pathlib import Path

import numpy as np
import pytest

from kernelsmith.errors import InputError, SandboxError
from kernelsmith.model import RunJob, TimedCase, TimeJob

from . import small_kernel
from .small_kernel import DATA_FILE

META = small_kernel.meta(6, 50)
DATA = np.linspace(-3, 3, 300, dtype=np.float32)


@pytest.fixture
def launcher(frontend, walls):
    return walls.launcher_of(frontend)


def traced(frontend):
    reply = frontend.submit(small_kernel.trace_job(META))
    reply.close()
    assert reply.result.failure is None
    return reply.result


def compiled(launcher, trace):
    job = small_kernel.compile_job(trace)
    reply = launcher.submit(job)
    assert reply.result.failure is None
    code = {name: reply.read(name) for name in small_kernel.code_files(job)}
    reply.close()
    return reply.result, code


@pytest.mark.parametrize("misalign_bytes", [0, 4])
def test_a_traced_kernel_runs_elsewhere_and_its_bytes_come_back(frontend, launcher, misalign_bytes):
    trace = traced(frontend)
    made, code = compiled(launcher, trace)
    job = small_kernel.run_job(trace, made, META, misalign_bytes)
    reply = launcher.submit(job, {**code, DATA_FILE: DATA.tobytes()})
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
    made, code = compiled(launcher, trace)
    plan, inputs = trace.plans["call"], small_kernel.inputs(META)
    case = TimedCase(
        key="case", a=plan, b=plan, inputs=inputs, floor_us=0.0, cold=False, window_ms=0.2
    )
    object_of = small_kernel.objects_of(trace).items()
    both = {f"{side}:{name}": one for name, one in object_of for side in "ab"}
    job = TimeJob(
        cases=(case,), objects=made.objects, object_of=both, device="cpu", placement=1, verify=1
    )
    reply = launcher.submit(job, {**code, DATA_FILE: DATA.tobytes()})
    assert reply.result.failure is None
    (times,) = reply.result.cases
    assert len(times.warm) == 3
    reply.close()


def test_an_error_that_a_launcher_raises_comes_back_as_its_class(launcher):
    job = RunJob(runs=(), objects={}, object_of={}, device="no such device")
    with pytest.raises(InputError, match="no such device"):
        launcher.submit(job)
