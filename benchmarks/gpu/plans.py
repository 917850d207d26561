"""Seeds and winners as the gate has them: traced, compiled, run and timed on their plans."""

import contextlib
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu import machine
from kernelsmith import cases as forms
from kernelsmith import catalog, devices
from kernelsmith.errors import CompileError
from kernelsmith.model import Case, Run, RunJob, RunsResult, Task, TraceJob

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A source with the plans of some cases and its classes' compiled code by object id."""

    label: str
    task: Task
    plans: Mapping[str, Any]
    object_of: Mapping[str, str]
    objects: Mapping[str, Any]
    compile_s: float


def sources(name: str) -> dict[str, str]:
    """The seed of a task and the winners that the repository has of it."""
    from kernelsmith.errors import KernelsmithError
    from kernelsmith.rehearsal import variants

    found = {"seed": catalog.load_task(name, "cuda").seed_source}
    # Not every task has one.
    with contextlib.suppress(KernelsmithError, LookupError, OSError):
        found["played winner"] = variants.winner(name)
    for path in sorted((ROOT / "benchmarks" / "hand").glob(f"{name}*.py")):
        found[f"hand/{path.name}"] = path.read_text()
    return found


def prepared(
    label: str, task: Task, source: str, cases: Sequence[Case], target: str, *, aligned: bool
) -> Traced:
    """Traces and compiles; ``aligned`` leaves out the classes for other pointers.

    Raises:
        RuntimeError: it does not trace, or a kernel does not compile.
    """
    from kernelsmith.worker import frontend

    calls = tuple(forms.trace_call(task, case) for case in cases)
    job = TraceJob(source=source, entries=task.entries, calls=calls, device=target)
    with tempfile.TemporaryDirectory() as folder:
        found = frontend.run(job, Path(folder))
    if found.failure is not None:
        raise RuntimeError(f"{task.name}, {label}: {found.failure.status}: {found.failure.message}")
    wanted = {
        name
        for plan in found.plans.values()
        for launch in plan.launches
        for name in (
            (launch.plan_class,) if aligned else (launch.plan_class, launch.plan_class_unaligned)
        )
    }
    began_s = time.monotonic()
    texts = {name: found.classes[name].ttir for name in sorted(wanted)}
    done = machine.side_by_side(functools.partial(compile_text, target=target), [*texts.values()])
    codes = dict(zip(texts, done, strict=True))
    if wrong := [one for one in done if isinstance(one, str)]:
        raise RuntimeError(f"{task.name}, {label}: {wrong[0]}")
    return Traced(
        label=label,
        task=task,
        plans=found.plans,
        object_of={name: code.info.id for name, code in codes.items()},
        objects={code.info.id: code for code in codes.values()},
        compile_s=time.monotonic() - began_s,
    )


def compile_text(text: str, target: str) -> Any:
    """One text compiled, or what was wrong."""
    try:
        return devices.get(target).compile_ttir(text)
    except CompileError as error:
        return f"COMPILE: {error.message}"


def run(
    traced: Traced, cases: Sequence[Case], target: str, *, seed: int = 1, **changes: Any
) -> dict[str, tuple[bytes, ...]]:
    """The outputs of cases by id, through the launcher in this process.

    Raises:
        RuntimeError: a run fails.
    """
    from kernelsmith.gate.reference import drawn_tokens
    from kernelsmith.worker import launcher

    runs = []
    for case in cases:
        tokens = dict(case.dims).get(traced.task.token_dim, 0)
        period = drawn_tokens(traced.task, case)
        rows = None if period is None else tuple(row % period for row in range(tokens))
        inputs = forms.inputs_for(traced.task, case, seed, rows=rows, base_tokens=period)
        runs.append(replace(Run(key=case.id, plan=traced.plans[case.id], inputs=inputs), **changes))
    with tempfile.TemporaryDirectory() as folder:
        for name, code in traced.objects.items():
            (Path(folder) / f"{name}.obj").write_bytes(code.code)
        job = RunJob(
            runs=tuple(runs),
            objects={name: code.info for name, code in traced.objects.items()},
            object_of=dict(traced.object_of),
            device=target,
        )
        result = launcher.run(job, Path(folder))
        assert isinstance(result, RunsResult)
        if result.failure is not None:
            failure = result.failure
            raise RuntimeError(f"{failure.where}: {failure.status}: {failure.message}")
        data = (Path(folder) / "out.bin").read_bytes()
    return {
        done.key: tuple(data[one.offset_bytes :][: one.nbytes] for one in done.outputs)
        for done in result.runs
    }


def timers(gpu: Any, traced: Traced, case: Case) -> tuple[Callable[[], float], Callable[[], None]]:
    """(microseconds of one replay of a case's launches, how to free it all).

    Inputs are noise, indices zeros; nothing is compared.
    """
    from kernelsmith.devices.cuda import graph, memory
    from kernelsmith.devices.cuda.device import CudaDevice
    from kernelsmith.worker import launcher_bind, launcher_gpu

    plan = traced.plans[case.id]
    stack = contextlib.ExitStack()
    device = CudaDevice()
    entries = {
        name: launcher_bind.load_entry(device, code.info, code.code)
        for name, code in traced.objects.items()
    }
    inputs = forms.inputs_for(traced.task, case, 1)
    dtypes = {spec.name: spec.meta.dtype for spec in inputs.tensors}
    addresses = []
    for buffer in plan.buffers:
        room = stack.enter_context(memory.allocate(gpu, buffer.nbytes))
        image = machine.noise(dtypes.get(buffer.arg, ""), buffer.nbytes)
        memory.write(gpu, room.address, image.ctypes.data, image.nbytes)
        addresses.append(room.address)
    bounds = launcher_bind.bind_all(plan.launches, addresses, dict(traced.object_of), entries)
    launches = stack.enter_context(launcher_gpu.prepared(gpu, bounds))
    replay = graph.Replay(gpu, launches, graphs=True)
    stack.callback(replay.close)
    return lambda: replay.time_ns() / 1e3, stack.close


def median_us(time_once: Callable[[], float], *, budget_s: float = 0.15) -> float:
    """The median of replays within a time, after a warm-up of a quarter of it."""
    end_s = time.monotonic() + budget_s / 4
    while time.monotonic() < end_s:
        time_once()
    taken: list[float] = []
    end_s = time.monotonic() + budget_s
    while len(taken) < 5 or (time.monotonic() < end_s and len(taken) < 2000):
        taken.append(time_once())
    return statistics.median(taken)
