"""The child that runs one job: puts on its part of the wall, works, writes one answer, is gone."""

import errno
import gc
import json
import os
import pickle
import signal
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from kernelsmith.errors import KernelsmithError
from kernelsmith.model import CompileJob, Job, RunJob, TimeJob, TraceJob
from kernelsmith.worker import wall
from kernelsmith.worker.progress import Progress
from kernelsmith.worker.wall_seccomp import JobKind

JOB = "job.pkl"
RESULT = "result.json"
ERRORS = "errors.txt"
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# The answer is an error of the machine, not a result; see EX_SOFTWARE of sysexits.
EXIT_ERROR = 70
SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the template may know of a job."""

    kind: JobKind
    timeout_s: float
    job: Job

    @property
    def gpu(self) -> bool:
        """Whether the job runs or times kernels on a GPU."""
        return isinstance(self.job, RunJob | TimeJob) and self.job.device.startswith("cuda")


def read_order(folder: Path) -> Order:
    """Reads ``job.pkl``; only the host writes it, and it is read before the job runs."""
    job = pickle.loads((folder / JOB).read_bytes())
    kinds: dict[type, JobKind] = {
        TraceJob: "trace",
        CompileJob: "compile",
        RunJob: "run",
        TimeJob: "time",
    }
    kind = kinds[type(job)]
    if kind == "compile" and job.device.startswith("cuda"):
        kind = "compile_gpu"
    return Order(kind=kind, timeout_s=job.timeout_s, job=job)


def become(
    order: Order, folder: Path, settings: wall.Settings, python_flags: list[str], virtual: int
) -> NoReturn:
    """Turns the forked process into the job. Never returns into the template's frames."""
    code = EXIT_ERROR
    try:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.chdir(folder)
        if order.kind != "trace":
            settings = replace(settings, write=(*settings.write, folder))
        if order.kind == "compile_gpu" or order.gpu:
            _own_scratch(folder / SCRATCH)
        code = _work(order, folder, settings, python_flags, virtual)
    finally:
        os._exit(code)


def _own_scratch(scratch: Path) -> None:
    """Makes the job's own folder for temporary files: one that jobs share would be a way to leave
    something for the next, and a compiler's cache the best of them."""
    scratch.mkdir()
    os.environ |= {name: str(scratch) for name in ("TMPDIR", "HOME", "TRITON_CACHE_DIR")}
    tempfile.tempdir = None


def _work(
    order: Order, folder: Path, settings: wall.Settings, python_flags: list[str], virtual: int
) -> int:
    # What a front end prints is a candidate's to choose; what the others print is ours.
    errors = None if order.kind == "trace" else os.open(ERRORS, NEW_FILE, 0o600)
    if order.kind == "time":
        wall.detach_descriptors((), errors)
        wall.confine("time", settings, virtual=virtual, timeout_s=order.timeout_s, gpu=order.gpu)
        module = ["-m", "kernelsmith.worker.session", str(folder)]
        os.execv(sys.executable, [sys.executable, *python_flags, *module])
    result = os.open(RESULT, NEW_FILE, 0o600)
    progress = Progress(folder)
    wall.detach_descriptors((result, progress.descriptor), errors)
    wall.confine(order.kind, settings, virtual=virtual, timeout_s=order.timeout_s, gpu=order.gpu)
    try:
        answer = _run(order.job, folder, progress)
        code = 0
    except Exception as error:
        answer = _error(error)
        code = EXIT_ERROR
    while answer:
        answer = answer[os.write(result, answer) :]
    return code


def _run(job: Job, folder: Path, progress: Progress) -> bytes:
    if isinstance(job, TraceJob):
        import pydantic_core

        from kernelsmith.worker import frontend

        # A trace makes many small objects that all live until its end.
        gc.disable()
        traced = frontend.run(job, folder, progress=progress)
        return pydantic_core.to_json(traced, inf_nan_mode="constants")
    if isinstance(job, CompileJob | RunJob):
        from kernelsmith.worker import launcher

        progress.close()
        return json.dumps(asdict(launcher.run(job, folder))).encode()
    raise TypeError(f"no worker runs a {type(job).__name__}")


def _error(error: Exception) -> bytes:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    no_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    described: dict[str, Any] = {
        "kind": "MemoryError" if no_memory else type(error).__name__,
        "message": str(error) if isinstance(error, KernelsmithError) else f"{error}{place}",
        "hint": error.hint if isinstance(error, KernelsmithError) else None,
    }
    return json.dumps({"error": described}).encode()
