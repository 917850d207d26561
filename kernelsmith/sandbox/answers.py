"""From what a worker left behind to a validated result: nothing in it is believed unread."""

import gc
import json
import signal
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kernelsmith import errors
from kernelsmith.errors import KernelsmithError, SandboxError, WorkerDeathError
from kernelsmith.model import (
    ITEMSIZE_BYTES,
    CompileJob,
    CompileResult,
    Job,
    JobResult,
    Plan,
    RunJob,
    RunsResult,
    TimeJob,
    TimeResult,
    TraceJob,
    TraceResult,
    WorkerFailure,
    failed_job,
)
from kernelsmith.model.messages import FailureStatus

RESULT_TYPES: dict[str, type] = {
    "TraceJob": TraceResult,
    "CompileJob": CompileResult,
    "RunJob": RunsResult,
    "TimeJob": TimeResult,
}
# The process itself did something wrong. SIGKILL without a time-out is the system's doing.
CRASH_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP")
EXIT_ERROR = 70
MAX_BUFFER_BYTES = 1 << 32
MAX_SECONDS = 1e9
MAX_MESSAGE_CHARS = 2000
MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the child of a job ended; ``exceeded``: what it took too much of and was killed for."""

    exit: int | None
    signal: int | None
    timed_out: bool
    seconds: float
    exceeded: str = ""


def ending_of(said: dict[str, Any]) -> Ending | None:
    """What a template's line says of a job's process; None if it says nothing sound."""
    code, number = said.get("exit"), said.get("signal")
    timed_out, seconds = said.get("timed_out"), said.get("seconds")
    exceeded = said.get("exceeded", "")
    one = (type(code), type(number)) in ((int, type(None)), (type(None), int))
    if not one or type(timed_out) is not bool or not isinstance(seconds, int | float):
        return None
    if not _is_time(seconds) or type(exceeded) is not str:
        return None
    return Ending(
        exit=code,
        signal=number,
        timed_out=timed_out,
        seconds=float(seconds),
        exceeded=one_line(exceeded),
    )


def failed(job: Job, status: FailureStatus, message: str, where: str, seconds: float) -> JobResult:
    """The result of a job whose process did not live to answer."""
    return failed_job(job, WorkerFailure(status=status, message=message, where=where), seconds)


def result_of(job: Job, ending: Ending, answer: bytes | None, where: str) -> JobResult:
    """Turns an ending and ``result.json`` into the job's result.

    Args:
        job: what was asked.
        ending: how the process ended.
        answer: the file's bytes, None if there is none.
        where: what the progress file named last.

    Raises:
        WorkerDeathError: it died in a way that does not tell whose fault it was.
        KernelsmithError: what the worker's own code raised, by its class.
    """
    where = one_line(where)[:MAX_NAME_CHARS]
    if ending.exceeded:
        message = f"took more than its share: {ending.exceeded}"
        return failed(job, "CRASH", message, where, ending.seconds)
    if ending.timed_out:
        message = f"did not end within {job.timeout_s:g} s"
        return failed(job, "TIMEOUT", message, where, ending.seconds)
    if ending.signal is not None:
        return _signalled(job, ending, where)
    error = _raised(answer or b"", where) if ending.exit == EXIT_ERROR else None
    if error is not None:
        raise error
    if ending.exit != 0 or answer is None:
        message = f"ended with status {ending.exit} before it answered"
        return _no_answer(job, message, where, ending)
    try:
        result = validate(job, answer)
    except (ValidationError, ValueError) as invalid:
        first = one_line(str(invalid))[:200]
        return _no_answer(job, f"gave an answer that is not valid: {first}", where, ending)
    return result


def validate(job: Job, answer: bytes) -> JobResult:
    """Parses the answer strictly by type, then checks what types cannot say.

    Raises:
        ValueError: it is not what the job's result must be.
    """
    # The parse makes many objects that live on; collecting meanwhile triples its time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        result: JobResult = _adapter(type(job).__name__).validate_json(answer, strict=True)
    finally:
        if enabled:
            gc.enable()
    if isinstance(job, TraceJob) and isinstance(result, TraceResult):
        _check_trace(job, result)
    elif isinstance(job, RunJob) and isinstance(result, RunsResult):
        _check_runs(job, result)
    elif isinstance(job, CompileJob) and isinstance(result, CompileResult):
        if result.failure is None and set(result.objects) != set(job.ttirs):
            raise ValueError("the objects are not those asked for")
    elif isinstance(job, TimeJob) and isinstance(result, TimeResult):
        _check_times(job, result)
    if result.failure is None:
        return result
    return replace(result, failure=_in_one_line(result.failure))


def _in_one_line(failure: WorkerFailure) -> WorkerFailure:
    message, where = (
        one_line(text)[:MAX_MESSAGE_CHARS] for text in (failure.message, failure.where)
    )
    return replace(failure, message=message, where=where)


def one_line(text: str) -> str:
    """Text of a worker's as one line, without what would steer a terminal or hide in it: what it
    says ends up in logs and on screens."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _is_time(seconds: float) -> bool:
    return 0.0 <= seconds < MAX_SECONDS  # false of a NaN


