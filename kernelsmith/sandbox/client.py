"""The host's side of a worker: jobs out, validated answers in."""

import contextlib
import itertools
import json
import os
import pickle
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelsmith.errors import SandboxError
from kernelsmith.model import Job, JobResult, TraceJob
from kernelsmith.sandbox.answers import Ending, ending_of, result_of
from kernelsmith.sandbox.spool import make_folder, read_file, write_file

JOB = "job.pkl"
RESULT = "result.json"
PROGRESS = "progress"
ERRORS = "errors.txt"
START_TIMEOUT_S = 120.0
# The template itself enforces a job's limit; the host only notices that the template hangs.
GRACE_S = 30.0
MAX_LINE_BYTES = 1 << 16
MAX_TEXT_BYTES = 1 << 16
MAX_LOG_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a sandbox starts a template."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    working_folder: Path


@dataclass(slots=True, kw_only=True)
class Process:
    """A template that was started; ``ready`` is what it said of itself, once it has."""

    popen: subprocess.Popen[bytes]
    pending: bytes = b""
    ready: dict[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class SpoolWorker:
    """A template behind a wall, spoken to over a spool folder and two pipes.

    The template is started at once and waited for at the first job, so several start in parallel.
    One job at a time; a dead template is an error once and started anew for the next job.
    """

    role: str
    folder: Path
    command: Command
    starter: ThreadPoolExecutor
    process: Process | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
    turn: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    def submit(self, job: Job, files: Mapping[str, bytes] | None = None) -> "SpoolReply":
        """Runs one job; see :class:`kernelsmith.ports.Worker`.

        Raises:
            SandboxError: the template did not start, died or hung; the worker is closed.
            StorageError: the spool is full.
        """
        with self.turn:
            if self.closed:
                raise SandboxError(f"the {self.role} worker is closed")
            process = self.started()
            name = f"{next(self.numbers)}"
            path = self.folder / name
            make_folder(path)
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            reply: SpoolReply | None = None
            try:
                for file, data in {**(files or {}), JOB: pickle.dumps(job)}.items():
                    write_file(folder, file, data)
                ending = self._run(process, name, job.timeout_s)
                answer = _answer_of(job, folder)
                try:
                    result = result_of(job, ending, answer, _text(folder, PROGRESS))
                except SandboxError as error:
                    raise _with_last_line(error, _text(folder, ERRORS)) from None
                reply = SpoolReply(result=result, seconds=ending.seconds, path=path, folder=folder)
                return reply
            finally:
                if reply is None:
                    os.close(folder)
                    shutil.rmtree(path, ignore_errors=True)

    def started(self) -> Process:
        """The living template, ready for jobs; starts one if need be.

        Raises:
            SandboxError: it does not start.
        """
        if self.process is None:
            self.launch()
        process = self.process
        assert process is not None
        if process.ready is None:
            process.ready = self._answer(process, START_TIMEOUT_S, "start")
        return process

    def launch(self) -> None:
        """Starts a template without waiting for it.

        The wall dies with the thread that started it, so a thread of the sandbox does it: the
        caller's may end before the worker's use does.
        """
        self.process = Process(popen=self.starter.submit(self._popen).result())

    def close(self) -> None:
        """Ends the template and removes its folder. Closing twice is harmless."""
        with self.turn:
            if not self.closed:
                self.closed = True
                self._end()
                shutil.rmtree(self.folder, ignore_errors=True)

    def _popen(self) -> subprocess.Popen[bytes]:
        with (self.folder.parent / f"{self.folder.name}.log").open("wb") as log:
            return subprocess.Popen(
                self.command.arguments,
                env=dict(self.command.environment),
                cwd=self.command.working_folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                close_fds=True,
                # Not in the terminal's process group: Ctrl-C is the host's to handle.
                start_new_session=True,
            )

    def _run(self, process: Process, name: str, timeout_s: float) -> Ending:
        stdin = process.popen.stdin
        assert stdin is not None
        try:
            stdin.write(name.encode() + b"\n")
            stdin.flush()
        except OSError:
            raise self._died("a job") from None
        said: dict[str, Any] = {}
        try:
            said = self._answer(process, timeout_s + GRACE_S, f"job {name}")
        finally:
            # Interrupted while waiting (Ctrl-C): its late answer must not meet the next job.
            if said.get("job") != name:
                self._end()
        ending = ending_of(said)
        if said.get("job") != name or process.pending or ending is None:
            raise self._died(f"job {name}")
        return ending

    def _answer(self, process: Process, timeout_s: float, what: str) -> dict[str, Any]:
        """The template's next line. Only the template writes here: children have no descriptor."""
        stdout = process.popen.stdout
        assert stdout is not None
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        while b"\n" not in process.pending:
            left = deadline - time.monotonic()
            readable = poll.poll(max(left, 0) * 1000)
            data = os.read(stdout.fileno(), MAX_LINE_BYTES) if readable else b""
            if not data or len(process.pending) > MAX_LINE_BYTES:
                raise self._died(what)
            process.pending += data
        line, process.pending = process.pending.split(b"\n", 1)
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise self._died(what)
        return said

    def _died(self, what: str) -> SandboxError:
        self._end()
        log = self.folder.parent / f"{self.folder.name}.log"
        with contextlib.suppress(OSError):
            lines = log.read_bytes()[-MAX_LOG_BYTES:].decode("utf-8", "replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "")
            if last:
                return SandboxError(f"the {self.role} worker died at {what}: {last.strip()[:300]}")
        return SandboxError(f"the {self.role} worker died or hung at {what}")

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        for pipe in (process.popen.stdin, process.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.popen.kill()
        process.popen.wait()


@dataclass(slots=True, kw_only=True)
class SpoolReply:
    """A :class:`kernelsmith.ports.Reply`; ``seconds`` is how long the job's process lived."""

    result: JobResult
    seconds: float
    path: Path
    folder: int

    def read(self, name: str, offset: int = 0, nbytes: int | None = None) -> bytes:
        """Bytes of a file that the job left.

        Raises:
            SandboxError: missing, a link, no plain file, or shorter than asked for.
        """
        try:
            return read_file(self.folder, name, offset=offset, nbytes=nbytes)
        except FileNotFoundError:
            raise SandboxError(f"the worker left no file {name}") from None

    def close(self) -> None:
        """Removes the job's folder. Closing twice is harmless."""
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1
            shutil.rmtree(self.path, ignore_errors=True)


def _answer_of(job: Job, folder: int) -> bytes | None:
    """``result.json``; what a front end left in its stead counts as an answer that is not valid."""
    try:
        return read_file(folder, RESULT)
    except FileNotFoundError:
        return None
    except SandboxError:
        if isinstance(job, TraceJob):
            return b""
        raise


def _text(folder: int, name: str) -> str:
    try:
        text = read_file(folder, name, max_bytes=MAX_TEXT_BYTES)
    except (FileNotFoundError, SandboxError):
        return ""
    return text.decode("utf-8", "replace").strip("\0 \n")


def _with_last_line(error: SandboxError, printed: str) -> SandboxError:
    """Adds what the worker printed last, most often the exception it died of."""
    last = printed.rsplit("\n", 1)[-1].strip()[:300]
    return SandboxError(f"{error.message}: {last}", hint=error.hint) if last else error
