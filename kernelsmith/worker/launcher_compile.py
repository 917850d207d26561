"""Compiles TTIR texts, on two cores where there are two; for a GPU on all there are.

LLVM's Python binding holds one lock for every call, so threads would take turns; other processes
do not. The children are forked while this process has one thread. A GPU's compiler takes seconds
for a kernel, so each further process is worth its start there; it also starts programs (ptxas).
"""

import json
import os
import re
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kernelsmith.errors import CompileError, InfrastructureError
from kernelsmith.model import (
    ASSEMBLY_MAX_BYTES,
    CompileJob,
    CompileResult,
    ObjectInfo,
    WorkerFailure,
)

# A text below this many characters compiles faster than a process starts.
FORK_MIN_TEXT_CHARS = 2000
# What a faulty lowering raises, or LLVM on text it refuses. The text is then not compiled, as if
# it held an op that is not lowered; a night does not end because of it. All else is the machine's.
FAULTS = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# The device lowers these, but a candidate may not use an address as a value: its result would hang
# on where buffers lie. The source cannot show it (`p.to(tl.int64)`), the text does.
ADDRESS_OPS = re.compile(r"\btt\.(?:ptr_to_int|int_to_ptr)\b")
# Of the n-th child.
ANSWER = "compile-{}.json"
PROGRESS = "progress-{}"
GPU_PROCESSES_MAX = 16


def run(
    job: CompileJob,
    folder: Path,
    device: Any,
    mark: Callable[[str], None],
    *,
    fork_min_text_chars: int = FORK_MIN_TEXT_CHARS,
) -> CompileResult:
    """Compiles each text to ``<object id>.obj`` in ``folder``, and to ``<object id>.s`` if asked.

    The failure that is reported is the first in job order, whatever ran first.

    Args:
        mark: is told each object id before it is compiled.
        fork_min_text_chars: with two texts at least this long, another process takes a part.

    Raises:
        InfrastructureError: another process died without an answer.
    """
    ids = list(job.ttirs)
    mine, *others = _parts(job, _processes(job, device, fork_min_text_chars))
    children = [_fork(job, part, folder, device, number) for number, part in enumerate(others)]
    done, failures = _compile_all(job, mine, folder, device, mark)
    # All are waited for, whatever the first says.
    answers = [_collect(child, folder, number) for number, child in enumerate(children)]
    for other_done, other_failures in answers:
        done |= other_done
        failures |= other_failures
    for object_id in ids:
        if object_id in failures:
            return CompileResult(objects={}, failure=failures[object_id])
    return CompileResult(objects={object_id: done[object_id] for object_id in ids})


def _compile_all(
    job: CompileJob, ids: Sequence[str], folder: Path, device: Any, mark: Callable[[str], None]
) -> tuple[dict[str, ObjectInfo], dict[str, WorkerFailure]]:
    """Compiles ``ids`` up to the first failure."""
    done: dict[str, ObjectInfo] = {}
    for object_id in ids:
        mark(object_id)
        address = ADDRESS_OPS.search(job.ttirs[object_id])
        if address is not None:
            message = f"{address.group()}: an address is no value; use pointer arithmetic"
            return done, {
                object_id: WorkerFailure(status="COMPILE", message=message, where=object_id)
            }
        try:
            compiled = _compiled(job, object_id, device)
            assembly = device.assembly(job.ttirs[object_id]) if job.assembly else None
        except CompileError as error:
            place = f" at {error.line}" if error.line else ""
            message = f"{error.op}{place}: {error.message}"
            return done, {
                object_id: WorkerFailure(status="COMPILE", message=message, where=object_id)
            }
        except FAULTS as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
            message = f"the compiler has no answer, which is its own fault: {fault}"
            return done, {
                object_id: WorkerFailure(status="COMPILE", message=message, where=object_id)
            }
        _write(folder / f"{object_id}.obj", compiled.code)
        if assembly is not None:
            _write(folder / f"{object_id}.s", assembly.encode()[:ASSEMBLY_MAX_BYTES])
        done[object_id] = (
            compiled.info if not job.observed else replace(compiled.info, id=object_id)
        )
    return done, {}


def _compiled(job: CompileJob, object_id: str, device: Any) -> Any:
    text = job.ttirs[object_id]
    return device.compile_ttir(text, observed=True) if job.observed else device.compile_ttir(text)


def _processes(job: CompileJob, device: Any, min_text_chars: int) -> int:
    """How many processes the job is worth: one, two, or on a GPU as many as there are cores."""
    large = sum(len(text) >= min_text_chars for text in job.ttirs.values())
    cores = len(os.sched_getaffinity(0))
    if large < 2 or cores < 2 or threading.active_count() > 1:
        return 1
    return min(large, cores, GPU_PROCESSES_MAX) if device.name == "cuda" else 2


def _parts(job: CompileJob, count: int) -> list[list[str]]:
    """``count`` parts of about equal text, each in job order."""
    order = {object_id: place for place, object_id in enumerate(job.ttirs)}
    parts: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    for object_id in sorted(order, key=lambda one: (-len(job.ttirs[one]), order[one])):
        part = loads.index(min(loads))
        parts[part].append(object_id)
        loads[part] += len(job.ttirs[object_id])
    return [sorted(part, key=order.__getitem__) for part in parts]


def _fork(job: CompileJob, ids: Sequence[str], folder: Path, device: Any, number: int) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    progress = folder / PROGRESS.format(number)
    try:
        done, failures = _compile_all(
            job, ids, folder, device, lambda key: _write(progress, key.encode())
        )
        answer = {
            "done": {key: asdict(info) for key, info in done.items()},
            "failures": {key: asdict(failure) for key, failure in failures.items()},
        }
        _write(folder / ANSWER.format(number), json.dumps(answer).encode())
        status = 0
    finally:
        # Never back into the parent's frames: the template's loop must not run twice.
        os._exit(status)


def _collect(
    child: int, folder: Path, number: int
) -> tuple[dict[str, ObjectInfo], dict[str, WorkerFailure]]:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0 and -code != signal.SIGKILL:
        # As it would have killed this process, had the text been in the other part.
        object_id = (folder / PROGRESS.format(number)).read_text()
        message = f"the compiler died of {signal.Signals(-code).name}"
        return {}, {object_id: WorkerFailure(status="CRASH", message=message, where=object_id)}
    if code != 0:
        raise InfrastructureError(
            f"another compile process ended with {code}",
            hint="a negative number is a signal: 9 is most often out of memory",
        )
    answer = json.loads((folder / ANSWER.format(number)).read_bytes())
    done = {
        key: ObjectInfo(**{**info, "params": tuple(info["params"])})
        for key, info in answer["done"].items()
    }
    return done, {key: WorkerFailure(**one) for key, one in answer["failures"].items()}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
