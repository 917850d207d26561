"""The host's side of a worker: jobs out, validated answers in."""

import itertools
import json
import logging
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelsmith.active_clock import Countdown
from kernelsmith.errors import SandboxError, WorkerDeathError
from kernelsmith.model import Job, JobResult, TraceJob
from kernelsmith.sandbox.answers import (
    MAX_NAME_CHARS,
    Ending,
    ending_of,
    one_line,
    result_of,
)
from kernelsmith.sandbox.removal import remove_tree
from kernelsmith.sandbox.spool import make_folder, read_file, require_room, write_file

JOB = "job.pkl"
RESULT = "result.json"
PROGRESS = "progress"
ERRORS = "errors.txt"
START_TIMEOUT_S = 120.0
# The template itself enforces a job's limit; the host only notices that the template hangs.
GRACE_S = 30.0
MAX_TEXT_BYTES = 1 << 16
_LOG = logging.getLogger(__name__)


class Line(Protocol):
    """How the host speaks to a template that was started: names of jobs there, JSON lines back."""

    def send(self, name: str) -> None:
        """Names a job. Raises OSError: the template is gone."""

    def receive(self, left: Countdown) -> bytes | None:
        """Its next line. None: it is gone, was silent for so long, or said more than was asked."""

    def ended(self) -> bool:
        """Whether the template is gone, as far as can be told without waiting."""

    def last_words(self) -> str:
        """What it wrote last on standard error, most often the exception it died of."""

    def end(self) -> None:
        """Ends it with all that it started."""


@dataclass(slots=True, kw_only=True)
class SpoolWorker:
    """A template behind a wall, spoken to over a spool folder and a line.

    The template is started at once and waited for at the first job, so several start in parallel.
    One job at a time; a template that died at a job is an error once, one that died between jobs is
    none: nothing was lost with it. Either is started anew.
    ``start`` starts one; ``owner`` is the user inside the wall where that is another than the
    host's; ``ready`` is what the template said of itself, once it has.
    """

    role: str
    folder: Path
    start: Callable[[], Line]
    clock: Callable[[], float] = time.monotonic
    owner: int | None = None
    line: Line | None = None
    ready: dict[str, Any] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
    turn: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    def submit(self, job: Job, files: Mapping[str, bytes] | None = None) -> "SpoolReply":
        """Runs one job; see :class:`kernelsmith.ports.Worker`.

        Raises:
            WorkerDeathError: template or job died or hung, and it is not known why; the next job
                gets a new template.
            SandboxError: the template did not start; the worker is closed.
            StorageError: the spool is full, before or after the job.
        """
        with self.turn:
            if self.closed:
                raise SandboxError(f"the {self.role} worker is closed")
            line = self.started()
            name = f"{next(self.numbers)}"
            path = self.folder / name
            make_folder(path)
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            reply: SpoolReply | None = None
            try:
                for file, data in {**(files or {}), JOB: pickle.dumps(job)}.items():
                    write_file(folder, file, data, owner=self.owner)
                if self.owner is not None:
                    os.fchown(folder, self.owner, -1)
                try:
                    ending = self._run(line, name, job.timeout_s)
                except WorkerDeathError as error:
                    require_room(folder)
                    error.where = one_line(_text(folder, PROGRESS))[:MAX_NAME_CHARS]
                    raise
                answer = _answer_of(job, folder)
                try:
                    result = result_of(job, ending, answer, _text(folder, PROGRESS))
                except SandboxError as error:
                    require_room(folder)
                    raise _with_last_line(error, _text(folder, ERRORS)) from None
                if result.failure is not None:
                    require_room(folder)
                reply = SpoolReply(result=result, seconds=ending.seconds, path=path, folder=folder)
                return reply
            finally:
                if reply is None:
                    os.close(folder)
                    remove_tree(path)

    def started(self) -> Line:
        """The living template, ready for jobs; starts one if need be.

        Raises:
            SandboxError: it does not start.
        """
        if self.line is not None and self.ready is not None and self.line.ended():
            self._end()
        if self.line is None:
            self.launch()
        line = self.line
        assert line is not None
        if self.ready is None:
            self.ready = self._answer(line, START_TIMEOUT_S, "start")
        return line

    def launch(self) -> None:
        """Starts a template without waiting for it."""
        self.line = self.start()

    def renew(self) -> None:
        """Ends the template; the next job starts another."""
        with self.turn:
            self._end()

    def close(self) -> None:
        """Ends the template and removes its folder. Closing twice is harmless."""
        with self.turn:
            if not self.closed:
                self.closed = True
                self._end()
                remove_tree(self.folder)

    def _run(self, line: Line, name: str, timeout_s: float) -> Ending:
        try:
            line.send(name)
        except OSError:
            raise self._died("a job", WorkerDeathError) from None
        said: dict[str, Any] = {}
        try:
            said = self._answer(line, timeout_s + GRACE_S, f"job {name}", WorkerDeathError)
        finally:
            # Interrupted while waiting (Ctrl-C): its late answer must not meet the next job.
            if said.get("job") != name:
                self._end()
        ending = ending_of(said)
        if said.get("job") != name or ending is None:
            raise self._died(f"job {name}", WorkerDeathError)
        return ending

    def _answer(
        self, line: Line, timeout_s: float, what: str, kind: type[SandboxError] = SandboxError
    ) -> dict[str, Any]:
        """What the template says next, within so many active seconds."""
        text = line.receive(Countdown(left_s=timeout_s, clock=self.clock))
        try:
            said = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise self._died(what, kind)
        return said

    def _died(self, what: str, kind: type[SandboxError] = SandboxError) -> SandboxError:
        line = self.line
        self._end()
        last = one_line(line.last_words())[:300] if line is not None else ""
        words = f"died at {what}: {last}" if last else f"died or hung at {what}"
        error = kind(f"the {self.role} worker {words}")
        facts = {"role": self.role}
        _LOG.warning(error.message, extra={"event": "worker_died", "facts": facts})
        return error

    def _end(self) -> None:
        line, self.line, self.ready = self.line, None, None
        if line is not None:
            line.end()


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
            remove_tree(self.path)


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
    last = one_line(printed.rsplit("\n", 1)[-1])[:300]
    if not last:
        return error
    told = f"{error.message}: {last}"
    if isinstance(error, WorkerDeathError):
        return WorkerDeathError(told, where=error.where, hint=error.hint)
    return SandboxError(told, hint=error.hint)
