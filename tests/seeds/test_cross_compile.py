"""The seeds compile for GPUs, on a machine without one, at the sizes that a GPU is given.

Each kernel once, for pointers that are aligned; every class on every generation and Triton release
is ``make proof-cuda``. Nothing is run.
"""

from pathlib import Path

import pytest

from kernelsmith import cases, catalog
from kernelsmith.devices.cuda import CudaDevice, lint
from kernelsmith.model import TraceJob
from kernelsmith.worker import frontend

ARCHS = {"rms_norm": (80, 90, 100), "linear": (90,), "swiglu": (80, 100), "logprob": (90,)}


@pytest.mark.parametrize("name", sorted(ARCHS))
def test_every_kernel_of_a_seed_compiles_for_gpus(name: str, tmp_path: Path) -> None:
    task = catalog.load_task(name, "cuda")
    timed = [case for case in task.cases if case.weight > 0 and case.dtype == "bfloat16"]
    for arch in ARCHS[name]:
        job = TraceJob(
            source=task.seed_source,
            entries=task.entries,
            calls=tuple(cases.trace_call(task, case) for case in timed),
            device=f"cuda:{arch}",
        )
        found = frontend.run(job, tmp_path)
        assert found.failure is None
        kernels = {
            found.classes[launch.plan_class].kernel: found.classes[launch.plan_class]
            for plan in found.plans.values()
            for launch in plan.launches
        }
        for plan_class in kernels.values():
            code = CudaDevice().cross_compile(plan_class.ttir, arch=arch)
            assert f".target sm_{arch}" in code.ptx
            counts = lint.lint(code.ptx)
            assert counts.float_atomics == 0
            # The logarithm is a library's, which has fma and flushes subnormals by itself.
            if name != "logprob":
                assert (counts.fma, counts.ftz) == (0, 0), plan_class.kernel
