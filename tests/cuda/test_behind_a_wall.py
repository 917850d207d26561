"""Tracing and compiling for a GPU behind the wall that a run has; both need no GPU."""

from collections.abc import Iterator

import pytest

from kernelsmith import cases, catalog, devices
from kernelsmith.devices.cuda import cubin
from kernelsmith.model import CompileJob, CompileResult, TraceJob, TraceResult
from kernelsmith.ports import Sandbox
from kernelsmith.sandbox.choose import choose

TARGET = "cuda:90"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    found = choose("auto", trusted_origin=True)
    yield found
    found.close()


def test_a_seed_is_traced_and_compiled_for_a_gpu_behind_the_wall(sandbox: Sandbox) -> None:
    task = catalog.load_task("rms_norm", "cuda")
    case = next(case for case in task.cases if case.call == "backward")
    front = sandbox.start("frontend")
    job = TraceJob(
        source=task.seed_source,
        entries=task.entries,
        calls=(cases.trace_call(task, case),),
        device=TARGET,
    )
    reply = front.submit(job)
    assert isinstance(reply.result, TraceResult)
    assert reply.result.failure is None
    device = devices.get(TARGET)
    texts = {
        device.object_id(one.ttir): one.ttir
        for one in reply.result.classes.values()
        if one.kernel in ("_backward_weight_blocks", "_backward_weight_sum")
    }
    reply.close()
    front.close()
    assert len(texts) >= 3
    launcher = sandbox.start("launcher")
    done = launcher.submit(CompileJob(ttirs=texts, device=TARGET, assembly=True))
    assert isinstance(done.result, CompileResult)
    assert done.result.failure is None
    for name, info in done.result.objects.items():
        assert info.id == name
        used = cubin.resources(done.read(f"{name}.obj"), info.symbol)
        assert info.stats["registers"] == used.registers > 0
        assert b".target sm_90a" in done.read(f"{name}.s")
    refused = launcher.submit(
        CompileJob(
            ttirs={"x": next(iter(texts.values())).replace("num_warps=4", "num_warps=5")},
            device=TARGET,
        )
    )
    assert isinstance(refused.result, CompileResult)
    assert refused.result.failure is not None
    assert refused.result.failure.status == "COMPILE"
    assert "num_warps=5" in refused.result.failure.message
    done.close()
    refused.close()
    launcher.close()


def test_a_job_for_a_gpu_on_a_machine_without_says_so(sandbox: Sandbox) -> None:
    from kernelsmith.errors import MissingError
    from kernelsmith.model import RunJob

    launcher = sandbox.start("launcher")
    try:
        devices.get("cuda").describe()
    except MissingError:
        job = RunJob(runs=(), objects={}, object_of={}, device=TARGET)
        with pytest.raises(MissingError, match=r"NVIDIA|GPU"):
            launcher.submit(job)
    launcher.close()
