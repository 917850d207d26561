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
import time
from collections.abc import Iterator
from pathlib import Path

from kernelsmith.active_clock import Countdown
from kernelsmith.errors import InfrastructureError

MODE = 0o666
WAIT_S = 3600.0
"""A job has minutes, and some runs may wait for the same GPU in turn; who holds it for an hour of
active time has been stopped, or hangs."""
LOOK_S = 0.02


# A service or a batch job may have a TMPDIR, and even a /tmp, of its own.
SHARED = (Path("/run/lock"), Path("/dev/shm"))


def place(uuid: str, folder: Path | None = None) -> Path:
    """The lock file of a GPU; the folder is one that all users of the machine share."""
    name = re.sub(r"[^A-Za-z0-9-]", "_", uuid)
    return (folder or shared_folder()) / f"kernelsmith-{name}.lock"


def shared_folder(places: tuple[Path, ...] = SHARED) -> Path:
    """The first of these that anybody may write to, whoever asks; else that for temporary files."""
    for path in places:
        with contextlib.suppress(OSError):
            if path.stat().st_mode & 0o1777 == 0o1777:
                return path
    return Path(tempfile.gettempdir())


@contextlib.contextmanager
def held(
    uuid: str, *, alone: bool, folder: Path | None = None, wait_s: float = WAIT_S
) -> Iterator[None]:
    """Holds a GPU's lock, waiting for it while others use the GPU.

    Args:
        alone: nobody else may hold it; otherwise only nobody may hold it alone.

    Raises:
        InfrastructureError: the file cannot be made, or something else is in its place, or others
            have held the lock for longer than any job may last.
    """
    path = place(uuid, folder)
    try:
        descriptor = _opened(path)
    except OSError as error:
        raise InfrastructureError(
            f"the lock of GPU {uuid} cannot be opened: {path}: {error.strerror}",
            hint="remove the file, or let all users of the GPU write to its folder",
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InfrastructureError(f"the lock of GPU {uuid} is no plain file: {path}")
        # The mask of this process must not shut out other users.
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, MODE)
        _wait(descriptor, uuid, path, alone, Countdown(left_s=wait_s))
        yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int, uuid: str, path: Path, alone: bool, left: Countdown) -> None:
    how = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB
    while True:
        try:
            fcntl.flock(descriptor, how)
            return
        except BlockingIOError:
            slice_s = left.slice_s()
        if not slice_s:
            raise InfrastructureError(
                f"GPU {uuid} has been held by another kernelsmith for too long: {path}",
                hint=f"`fuser -v {path}` names the process; end it, or let it go on",
            )
        time.sleep(min(slice_s, LOOK_S))


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
