"""Runs plans on a GPU: what :mod:`.launcher` does on the CPU, through the CUDA driver.

Of the program orders a GPU knows "ascending", which is whatever the hardware does, and
"beside:<n>": n launches of the same plan on other buffers in a second stream, before and after
those of the run, so that its programs share the multiprocessors with others. A kernel that faults
loses the context, so the run at hand is a CRASH and the job ends there; the process ends with the
job, and the next job has a new one.

Never run on a GPU; driven against a stand-in in ``tests/cuda``.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from kernelsmith.devices.cuda import gpu as gpus
from kernelsmith.devices.cuda import kernel, memory
from kernelsmith.devices.cuda.gpu import Gpu
from kernelsmith.devices.cuda.libcuda import open_library
from kernelsmith.errors import CompileError, GpuError, InputError
from kernelsmith.model import (
    Inputs,
    Run,
    RunJob,
    RunResult,
    RunsResult,
    WorkerFailure,
)
from kernelsmith.worker import buffers, buffers_gpu, launcher, launcher_bind
from kernelsmith.worker.buffers_poison import Bytes, fill

BESIDE_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all runs of a job share."""

    gpu: Gpu
    job: RunJob
    folder: Path
    entries: Mapping[str, launcher_bind.Entry]
    draw: launcher.Draw
    drawn: dict[Inputs, Mapping[str, NDArray[Any]]]


def run(
    job: RunJob, folder: Path, device: Any, draw: launcher.Draw, mark: Callable[[str], None]
) -> RunsResult:
    """Executes a job of runs; see :func:`.launcher.run`.

    Raises:
        InputError: the job does not fit together.
        GpuError: the GPU failed, not a kernel.
        MissingError: there is no GPU.
    """
    if job.observed:
        raise InputError("a GPU has no observing build", hint="observe on the cpu device")
    results: list[RunResult] = []
    with gpus.opened(open_library(device.library), device.ordinal) as gpu:
        where = ""
        try:
            entries = load(job.objects, folder, device)
            bench = Bench(gpu=gpu, job=job, folder=folder, entries=entries, draw=draw, drawn={})
            previous: buffers_gpu.GpuBuffers | None = None
            with (folder / "out.bin").open("wb") as out:
                for one in job.runs:
                    where = one.key
                    mark(where)
                    held, result = _run_one(bench, one, out.tell(), out.write)
                    # Freed only now, so that no address comes twice in a row.
                    if previous is not None:
                        previous.close()
                    previous = held
                    results.append(result)
            if previous is not None:
                previous.close()
        except (GpuError, CompileError) as error:
            failure = failure_of(error, where)
            return RunsResult(runs=tuple(results), failure=failure)
    return RunsResult(runs=tuple(results))


def load(objects: Mapping[str, Any], folder: Path, device: Any) -> dict[str, launcher_bind.Entry]:
    """Loads all objects of a job, in the mapping's order."""
    return {
        object_id: launcher_bind.load_entry(
            device, info, (folder / f"{object_id}.obj").read_bytes()
        )
        for object_id, info in objects.items()
    }


def failure_of(error: GpuError | CompileError, where: str) -> WorkerFailure:
    """A kernel's own failure as a value.

    Raises:
        GpuError: the kernel is not to blame.
    """
    if isinstance(error, CompileError):
        return WorkerFailure(status="COMPILE", message=error.message, where=where)
    if not error.kernel_fault:
        raise error
    return WorkerFailure(status="CRASH", message=error.message, where=where)


@contextlib.contextmanager
def prepared(gpu: Gpu, bounds: Sequence[launcher_bind.Bound]) -> Iterator[list[kernel.Prepared]]:
    """Bound launches ready for a stream, with one scratch for all: they run one after the other.
    The scratch is freed at the end of the block: synchronise before."""
    wanted = [kernel.scratch_bytes(one.entry.info, one.programs) for one in bounds]
    with contextlib.ExitStack() as stack:
        address = 0
        if max(wanted, default=0):
            address = stack.enter_context(memory.allocate(gpu, max(wanted))).address
        yield prepare_all(bounds, address)


