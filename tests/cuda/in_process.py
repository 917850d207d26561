"""A sandbox whose workers run in this process, on the stand-in for a GPU."""

import dataclasses
import tempfile
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from kernelsmith.devices.cpu.device import CpuDevice
from kernelsmith.devices.cuda import epoch
from kernelsmith.devices.cuda.device import CudaDevice
from kernelsmith.devices.cuda.options import split_options
from kernelsmith.model import CompileJob, Job, JobResult, RunJob, TimeJob, TraceJob
from kernelsmith.worker import frontend, launcher, session
from tests.cuda.stand_in import StandInDevice

ARCH = 90


def native(ttir: str) -> Any:
    """The CPU's machine code of a text for a GPU, named as the GPU's."""
    _, body = split_options(ttir)
    made = CpuDevice().compile_ttir(body)
    name = epoch.object_id(ttir, ARCH)
    # On a GPU launch options make other code; here they only give it another name.
    info = dataclasses.replace(made.info, id=name, code_hash=name)
    return dataclasses.replace(made, info=info)


@dataclasses.dataclass(frozen=True)
class GateDevice:
    """What the host asks of a GPU device; ``turns`` notes who asked for it, alone or not."""

    turns: list[bool]
    name: str = "cuda"
    target: str = f"cuda:{ARCH}"

    def describe(self) -> dict[str, Any]:
        return {"device": "cuda", "arch": f"sm_{ARCH}", "gpu": "a stand-in", "key": "none"}

    def object_id(self, ttir: str) -> str:
        return CudaDevice(arch=ARCH).object_id(ttir)

    def turn(self, *, alone: bool) -> AbstractContextManager[None]:
        self.turns.append(alone)
        return nullcontext()


@dataclasses.dataclass(frozen=True)
class Reply:
    """A result with the files that the job left."""

    result: JobResult
    folder: Any

    def read(self, name: str, offset: int = 0, nbytes: int | None = None) -> bytes:
        data = (Path(self.folder.name) / name).read_bytes()
        return data[offset:] if nbytes is None else data[offset : offset + nbytes]

    def close(self) -> None:
        self.folder.cleanup()


@dataclasses.dataclass(frozen=True)
class Worker:
    """Runs one job at a time: the stand-in is one for the whole process."""

    device: StandInDevice
    turn: threading.Lock

    def submit(self, job: Job, files: Mapping[str, bytes] | None = None) -> Reply:
        folder = tempfile.TemporaryDirectory()
        path = Path(folder.name)
        for name, data in (files or {}).items():
            (path / name).write_bytes(data)
        with self.turn:
            return Reply(result=self._run(job, path), folder=folder)

    def _run(self, job: Job, path: Path) -> JobResult:
        if isinstance(job, TraceJob):
            return frontend.run(job, path)
        if isinstance(job, TimeJob):
            return session.run(job, path, device=self.device)
        assert isinstance(job, CompileJob | RunJob)
        return launcher.run(job, path, device=self.device)

    def close(self) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class InProcess:
    """A :class:`kernelsmith.ports.Sandbox` without a wall."""

    library: str
    turn: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def start(self, role: str) -> Worker:
        return Worker(StandInDevice(library=self.library, compiles=native), self.turn)

    def describe(self) -> dict[str, Any]:
        return {"name": "none"}

    def close(self) -> None:
        pass
