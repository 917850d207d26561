"""Is a plan one that the seed's call could have? Plans come from where candidate Python ran, so
the host believes nothing in them that it can check."""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise

from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.model import (
    ITEMSIZE_BYTES,
    Case,
    ObjectInfo,
    OutputRef,
    OutputSpec,
    Plan,
    Task,
    TensorMeta,
    TraceResult,
)

SCRATCH_MAX_BYTES = 1 << 30
SCRATCH_BY_DATA = 16
SCRATCH_FREE_BYTES = 64 * 2**20
"""A plan may have scratch of so many times its inputs and outputs, and so much besides: timing
holds several sets of buffers for both sides."""
LAUNCHES_MAX = 256
PROGRAMS_MAX = 1 << 31


def output_meta(spec: OutputSpec, case: Case) -> TensorMeta:
    """Shape, contiguous strides and dtype that an output must have at this case's dims."""
    shape = tuple(case.dim(d) if isinstance(d, str) else d for d in spec.shape)
    dtype = case.dtype if spec.dtype == "T" else spec.dtype
    return TensorMeta(shape=shape, strides=contiguous(shape), dtype=dtype)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(meta: TensorMeta) -> bool:
    """Whether the elements lie densely in row-major order (strides of size-1 axes are free)."""
    if math.prod(meta.shape) == 0:
        return True
    expected = contiguous(meta.shape)
    return all(
        size == 1 or have == want
        for size, have, want in zip(meta.shape, meta.strides, expected, strict=True)
    )


def nbytes(meta: TensorMeta) -> int:
    """Bytes of the elements, without gaps."""
    return math.prod(meta.shape) * ITEMSIZE_BYTES[meta.dtype]


def check(task: Task, case: Case, result: TraceResult, known: Collection[str]) -> Outcome:
    """Compares what was traced for a case with what its call form declares.

    Rejects with SIGNATURE where the outputs are others than the seed's (count, shape, dtype,
    contiguity, one aliasing another or an input), with TRACE where the plan itself is not sound,
    with MEMORY where its scratch is out of proportion: before a run would have to fill it.
    ``known`` are the plan classes whose text the gate has from an earlier trace.
    """
    plan = result.plans.get(case.id)
    if plan is None:
        return Outcome(status="TRACE", message=f"case {case.id}: the trace has no plan of it")
    call = task.call(case.call)
    where = f"case {case.id}: {call.entry}"
    if len(plan.outputs) != len(call.outputs):
        return Outcome(
            status="SIGNATURE",
            message=f"{where} returns {len(plan.outputs)} tensors, the seed {len(call.outputs)}",
        )
    for spec, ref in zip(call.outputs, plan.outputs, strict=True):
        fault = _output_fault(plan, spec, ref, case)
        if fault:
            return Outcome(status="SIGNATURE", message=f"{where} output {spec.name} {fault}")
    fault = _overlap_fault(plan, call.outputs)
    if fault:
        return Outcome(status="SIGNATURE", message=f"{where} {fault}")
    tensors = {arg.name for arg in call.args if arg.kind == "tensor"}
    fault = _plan_fault(plan, tensors, {*result.classes, *known})
    if fault:
        return Outcome(status="TRACE", message=f"{where} {fault}")
    return scratch(case.id, plan)


def scratch(key: str, plan: Plan) -> Outcome:
    """Refuses a plan whose scratch is out of proportion to what it reads and returns."""
    outputs = {ref.buffer for ref in plan.outputs}
    spare = data = 0
    for index, buffer in enumerate(plan.buffers):
        if buffer.arg or index in outputs:
            data += buffer.nbytes
        else:
            spare += buffer.nbytes
    most = SCRATCH_BY_DATA * data + SCRATCH_FREE_BYTES
    if spare <= most:
        return Outcome()
    return Outcome(
        status="MEMORY",
        message=f"case {key}: {spare} bytes of scratch, at most {most} are allowed "
        f"({SCRATCH_BY_DATA} times inputs and outputs, and {SCRATCH_FREE_BYTES})",
        evidence={"case": key, "scratch_bytes": spare, "allowed_bytes": most},
    )


