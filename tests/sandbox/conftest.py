"""One front end behind each wall that can stand here, shared by all tests of this folder."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.errors import MissingError
from kernelsmith.model import TensorMeta, TraceCall, TraceJob, TraceResult
from kernelsmith.ports import Role, Sandbox
from kernelsmith.sandbox import paths
from kernelsmith.sandbox.choose import choose
from kernelsmith.sandbox.pool import Leased

WALLS = ("docker", "bubblewrap", "process")
# Small, so that a bomb that is not stopped does no harm.
LIMITS = {
    "memory_bytes": 1 << 30,
    "file_bytes": 16 << 20,
    "trace_file_bytes": 1 << 20,
    "spool_bytes": 64 << 20,
    "spool_files": 2000,
    "processes": 32,
    "threads": 256,
}
SMALL = TensorMeta(shape=(4, 8), strides=(8, 1), dtype="float32")
HEADER = "import torch, triton\nimport triton.language as tl\n"


def job_of(source: str, *, timeout_s: float = 20.0) -> TraceJob:
    """A job that calls ``forward(x)`` of a module."""
    call = TraceCall(key="the call", entry="forward", args=(("x", SMALL),), num_programs=1)
    return TraceJob(
        source=HEADER + source,
        entries=("forward",),
        calls=(call,),
        device="cpu",
        timeout_s=timeout_s,
    )


class Walls:
    """Sandboxes by name, each started when it is first asked for; a wall that cannot stand here
    skips the test by name."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.workers: dict[tuple[str, Role], Leased] = {}
        self.missing: dict[str, str] = {}

    def sandbox(self, name: str) -> Sandbox:
        if name not in self.sandboxes and name not in self.missing:
            try:
                self.sandboxes[name] = choose(name, trusted_origin=True, limits=LIMITS)
            except MissingError as error:
                self.missing[name] = error.message
        if name in self.missing:
            pytest.skip(f"{name}: {self.missing[name]}")
        return self.sandboxes[name]

    def worker(self, name: str, role: Role = "frontend") -> Leased:
        if (name, role) not in self.workers:
            self.workers[name, role] = self.sandbox(name).start(role)
        return self.workers[name, role]

    def launcher_of(self, frontend: Leased) -> Leased:
        return self.worker(self._name(frontend), "launcher")

    def sandbox_of(self, worker: Leased) -> Sandbox:
        return self.sandboxes[self._name(worker)]

    def _name(self, worker: Leased) -> str:
        return next(name for (name, _), own in self.workers.items() if own is worker)

    def close(self) -> None:
        for sandbox in self.sandboxes.values():
            sandbox.close()


@pytest.fixture(scope="session")
def walls() -> Iterator[Walls]:
    found = Walls()
    yield found
    found.close()


@pytest.fixture(params=WALLS)
def frontend(request: pytest.FixtureRequest, walls: Walls) -> Leased:
    return walls.worker(request.param)


def start_supervisor(
    role: str, folders: Sequence[Path], tmp: Path, **more: Any
) -> "subprocess.Popen[bytes]":
    """Process 1 of a container as an ordinary process, over these folders for jobs, orders and
    answers."""
    settings = {
        "environment": paths.environment(str(tmp), paths.visible().python_path),
        "template": {"python_flags": list(paths.PYTHON_FLAGS)},
    }
    module = ["-m", "kernelsmith.worker.supervisor", role, *map(str, folders)]
    command = [sys.executable, *paths.PYTHON_FLAGS, *module, json.dumps(settings)]
    return subprocess.Popen(command, **more)


def submit(worker: Leased, source: str, *, timeout_s: float = 20.0) -> TraceResult:
    reply = worker.submit(job_of(source, timeout_s=timeout_s))
    reply.close()
    assert isinstance(reply.result, TraceResult)
    return reply.result
