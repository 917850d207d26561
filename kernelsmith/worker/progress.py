"""What a job is at, in a file that outlives the process: whom to blame when it dies or hangs."""

import os
from pathlib import Path
from types import TracebackType

FILE = "progress"
MAX_BYTES = 256


class Progress:
    """Writes the key of the call, class or run at hand; one system call a mark. ``last`` is what
    was marked last.

    The file is opened once, so that a process whose wall forbids opening files for writing can
    still mark.
    """

    def __init__(self, folder: Path) -> None:
        self.descriptor = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.last = ""

    def mark(self, key: str) -> None:
        self.last = key
        text = key.encode("utf-8", "replace")[:MAX_BYTES].ljust(MAX_BYTES)
        os.pwrite(self.descriptor, text, 0)

    def close(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