def _output_fault(plan: Plan, spec: OutputSpec, ref: OutputRef, case: Case) -> str:
    want = output_meta(spec, case)
    if ref.meta.shape != want.shape:
        return f"has shape {list(ref.meta.shape)}, the seed's has {list(want.shape)}"
    if ref.meta.dtype != want.dtype:
        return f"is {ref.meta.dtype}, the seed's is {want.dtype}"
    if len(ref.meta.strides) != len(want.shape) or not is_contiguous(ref.meta):
        return f"has strides {list(ref.meta.strides)}, the seed's is contiguous"
    if not 0 <= ref.buffer < len(plan.buffers):
        return f"lies in buffer {ref.buffer} of {len(plan.buffers)}"
    buffer = plan.buffers[ref.buffer]
    if buffer.arg:
        return f"aliases the input {buffer.arg}; allocate it with new_empty or empty_like"
    if ref.offset_bytes < 0 or ref.offset_bytes + nbytes(want) > buffer.nbytes:
        return f"reaches past its storage of {buffer.nbytes} bytes"
    return ""


def _overlap_fault(plan: Plan, specs: tuple[OutputSpec, ...]) -> str:
    spans = sorted(
        (ref.buffer, ref.offset_bytes, ref.offset_bytes + nbytes(ref.meta), spec.name)
        for spec, ref in zip(specs, plan.outputs, strict=True)
        if nbytes(ref.meta)
    )
    for (buffer, _, end, name), (other_buffer, begin, _, other) in pairwise(spans):
        if buffer == other_buffer and begin < end:
            return f"outputs {name} and {other} share memory"
    return ""


def _plan_fault(plan: Plan, tensors: set[str], class_ids: set[str]) -> str:
    arguments = [buffer.arg for buffer in plan.buffers if buffer.arg]
    unknown = sorted(set(arguments) - tensors)
    if unknown or len(arguments) != len(set(arguments)):
        return f"binds {unknown or 'one input twice'} as inputs"
    own = sum(buffer.nbytes for buffer in plan.buffers if not buffer.arg)
    if min((b.nbytes for b in plan.buffers), default=0) < 0 or own > SCRATCH_MAX_BYTES:
        return f"allocates {own} bytes, at most {SCRATCH_MAX_BYTES} are allowed"
    if len(plan.launches) > LAUNCHES_MAX:
        return f"makes {len(plan.launches)} launches, at most {LAUNCHES_MAX} are allowed"
    for number, launch in enumerate(plan.launches):
        if min(launch.grid) < 0 or math.prod(launch.grid) >= PROGRAMS_MAX:
            return f"launch {number} has grid {list(launch.grid)}"
        for class_id in (launch.plan_class, launch.plan_class_unaligned):
            if class_id not in class_ids:
                return f"launch {number} names the unknown plan class {class_id}"
        for arg in launch.args:
            if arg.kind != "ptr":
                continue
            if not 0 <= arg.buffer < len(plan.buffers):
                return f"launch {number} points into buffer {arg.buffer}"
            if not 0 <= arg.offset_bytes <= plan.buffers[arg.buffer].nbytes:
                return f"launch {number} points {arg.offset_bytes} bytes into a smaller buffer"
    return ""


def text_id(ttir: str) -> str:
    """A file name for a text, its lines included; what the CPU device does not read is not."""
    text = ttir.replace(" {tt.divisibility = 16 : i32}", "")
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def classes_of(plans: Iterable[Plan]) -> set[str]:
    """Ids of every class these plans may launch, pointers aligned or not."""
    return {
        class_id
        for plan in plans
        for launch in plan.launches
        for class_id in (launch.plan_class, launch.plan_class_unaligned)
    }


def fingerprint(
    subject: Subject, case_id: str, objects: dict[str, tuple[ObjectInfo, bytes]]
) -> str:
    """What a case executes: the plan with each class replaced by the hash of its machine code.

    Two subjects with equal fingerprints run the same instructions on the same buffers.
    """
    plan = subject.plans[case_id]
    code: Callable[[str], str] = lambda c: objects[subject.object_of[c]][0].code_hash  # noqa: E731
    launches = tuple(
        (code(launch.plan_class), code(launch.plan_class_unaligned), launch.grid, launch.args)
        for launch in plan.launches
    )
    return repr((plan.buffers, launches, plan.outputs))
