"""The launcher: compiles TTIR and runs plans on memory of its own. It never sees source.

``run`` executes one job in a folder of the spool and returns its result; files lie beside it.
It imports neither torch nor triton.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsmith.errors import InputError
from kernelsmith.model import (
    ITEMSIZE_BYTES,
    CompileJob,
    CompileResult,
    Finding,
    Inputs,
    OutputBytes,
    Run,
    RunJob,
    RunResult,
    RunsResult,
    WorkerFailure,
)
from kernelsmith.worker import (
    buffers,
    buffers_poison,
    launcher_bind,
    launcher_compile,
    observed,
)
from kernelsmith.worker.progress import Progress

Draw = Callable[[Inputs], Mapping[str, NDArray[Any]]]

# Added to the seed of the inputs that a stale run starts with.
STALE_SEED_STEP = 0x9E3779B9
# Of a job's time, what its observed runs may take before they are told to stop: a loop is then
# named, which the end of the whole process would not do.
OBSERVED_SHARE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all runs of a job share: code, inputs drawn so far, the arenas; ``until`` when an
    observed run is stopped."""

    job: RunJob
    folder: Path
    entries: Mapping[str, launcher_bind.Entry]
    draw: Draw
    drawn: dict[Inputs, Mapping[str, NDArray[Any]]]
    arenas: tuple[int, ...]
    until: float


def run(
    job: CompileJob | RunJob,
    folder: Path,
    progress: Progress | None = None,
    *,
    device: Any = None,
    draw: Draw | None = None,
) -> CompileResult | RunsResult:
    """Executes one job.

    Args:
        folder: holds the job's files; results are written into it.
        progress: is told the run or object at hand, so that a crash can be told to belong to
            it; by default one in ``folder``.
        device, draw: stand-ins; by default the job's device and the recipes.

    Returns:
        For a CompileJob infos, with the code in ``<object id>.obj``; for a RunJob the results,
        with the outputs' bytes in ``out.bin``.

    Raises:
        InputError: the job does not fit together.
        InfrastructureError: this process or machine failed.
    """
    device = default_device(job.device, device)
    with contextlib.ExitStack() as stack:
        progress = progress or stack.enter_context(Progress(folder))
        if isinstance(job, CompileJob):
            return launcher_compile.run(job, folder, device, progress.mark)
        if device.name == "cuda":
            from kernelsmith.worker import launcher_gpu

            return launcher_gpu.run(job, folder, device, default_draw(draw), progress.mark)
        return _run_all(job, folder, device, default_draw(draw), progress.mark)


def default_device(name: str, device: Any = None) -> Any:
    """``device``, or the one called ``name``."""
    if device is None:
        from kernelsmith import devices

        device = devices.get(name)
    return device


def default_draw(draw: Draw | None = None) -> Draw:
    """``draw``, or the recipes'."""
    if draw is None:
        from kernelsmith.numerics import recipes

        draw = recipes.draw
    return draw


def drawn_inputs(inputs: Inputs, folder: Path, draw: Draw) -> dict[str, NDArray[Any]]:
    """The call's tensors, contiguous: drawn, or from the file that a spec names.

    Raises:
        InputError: a file has the wrong size or is no plain name.
    """
    values = dict(draw(inputs))
    for spec in inputs.tensors:
        if spec.file is None:
            continue
        if Path(spec.file).name != spec.file:
            raise InputError(f"input {spec.name}: {spec.file!r} is not a plain file name")
        item = ITEMSIZE_BYTES[spec.meta.dtype]
        raw = np.fromfile(folder / spec.file, dtype=f"u{item}")
        if raw.size != int(np.prod(spec.meta.shape)):
            raise InputError(
                f"input {spec.name}: {spec.file} has {raw.size} elements, "
                f"shape {spec.meta.shape} needs {int(np.prod(spec.meta.shape))}"
            )
        values[spec.name] = raw.reshape(spec.meta.shape)
    return values


