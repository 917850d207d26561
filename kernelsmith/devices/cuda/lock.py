"""Who may use a GPU now: a file lock for each GPU, held by whoever asks for work on it.

Timing asks for the GPU alone, everything else shares it, so that no kernelsmith process of this
machine disturbs another's timing session. Processes of others are not kept out; what NVML says of
them is in the record. The system frees a lock when its holder ends.
"""

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernelsmith.errors import InfrastructureError

MODE = 0o666


def place(uuid: str, folder: Path | None = None) -> Path:
    """The lock file of a GPU; the folder is one that all users of the machine share."""
    name = re.sub(r"[^A-Za-z0-9-]", "_", uuid)
    return (folder or Path(tempfile.gettempdir())) / f"kernelsmith-{name}.lock"


@contextlib.contextmanager
def held(uuid: str, *, alone: bool, folder: Path | None = None) -> Iterator[None]:
    """Holds a GPU's lock, waiting for it as long as it takes.

    Args:
        alone: nobody else may hold it; otherwise only nobody may hold it alone.

    Raises:
        InfrastructureError: the file cannot be made, or something else is in its place.
    """
    path = place(uuid, folder)
    try:
        descriptor = _opened(path)
    except OSError as error:
        raise InfrastructureError(
            f"the lock of GPU {uuid} cannot be opened: {path}: {error.strerror}",
            hint="remove the file, or set TMPDIR to a folder that all users of the GPU can write",
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InfrastructureError(f"the lock of GPU {uuid} is no plain file: {path}")
        # The mask of this process must not shut out other users.
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, MODE)
        fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Opens the file, making it if need be.

    What is there is opened without the wish to make it: in a folder like /tmp Linux refuses that
    to all but the file's owner (``fs.protected_regular``).
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError:  # another process was quicker
        return os.open(path, flags)
