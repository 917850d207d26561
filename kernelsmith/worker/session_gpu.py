"""One timing session on a GPU, in the process that :mod:`.session` started; same answers.

It holds cubins and buffers and calls the CUDA driver; neither torch nor Triton is imported. Code
lies where the driver puts it: kernels are loaded in random order, and each session is a process of
its own. The host holds the GPU's lock for as long as the session runs.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import contextlib
import functools
import random
import time
from pathlib import Path
from typing import Any

from kernelsmith.devices.cuda import constants, memory, nvml
from kernelsmith.devices.cuda import gpu as gpus
from kernelsmith.devices.cuda.libcuda import open_library
from kernelsmith.errors import CompileError, GpuError
from kernelsmith.model import CaseTimes, TimeJob, TimeResult
from kernelsmith.worker import (
    buffers,
    clock,
    launcher,
    launcher_gpu,
    session_case,
    session_pool_gpu,
)
from kernelsmith.worker.progress import Progress

# Of the L2 cache, for what a warm pool's slots hold; inputs and the poison's image use it too.
NEAR_SHARE = 4


def run(job: TimeJob, folder: Path, device: Any, draw: launcher.Draw) -> TimeResult:
    """Times all cases of a job; see :func:`.session.run`.

    Raises:
        InputError: the job does not fit together.
        GpuError, MissingError: the GPU failed, or there is none.
    """
    begun = time.perf_counter()
    placement = random.Random(job.placement)
    before = clock.use()
    with gpus.opened(open_library(device.library), device.ordinal) as gpu:
        gpu_facts = device.facts()
        state = nvml.state(gpu_facts.uuid)
        ids = sorted(job.objects)
        placement.shuffle(ids)
        cases: tuple[CaseTimes, ...] = ()
        pools: dict[str, Any] = {}
        failure = None
        with Progress(folder) as marks, (folder / "out.bin").open("wb") as out:
            try:
                entries = launcher_gpu.load(
                    {object_id: job.objects[object_id] for object_id in ids}, folder, device
                )
                ground = _ground(gpu, gpu_facts, job, marks)
                session = session_case.Session(
                    job=job,
                    folder=folder,
                    entries=entries,
                    draw=draw,
                    sweep=buffers.map_region(0).bytes,
                    arena=0,
                    llc_bytes=gpu_facts.l2_bytes,
                    placement=placement,
                    verify=random.Random(job.verify),
                    out=out,
                    progress=marks,
                    near_bytes=gpu_facts.l2_bytes // NEAR_SHARE,
                    build=functools.partial(session_pool_gpu.build, ground),
                )
                cases, pools = session_case.run_all(session)
                ground.evict.close()
            except (GpuError, CompileError) as error:
                failure = launcher_gpu.failure_of(error, marks.last)
        facts = {
            "gpu": gpu_facts.name,
            "uuid": gpu_facts.uuid,
            "l2_bytes": gpu_facts.l2_bytes,
            "timed_by": sorted({one.get("timed_by", "") for one in pools.values()}),
            "pools": pools,
            "state_before": state,
            "state_after": nvml.state(gpu_facts.uuid),
            **clock.used_since(before),
        }
    seconds = time.perf_counter() - begun
    return TimeResult(cases=cases, seconds=seconds, failure=failure, facts=facts)


def _ground(
    gpu: gpus.Gpu, facts: gpus.GpuFacts, job: TimeJob, marks: Progress
) -> session_pool_gpu.Ground:
    # No kernel keeps a part of the cache to itself: the default on most GPUs, made sure of.
    with contextlib.suppress(GpuError):
        gpu.lib.call("cuCtxSetLimit", constants.LIMIT_PERSISTING_L2_CACHE_SIZE, 0)
    cold = any(case.cold for case in job.cases)
    evict_bytes = session_pool_gpu.EVICT_BY_L2 * facts.l2_bytes if cold else 1
    return session_pool_gpu.Ground(
        gpu=gpu, evict=memory.allocate(gpu, evict_bytes), mark=marks.mark
    )
