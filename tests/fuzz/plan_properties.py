"""Traces and IR as a front end could garble them: a status of the candidate, an error of the tree,
or a plan that is sound; never a traceback, never ACCEPTED."""

import functools
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kernelsmith import cases, catalog
from kernelsmith.errors import KernelsmithError
from kernelsmith.gate import plans
from kernelsmith.gate.witness import reading
from kernelsmith.gate.witness.flow import Param
from kernelsmith.model import Case, Plan, Task, TraceJob, TraceResult
from kernelsmith.sandbox.answers import Ending, result_of
from kernelsmith.worker import frontend
from tests.fuzz.mutation import bytes_of, mutated, text_mutated
from tests.fuzz.properties import Property

TASKS = ("rms_norm", "linear")
WELL = Ending(exit=0, signal=None, timed_out=False, seconds=0.1)
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4}
Traced = tuple[Task, tuple[Case, ...], TraceJob, str]


@functools.cache
def traced(name: str) -> Traced:
    """A shipped seed's own trace, one case of each call form, and its answer as JSON."""
    import pydantic_core

    task = catalog.load_task(name, "cpu")
    chosen = tuple({case.call: case for case in task.cases if case.dtype == "bfloat16"}.values())
    job = TraceJob(
        source=task.seed_source,
        entries=task.entries,
        calls=tuple(cases.trace_call(task, case) for case in chosen),
        device="cpu",
    )
    with tempfile.TemporaryDirectory() as folder:
        result = frontend.run(job, Path(folder))
    assert result.failure is None
    return task, chosen, job, pydantic_core.to_json(result, inf_nan_mode="constants").decode()


def answered_or_sound(example: tuple[str, bool, int]) -> None:
    """A garbled trace fails, or its plans are ones that the seed's call could have."""
    name, as_bytes, draw = example
    task, chosen, job, text = traced(name)
    rng = random.Random(draw)
    tree = json.loads(text)
    if as_bytes:
        data = bytes_of(tree, rng)
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            # Most of a trace is text of kernels: plans are met more often, one by one.
            part = tree["plans"] if isinstance(tree, dict) and rng.random() < 0.6 else tree
            plan = rng.choice(sorted(part)) if part is not tree and part else None
            if plan is None:
                tree, _ = mutated(tree, rng)
            else:
                part[plan], _ = mutated(part[plan], rng)
        data = json.dumps(tree).encode()
    try:
        result = result_of(job, WELL, data, "here")
    except KernelsmithError:
        return
    assert isinstance(result, TraceResult)
    if result.failure is not None:
        assert result.failure.status != "ACCEPTED"
        assert "\n" not in result.failure.message
        return
    for case in chosen:
        found = plans.check(task, case, result, ())
        assert found.status in (None, "SIGNATURE", "TRACE", "MEMORY")
        assert "\n" not in found.message
        if found.status is None:
            sound(task, case, result.plans[case.id], set(result.classes))
            plans.classes_of([result.plans[case.id]])


def sound(task: Task, case: Case, plan: Plan, classes: set[str]) -> None:
    """What a plan must be, said anew: by the bytes its outputs take."""
    call = task.call(case.call)
    assert len(plan.outputs) == len(call.outputs)
    taken: dict[int, list[range]] = {}
    for spec, ref in zip(call.outputs, plan.outputs, strict=True):
        shape = tuple(case.dim(d) if isinstance(d, str) else d for d in spec.shape)
        dtype = case.dtype if spec.dtype == "T" else spec.dtype
        assert (ref.meta.shape, ref.meta.dtype) == (shape, dtype)
        elements = 1
        for size, stride in zip(reversed(shape), reversed(ref.meta.strides), strict=True):
            assert stride == elements or size <= 1 or 0 in shape
            elements *= size
        begin, end = ref.offset_bytes, ref.offset_bytes + elements * ITEM_BYTES[dtype]
        assert 0 <= begin <= end <= plan.buffers[ref.buffer].nbytes
        assert ref.buffer >= 0
        assert plan.buffers[ref.buffer].arg == ""
        for other in taken.get(ref.buffer, []):
            assert end <= other.start or other.stop <= begin or begin == end
        if begin != end:
            taken.setdefault(ref.buffer, []).append(range(begin, end))
    names = [buffer.arg for buffer in plan.buffers if buffer.arg]
    assert len(names) == len(set(names))
    assert set(names) <= {arg.name for arg in call.args if arg.kind == "tensor"}
    for launch in plan.launches:
        assert {launch.plan_class, launch.plan_class_unaligned} <= classes
        assert min(launch.grid) >= 1
        for argument in launch.args:
            if argument.kind == "ptr":
                assert 0 <= argument.buffer < len(plan.buffers)
                assert 0 <= argument.offset_bytes <= plan.buffers[argument.buffer].nbytes


@functools.cache
def texts() -> tuple[str, ...]:
    """The IR of all kernels of those traces."""
    found = [json.loads(traced(name)[3])["classes"].values() for name in TASKS]
    return tuple(sorted({one["ttir"] for part in found for one in part}))


def read_or_refused(example: tuple[int, int, int | None]) -> None:
    """Garbled IR is read, or refused in a line."""
    number, draw, pointers = example
    rng = random.Random(draw)
    text = text_mutated(texts()[number % len(texts())], rng)
    params: list[Param] | None = None
    if pointers is not None:
        params = [Param(buffer=n % 3, floats=rng.random() < 0.5) for n in range(pointers)]
    said = reading.read(text, params)
    assert "\n" not in said.fault
    if said.fault:
        assert said.facts == reading.Facts()
        assert said.decided == ()
    again = reading.read(text, params)
    assert again == said


DRAW: st.SearchStrategy[Any] = st.integers(0, 2**32)
PROPERTIES = (
    Property(
        name="plan.garbled",
        examples=120,
        drawn=st.tuples(st.sampled_from(TASKS), st.sampled_from((False, False, True)), DRAW),
        holds=answered_or_sound,
    ),
    Property(
        name="plan.ir",
        examples=60,
        drawn=st.tuples(st.integers(0, 1000), DRAW, st.none() | st.integers(0, 8)),
        holds=read_or_refused,
    ),
)
