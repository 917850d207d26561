"""A template as a child of the host: names of jobs over its standard input, answers over its
standard output. What bubblewrap and the process wall use."""

import contextlib
import os
import select
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.active_clock import Countdown
from kernelsmith.errors import SandboxError

START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 20.0
MAX_LINE_BYTES = 1 << 16
MAX_LOG_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a sandbox starts a template; ``log`` is where its standard error goes."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    working_folder: Path
    log: Path


@dataclass(slots=True, kw_only=True)
class Pipes:
    """A :class:`kernelsmith.sandbox.client.Line` to a process that was started."""

    popen: subprocess.Popen[bytes]
    log: Path
    pending: bytes = b""

    def send(self, name: str) -> None:
        stdin = self.popen.stdin
        assert stdin is not None
        stdin.write(name.encode() + b"\n")
        stdin.flush()

    def receive(self, left: Countdown) -> bytes | None:
        """Only the template writes here: children have no descriptor."""
        stdout = self.popen.stdout
        assert stdout is not None
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        while b"\n" not in self.pending:
            slice_s = left.slice_s()
            readable = poll.poll(slice_s * 1000)
            if not readable and slice_s:
                continue
            data = os.read(stdout.fileno(), MAX_LINE_BYTES) if readable else b""
            if not data or len(self.pending) > MAX_LINE_BYTES:
                return None
            self.pending += data
        line, self.pending = self.pending.split(b"\n", 1)
        return None if self.pending else line

    def root(self) -> int:
        """Its first process."""
        return self.popen.pid

    def ended(self) -> bool:
        return self.popen.poll() is not None

    def last_words(self) -> str:
        try:
            lines = self.log.read_bytes()[-MAX_LOG_BYTES:].decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line for line in reversed(lines) if line.strip()), "")

    def end(self) -> None:
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.popen.kill()
        # What the kernel cannot end (a driver that hangs) is left behind, not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(END_TIMEOUT_S)


def start(command: Command, starter: ThreadPoolExecutor) -> Pipes:
    """Starts a template without waiting until it is ready.

    The wall dies with the thread that started it, so a thread of the sandbox does it: the caller's
    may end before the worker's use does.

    Raises:
        SandboxError: it could not be started in time.
    """
    starting = starter.submit(_popen, command)
    try:
        return Pipes(popen=starting.result(START_TIMEOUT_S), log=command.log)
    except TimeoutError:
        raise SandboxError("a worker could not be started: no answer") from None


def _popen(command: Command) -> subprocess.Popen[bytes]:
    with command.log.open("wb") as log:
        return subprocess.Popen(
            command.arguments,
            env=dict(command.environment),
            cwd=command.working_folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            close_fds=True,
            # Not in the terminal's process group: Ctrl-C is the host's to take.
            start_new_session=True,
        )