def _run_all(
    job: RunJob, folder: Path, device: Any, draw: Draw, mark: Callable[[str], None]
) -> RunsResult:
    entries = {
        object_id: launcher_bind.load_entry(
            device, info, (folder / f"{object_id}.obj").read_bytes()
        )
        for object_id, info in job.objects.items()
    }
    threads = max((launcher_bind.thread_count(one.order) for one in job.runs), default=1)
    arena_bytes = max((info.arena_bytes for info in job.objects.values()), default=0)
    arenas = [launcher_bind.arena(arena_bytes) for _ in range(threads)]
    bench = Bench(
        job=job,
        folder=folder,
        entries=entries,
        draw=draw,
        drawn={},
        arenas=tuple(address for _, address in arenas),
        until=time.monotonic() + OBSERVED_SHARE * job.timeout_s,
    )
    results: list[RunResult] = []
    previous: buffers.BufferSet | None = None
    with (folder / "out.bin").open("wb") as out:
        for one in job.runs:
            mark(one.key)
            for region, _ in arenas:
                buffers_poison.fill(region.bytes, one.poison, len(results))
            # ``previous`` stays mapped until the next set is, so no address comes twice in a row.
            try:
                try:
                    previous, result = _run_one(bench, one, out.tell(), out.write)
                except observed.MisalignedError:
                    previous, result = _run_one(bench, one, out.tell(), out.write, bytewise=True)
            except observed.UnobservableError as error:
                failure = WorkerFailure(status="MEMORY", message=str(error), where=one.key)
                return RunsResult(runs=tuple(results), failure=failure)
            results.append(result)
    del previous
    return RunsResult(runs=tuple(results))


def _run_one(
    bench: Bench,
    one: Run,
    out_at: int,
    write: Callable[[bytes], Any],
    *,
    bytewise: bool = False,
) -> tuple[buffers.BufferSet, RunResult]:
    plan = one.plan
    held = buffers.allocate(plan, misalign_bytes=one.misalign_bytes, poison=one.poison)
    addresses = [held.address(index) for index in range(len(plan.buffers))]
    bounds = launcher_bind.bind_all(plan.launches, addresses, bench.job.object_of, bench.entries)
    if one.stale:
        earlier = replace(one.inputs, seed=one.inputs.seed + STALE_SEED_STEP)
        _lay_inputs(bench, held, one, earlier)
        for bound in bounds:
            launcher_bind.launch(bound, order="ascending", arenas=bench.arenas)
        _poison_outputs(held, one)
    images = _lay_inputs(bench, held, one, one.inputs)
    if one.poison in buffers_poison.CONSTANT:
        buffers.make_readable_only(held, images)
    started = time.perf_counter()
    findings: tuple[Finding, ...] = ()
    if bench.job.observed:
        left_s = bench.until - time.monotonic()
        findings = observed.run(
            one, held, bounds, arena=bench.arenas[0], seconds=left_s, bytewise=bytewise
        )
    else:
        for bound in bounds:
            launcher_bind.launch(bound, order=one.order, arenas=bench.arenas)
    seconds = time.perf_counter() - started
    result = told(one, held, images, seconds, write, out_at)
    return held, replace(result, findings=findings)


def told(
    one: Run,
    held: buffers.BufferSet,
    images: Mapping[int, buffers_poison.Bytes],
    seconds: float,
    write: Callable[[bytes], Any],
    out_at: int,
) -> RunResult:
    """What a run left in its buffers; its outputs are written behind the ``out_at`` bytes that
    were written before."""
    places: list[OutputBytes] = []
    for ref in one.plan.outputs:
        data = buffers.output_bytes(held.view(ref.buffer), ref)
        places.append(OutputBytes(offset_bytes=out_at, nbytes=len(data)))
        write(data)
        out_at += len(data)
    return RunResult(
        key=one.key,
        outputs=tuple(places),
        canaries=buffers.broken_zones(held),
        changed_inputs=tuple(
            one.plan.buffers[index].arg
            for index, image in images.items()
            if not np.array_equal(held.view(index), image)
        ),
        seconds=seconds,
    )


def _lay_inputs(
    bench: Bench, held: buffers.BufferSet, one: Run, inputs: Inputs
) -> dict[int, buffers_poison.Bytes]:
    """Copies the inputs into their buffers; returns what was copied, by buffer index."""
    if inputs not in bench.drawn:
        bench.drawn[inputs] = drawn_inputs(inputs, bench.folder, bench.draw)
    images = buffers.input_images(one.plan, inputs.tensors, bench.drawn[inputs], poison=one.poison)
    for index, image in images.items():
        held.view(index)[:] = image
    return images


def _poison_outputs(held: buffers.BufferSet, one: Run) -> None:
    for index in {ref.buffer for ref in one.plan.outputs}:
        if not one.plan.buffers[index].arg:
            buffers_poison.fill(held.view(index), one.poison, index)
