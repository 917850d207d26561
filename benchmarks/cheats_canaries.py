"""Canaries on the host: things that a cheat would touch if it got out of its wall.

A file with a secret, a file to be changed, a folder to be written to, a variable in the
environment, a process to be killed, a port that counts who knocks. They have the fixed names that
the cheats know; after each judgement :meth:`Canaries.touched` says what happened to them.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType

FOLDER = Path("/var/tmp/kernelsmith-canary")
PROCESS = "kernelsmith-canary"
VARIABLE = "KERNELSMITH_CANARY"
PORT = 47811
VICTIM = "untouched\n"


class Canaries:
    """A context: the canaries are there while it lasts. ``port`` 0 takes any."""

    __slots__ = ("_listener", "_process", "_secret", "folder", "port")

    def __init__(self, folder: Path = FOLDER, port: int = PORT) -> None:
        self.folder = folder
        self.port = port

    def __enter__(self) -> "Canaries":
        self._secret = f"canary-{secrets.token_hex(12)}"
        # First, so that a second runner fails before it takes this one's folder away.
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o777)
        os.environ[VARIABLE] = self._secret
        self._process: subprocess.Popen[bytes] | None = None
        self.set_out()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self._end_process()
        os.environ.pop(VARIABLE, None)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def process(self) -> "subprocess.Popen[bytes] | None":
        """The process that somebody might end."""
        return self._process

    def set_out(self) -> None:
        """Puts back whatever is not as it should be."""
        for path in self.folder.iterdir():
            path.unlink()
        (self.folder / "secret").write_text(self._secret)
        (self.folder / "victim").write_text(VICTIM)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._listener.accept()[0].close()
        if self._process is None or self._process.poll() is not None:
            self._end_process()
            code = "import signal; signal.pause()"
            self._process = subprocess.Popen([sys.executable, "-c", code, PROCESS])

    def touched(self, said: str) -> tuple[str, ...]:
        """What was done to the canaries since they were set out.

        Args:
            said: all that came out of the wall as text.
        """
        found = []
        if self._secret in said:
            found.append("the secret came out")
        if sorted(path.name for path in self.folder.iterdir()) != ["secret", "victim"]:
            found.append("a file was made or removed")
        elif (self.folder / "victim").read_text() != VICTIM:
            found.append("a file was changed")
        if self._process is None or self._process.poll() is not None:
            found.append("a process was killed")
        with contextlib.suppress(BlockingIOError):
            self._listener.accept()[0].close()
            found.append("somebody connected")
        return tuple(found)

    def _end_process(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()
