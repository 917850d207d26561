"""The seeds compile for each GPU generation, on a machine without a GPU. Nothing is run."""

from pathlib import Path

import pytest

from kernelsmith import cases, catalog
from kernelsmith.devices.cuda import ARCHS, CudaDevice
from kernelsmith.model import TraceJob
from kernelsmith.worker import frontend


@pytest.mark.parametrize("name", ["rms_norm", "linear", "swiglu", "logprob"])
def test_every_kernel_of_a_seed_compiles_for_gpus(name: str, tmp_path: Path) -> None:
    task = catalog.load_task(name, "cpu")
    job = TraceJob(
        source=task.seed_source,
        entries=task.entries,
        calls=tuple(cases.trace_call(task, case) for case in task.cases if case.weight > 0),
        device="cpu",
    )
    found = frontend.run(job, tmp_path)
    assert found.failure is None
    kernels = {plan_class.kernel: plan_class for plan_class in found.classes.values()}
    # Two trees over 1024 lanes take a GPU's compiler ten seconds each time: one architecture.
    archs = ARCHS[-1:] if name == "logprob" else ARCHS
    for plan_class in kernels.values():
        for arch in archs:
            code = CudaDevice().cross_compile(
                plan_class.ttir, arch=arch, options=plan_class.options
            )
            assert f".target sm_{arch}" in code.ptx
            assert code.cubin.startswith(b"\x7fELF")
            # A float32 dot is a chain of fma by its meaning; products and sums stay apart else.
            assert "fma.rn.f32" not in code.ptx or "tt.dot" in plan_class.ttir
