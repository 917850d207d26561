"""The front end: the only process that ever holds candidate Python.

It runs the host code of a module on tensors without data, records the launches as plans and
emits the TTIR text of each plan class. It measures nothing and compares nothing.
"""

from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from kernelsmith.errors import MissingError
from kernelsmith.model import (
    Plan,
    PlanClass,
    TensorMeta,
    TraceCall,
    TraceJob,
    TraceResult,
    WorkerFailure,
)
from kernelsmith.worker.frontend_module import (
    describe,
    find_entry,
    load,
    make_argument,
    match_arguments,
)
from kernelsmith.worker.progress import Progress
from kernelsmith.worker.trace_emit import Emit, Emitter, plan_class, variants
from kernelsmith.worker.trace_launch import Recorder, recording
from kernelsmith.worker.trace_mode import AllocationAndViews
from kernelsmith.worker.trace_stride import guarded_strides
from kernelsmith.worker.trace_tape import FaultError, Tape, add_input, finish

LOADING = "module"


def run(job: TraceJob, folder: Path, progress: Progress | None = None) -> TraceResult:
    """Traces a module's entries and emits the classes of their launches.

    Every entry named in the job must be there. The first fault of the candidate ends the job and
    is returned with empty plans; ``where`` is the call's key, the class's id or "module".

    Args:
        job: what to trace.
        folder: where the progress file is written.
        progress: an open progress file, where the wall forbids opening one.

    Raises:
        MissingError: a device that this front end cannot emit for.
    """
    backend, emit = device_front_end(job.device)
    recorder = Recorder(
        mode=AllocationAndViews("cpu" if job.real else "meta"), backend=backend, device=job.device
    )
    with progress or Progress(folder) as marks, recording(recorder), torch.no_grad():
        try:
            plans = _trace(job, recorder, marks)
            classes = _classes(job, recorder, Emitter(emit=emit), marks)
        except FaultError as fault:
            # A candidate's message may hold what no JSON text can.
            message = fault.message.encode("utf-8", "replace").decode()
            failure = WorkerFailure(
                status=fault.status, message=message, where=fault.where or LOADING
            )
            return TraceResult(plans={}, classes={}, failure=failure)
    return TraceResult(plans=plans, classes=classes)


def device_front_end(device: str) -> tuple[Any, Emit]:
    """Triton's backend object of a device and its function from jit function to TTIR text.

    Args:
        device: "cpu", or "cuda:90" and the like: a GPU's text depends on its architecture.

    Raises:
        MissingError: not built for this device.
    """
    name, _, arch = device.partition(":")
    if name == "cuda" and arch.isdigit():
        return _cuda_front_end(int(arch))
    if device != "cpu":
        raise MissingError(
            f"the front end does not emit for device {device!r}", hint="use --device cpu"
        )
    from kernelsmith.devices.cpu.emit import cpu_backend, emit_ttir

    backend = cpu_backend()

    def emit(
        kernel: Any,
        signature: dict[str, str],
        constants: dict[Any, Any],
        attributes: dict[Any, Any],
        options: dict[str, Any],
    ) -> str:
        parsed = backend.parse_options(dict(options))
        return emit_ttir(kernel, signature, constants, attributes, parsed)

    return backend, emit


def _cuda_front_end(arch: int) -> tuple[Any, Emit]:
    from kernelsmith.devices.cuda.emit import cuda_backend, emit_ttir

    def emit(
        kernel: Any,
        signature: dict[str, str],
        constants: dict[Any, Any],
        attributes: dict[Any, Any],
        options: dict[str, Any],
    ) -> str:
        return emit_ttir(kernel, signature, constants, attributes, dict(options), arch)

    return cuda_backend(arch), emit


def _trace(job: TraceJob, recorder: Recorder, progress: Progress) -> dict[str, Plan]:
    progress.mark(LOADING)
    with recorder.mode:
        module = load(job.source)
    entries = {name: find_entry(module, name) for name in job.entries}
    plans: dict[str, Plan] = {}
    for call in job.calls:
        progress.mark(call.key)
        try:
            plans[call.key] = _trace_call(recorder, module, entries, call)
        except FaultError as fault:
            fault.where = call.key
            raise
    recorder.check_unchanged()
    return plans


def _trace_call(
    recorder: Recorder, module: ModuleType, entries: dict[str, FunctionType], call: TraceCall
) -> Plan:
    entry = entries.get(call.entry) or find_entry(module, call.entry)
    takes_programs = match_arguments(entry, call)
    device = recorder.mode.device.type
    tape = Tape()
    arguments: dict[str, Any] = {}
    for name, value in call.args:
        arguments[name] = make_argument(value, device)
        if isinstance(value, TensorMeta):
            add_input(tape, name, arguments[name])
    if takes_programs:
        arguments["num_programs"] = call.num_programs
    return finish(tape, _call(recorder, tape, entry, arguments), torch.Tensor)


def _call(
    recorder: Recorder, tape: Tape, entry: Callable[..., Any], arguments: dict[str, Any]
) -> Any:
    recorder.mode.tape = tape
    try:
        with recorder.mode, guarded_strides():
            return entry(**arguments)
    except FaultError:
        raise
    except BaseException as error:
        if tape.fault is not None:
            raise tape.fault from None
        raise FaultError("TRACE", describe(error)) from None
    finally:
        recorder.mode.tape = None


def _classes(
    job: TraceJob, recorder: Recorder, emitter: Emitter, progress: Progress
) -> dict[str, PlanClass]:
    known = frozenset(job.known)
    classes: dict[str, PlanClass] = {}
    recorder.emitting = True
    for spec in recorder.met.values():
        progress.mark(spec.aligned_id)
        if job.emit:
            classes.update(emitter.classes(spec, known))
            continue
        for name, divisible in variants(spec):
            classes[name] = plan_class(spec, name, divisible, "")
    recorder.emitting = False
    return classes