def _check_runs(job: RunJob, result: RunsResult) -> None:
    keys = [run.key for run in job.runs]
    answered = [run.key for run in result.runs]
    if answered != (keys if result.failure is None else keys[: len(answered)]):
        raise ValueError(f"{len(keys)} runs were asked for, others ({len(answered)}) are answered")
    for asked, run in zip(job.runs, result.runs, strict=False):
        if not _is_time(run.seconds):
            raise ValueError(f"run {run.key}: {run.seconds} s")
        if len(run.outputs) != len(asked.plan.outputs):
            raise ValueError(f"run {run.key}: {len(run.outputs)} outputs")


def _check_times(job: TimeJob, result: TimeResult) -> None:
    if not _is_time(result.seconds):
        raise ValueError(f"a session of {result.seconds} s")
    keys, answered = [case.key for case in job.cases], [case.key for case in result.cases]
    if result.failure is None and answered != keys:
        raise ValueError(f"{len(keys)} cases were asked for, others ({len(answered)}) are answered")


@cache
def _adapter(job_type: str) -> TypeAdapter[Any]:
    return TypeAdapter(RESULT_TYPES[job_type])


def _check_trace(job: TraceJob, result: TraceResult) -> None:
    if result.failure is not None:
        return
    if set(result.plans) != {call.key for call in job.calls}:
        raise ValueError("the plans are not those of the calls asked for")
    for key, value in result.classes.items():
        if key != value.id:
            raise ValueError("a class stands under another's id")
        if not value.kernel.isidentifier() or max(len(value.kernel), len(key)) > MAX_NAME_CHARS:
            raise ValueError("a class without a kernel's name")
    for key, plan in result.plans.items():
        _check_plan(key, plan, result)


def _check_plan(key: str, plan: Plan, result: TraceResult) -> None:
    sizes = [buffer.nbytes for buffer in plan.buffers]
    if any(not 0 <= size <= MAX_BUFFER_BYTES for size in sizes):
        raise ValueError(f"plan {key}: a buffer of impossible size")
    if any(buffer.arg and not buffer.arg.isidentifier() for buffer in plan.buffers):
        raise ValueError(f"plan {key}: a buffer of no argument")
    for launch in plan.launches:
        if not {launch.plan_class, launch.plan_class_unaligned} <= result.classes.keys():
            raise ValueError(f"plan {key}: a launch of an unknown class")
        if not all(1 <= extent < 1 << 31 for extent in launch.grid):
            raise ValueError(f"plan {key}: grid {launch.grid}")
        for argument in launch.args:
            if argument.kind != "ptr":
                continue
            if not 0 <= argument.buffer < len(sizes):
                raise ValueError(f"plan {key}: a pointer into no buffer")
            if not 0 <= argument.offset_bytes <= sizes[argument.buffer]:
                raise ValueError(f"plan {key}: a pointer outside its buffer")
    for output in plan.outputs:
        meta = output.meta
        if not 0 <= output.buffer < len(sizes) or meta.dtype not in ITEMSIZE_BYTES:
            raise ValueError(f"plan {key}: an output in no buffer")
        if len(meta.shape) != len(meta.strides) or min((*meta.shape, *meta.strides, 0)) < 0:
            raise ValueError(f"plan {key}: an output of impossible shape")
        extent = sum((n - 1) * s for n, s in zip(meta.shape, meta.strides, strict=True)) + 1
        last = output.offset_bytes + extent * ITEMSIZE_BYTES[meta.dtype]
        if output.offset_bytes < 0 or (0 not in meta.shape and last > sizes[output.buffer]):
            raise ValueError(f"plan {key}: an output outside its buffer")


def _signalled(job: Job, ending: Ending, where: str) -> JobResult:
    number = ending.signal or 0
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if name == "SIGXCPU":
        return failed(job, "TIMEOUT", "used up its processor time", where, ending.seconds)
    if name in CRASH_SIGNALS:
        return failed(job, "CRASH", f"died of {name}", where, ending.seconds)
    raise WorkerDeathError(
        f"a worker was killed by {name} at {where or 'its start'}",
        where=where,
        hint="SIGKILL without a time-out is most often the system running out of memory",
    )


def _no_answer(job: Job, message: str, where: str, ending: Ending) -> JobResult:
    """Only a front end holds code that could end its process or garble its answer by intent."""
    if isinstance(job, TraceJob):
        return failed(job, "CRASH", message, where, ending.seconds)
    raise WorkerDeathError(f"a worker {message} (at {where or 'its start'})", where=where)


def _raised(answer: bytes, where: str) -> KernelsmithError | None:
    """What the worker's own code raised, or None if the answer does not say."""
    try:
        said = json.loads(answer)["error"]
        kind, message, hint = (
            one_line(str(said["kind"])),
            one_line(str(said["message"])),
            said["hint"],
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    kind, hint = kind[:MAX_NAME_CHARS], one_line(hint)[:500] if isinstance(hint, str) else None
    found = getattr(errors, kind, None)
    if found in (errors.MissingError, errors.InputError, errors.StorageError):
        known: KernelsmithError = found(message[:500], hint=hint)
        return known
    text = f"a worker failed at {where or 'its start'}: {kind}: {message[:500]}"
    if kind == "MemoryError":  # a job's limit, or the machine's: one failure does not tell
        return WorkerDeathError(text, where=where, hint=hint)
    return SandboxError(text, hint=hint)
