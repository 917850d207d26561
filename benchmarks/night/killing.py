"""Real workers whose template is killed in the middle of a job that holds a certain kernel, as the
system kills when memory runs out."""

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sampling

from kernelsmith.model import CompileJob, Job, TraceJob
from kernelsmith.ports import Reply, Role, Sandbox, Worker

DEADLY = "_deadly"
"""The kernel's name."""
DELAY_S = 0.2


def text_of(job: Job, files: Mapping[str, bytes] | None) -> str:
    """The sources or machine code that a job holds."""
    if isinstance(job, TraceJob):
        return job.source
    if isinstance(job, CompileJob):
        return " ".join(job.ttirs.values())
    return " ".join(data.decode("utf-8", "replace") for data in (files or {}).values())


@dataclass
class Killing:
    """A :class:`kernelsmith.ports.Sandbox` of real workers that are children of this process.
    ``kind``: jobs of this kind are deadly; ``killed``: process numbers of templates."""

    sandbox: Sandbox
    kind: type
    killed: list[int] = field(default_factory=list)

    def start(self, role: Role) -> "KillingWorker":
        return KillingWorker(self, self.sandbox.start(role))

    def describe(self) -> dict[str, Any]:
        return self.sandbox.describe()

    def pause(self) -> None:
        self.sandbox.pause()

    def resume(self) -> None:
        self.sandbox.resume()

    def close(self) -> None:
        self.sandbox.close()


@dataclass
class KillingWorker:
    """One of its workers."""

    of: Killing
    worker: Worker

    def submit(self, job: Job, files: Mapping[str, bytes] | None = None) -> Reply:
        deadly = isinstance(job, self.of.kind) and DEADLY in text_of(job, files)
        if not deadly or getattr(job, "observed", False):
            return self.worker.submit(job, files)
        process = process_of(self.worker)
        self.of.killed.append(process)
        _signal(process, signal.SIGSTOP)  # so that it dies in the middle of the job
        timer = threading.Timer(DELAY_S, _signal, (process, signal.SIGKILL))
        timer.start()
        try:
            return self.worker.submit(job, files)
        finally:
            timer.join()

    def renew(self) -> None:
        self.worker.renew()

    def close(self) -> None:
        self.worker.close()


def _signal(process: int, number: int) -> None:
    """To a process and all that it started: a wall's program and the template behind it."""
    for each in (process, *sampling.descendants(process)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def process_of(worker: Any) -> int:
    """The template's process, ready for jobs."""
    return int(worker.worker.started().popen.pid)
