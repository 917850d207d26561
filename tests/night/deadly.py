"""A sandbox whose workers die when they are given certain jobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from killing import text_of

from kernelsmith.errors import SandboxError, WorkerDeathError
from kernelsmith.model import Job
from tests.gate.fake_workers import FakeSandbox, FakeWorker

Deadly = Callable[[str, Job, str], bool]
"""Role, job, and all that the job says of its candidate: whether it kills the worker."""


@dataclass
class DeadlyWorker:
    """A fake worker that may die."""

    worker: FakeWorker
    deadly: Deadly
    deaths: list[tuple[str, str]]

    def submit(self, job: Job, files: Mapping[str, bytes] | None = None) -> Any:
        if self.deadly(self.worker.role, job, text_of(job, files)):
            self.deaths.append((self.worker.role, type(job).__name__))
            raise WorkerDeathError(f"the {self.worker.role} worker died at job 7", where="")
        return self.worker.submit(job, files)

    def close(self) -> None:
        self.worker.close()


@dataclass
class DeadlySandbox:
    """Fake workers; ``deadly`` decides which jobs kill them, ``dead`` whether any starts at all."""

    deadly: Deadly
    inner: FakeSandbox = field(default_factory=FakeSandbox)
    deaths: list[tuple[str, str]] = field(default_factory=list)
    dead: bool = False

    def start(self, role: str) -> DeadlyWorker:
        if self.dead:
            raise SandboxError("no worker starts")
        return DeadlyWorker(self.inner.start(role), self.deadly, self.deaths)

    def describe(self) -> dict[str, Any]:
        return {"sandbox": "fake"}

    def close(self) -> None:
        return None