def prepare_all(
    bounds: Sequence[launcher_bind.Bound], scratch_address: int
) -> list[kernel.Prepared]:
    """Bound launches ready for a stream, on scratch that is there; none for an empty grid."""
    return [
        kernel.prepare(
            one.entry.keep,
            one.args,
            (one.grid[0], one.grid[1], one.grid[2]),
            scratch_address=scratch_address,
        )
        for one in bounds
        if one.programs
    ]


def _run_one(
    bench: Bench, one: Run, out_at: int, write: Callable[[bytes], Any]
) -> tuple[buffers_gpu.GpuBuffers, RunResult]:
    plan, rounds = one.plan, beside(one.order)
    on_gpu = buffers_gpu.allocate(
        bench.gpu, plan, misalign_bytes=one.misalign_bytes, poison=one.poison
    )
    held = on_gpu.held
    bounds = _bound(bench, one, held)
    if one.stale:
        earlier = replace(one.inputs, seed=one.inputs.seed + launcher.STALE_SEED_STEP)
        _lay_inputs(bench, held, one, earlier)
        on_gpu.upload()
        _launch(bench.gpu, bounds)
        on_gpu.download()
        for index in {ref.buffer for ref in plan.outputs}:
            if not plan.buffers[index].arg:
                fill(held.view(index), one.poison, index)
    images = _lay_inputs(bench, held, one, one.inputs)
    on_gpu.upload()
    started = time.perf_counter()
    if rounds:
        _launch_beside(bench, one, bounds, rounds)
    else:
        _launch(bench.gpu, bounds)
    seconds = time.perf_counter() - started
    on_gpu.download()
    return on_gpu, launcher.told(one, held, images, seconds, write, out_at)


def _bound(bench: Bench, one: Run, held: buffers.BufferSet) -> list[launcher_bind.Bound]:
    addresses = [held.address(index) for index in range(len(one.plan.buffers))]
    return launcher_bind.bind_all(one.plan.launches, addresses, bench.job.object_of, bench.entries)


def _lay_inputs(
    bench: Bench, held: buffers.BufferSet, one: Run, inputs: Inputs
) -> dict[int, Bytes]:
    """Lays the inputs into the image; returns what was laid, by buffer index."""
    if inputs not in bench.drawn:
        bench.drawn[inputs] = launcher.drawn_inputs(inputs, bench.folder, bench.draw)
    images = buffers.input_images(one.plan, inputs.tensors, bench.drawn[inputs], poison=one.poison)
    for index, image in images.items():
        held.view(index)[:] = image
    return images


def _launch(gpu: Gpu, bounds: Sequence[launcher_bind.Bound]) -> None:
    with prepared(gpu, bounds) as launches:
        for one in launches:
            kernel.launch(one, gpu.stream)
        gpus.synchronize(gpu)


def _launch_beside(
    bench: Bench, one: Run, bounds: Sequence[launcher_bind.Bound], rounds: int
) -> None:
    """The run's launches among ``rounds`` of the same plan on other buffers."""
    gpu = bench.gpu
    other = buffers_gpu.allocate(gpu, one.plan, misalign_bytes=0, poison=one.poison)
    stream = gpus.new_stream(gpu.lib)
    try:
        _lay_inputs(bench, other.held, one, one.inputs)
        other.upload()
        others = _bound(bench, one, other.held)
        with prepared(gpu, others) as noise, prepared(gpu, bounds) as launches:
            for number in range(rounds):
                for each in noise:
                    kernel.launch(each, stream)
                if number == rounds // 2:
                    for each in launches:
                        kernel.launch(each, gpu.stream)
            gpus.synchronize(gpu)
    finally:
        with contextlib.suppress(GpuError):
            gpu.lib.call("cuStreamDestroy_v2", stream)
        other.close()


def beside(order: str) -> int:
    """How many launches of the plan run beside a run in this order; 0 for "ascending".

    Raises:
        InputError: an order that a GPU does not have.
    """
    kind, _, number = order.partition(":")
    if order == "ascending":
        return 0
    if kind == "beside" and number.isdecimal() and 0 < int(number) <= BESIDE_MAX:
        return int(number)
    raise InputError(
        f"a GPU has no program order {order!r}",
        hint=f'"ascending", or "beside:<n>" with n up to {BESIDE_MAX}',
    )
