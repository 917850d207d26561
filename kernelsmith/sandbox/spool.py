"""The folder through which jobs and answers pass, and how the host reads what a worker wrote.

A worker is not trusted: the host opens what it wrote relative to a descriptor of the folder that
it made itself, never follows a link, and refuses whatever is no plain file of its own.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.errors import SandboxError, StorageError
from kernelsmith.sandbox.removal import remove_tree

SHARED_MEMORY = Path("/dev/shm")
ROOMY_BYTES = 2 << 30
PREFIX = "kernelsmith-spool-"
# A spool gets its name once it is locked, so that one without a lock is a dead host's at any age;
# before that only its age can tell.
UNNAMED = "kernelsmith-unnamed-spool-"
SWEEP_AGE_S = 60.0
MAX_ANSWER_BYTES = 256 << 20
FULL_BYTES = 1 << 20
# More than a job of ours lays down and less than there is room for when a candidate begins.
JOB_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """A private folder, locked while this host process lives."""

    path: Path
    lock: int

    def folder(self, name: str, owner: int | None = None) -> Path:
        """A new folder in the spool, for ``owner`` if not for this user."""
        path = self.path / name
        make_folder(path)
        if owner is not None:
            os.chown(path, owner, -1)
        return path

    def close(self) -> None:
        remove_tree(self.path)
        with contextlib.suppress(OSError):
            os.close(self.lock)


def open_spool(parents: tuple[Path, ...] | None = None) -> Spool:
    """Makes a spool, in memory where there is room, and sweeps those of dead hosts.

    Args:
        parents: where to make it, best first; by default /dev/shm if roomy, then the folder for
            temporary files.

    Raises:
        StorageError: no parent can be written to.
    """
    problem = ""
    for parent in parents if parents is not None else default_parents():
        try:
            sweep(parent)
            made = Path(tempfile.mkdtemp(prefix=f"{UNNAMED}{os.getpid()}-", dir=parent))
            lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = parent / made.name.replace(UNNAMED, PREFIX)
            made.rename(path)
            return Spool(path=path, lock=lock)
        except OSError as error:
            problem = f"{parent}: {error.strerror or error}"
    raise StorageError(
        f"no place for the spool ({problem})", hint="set TMPDIR to a folder with free space"
    )


def default_parents() -> tuple[Path, ...]:
    """Where a spool may lie, best first."""
    temporary = Path(tempfile.gettempdir())
    try:
        room = shutil.disk_usage(SHARED_MEMORY).free
    except OSError:
        return (temporary,)
    return (SHARED_MEMORY, temporary) if room >= ROOMY_BYTES else (temporary,)


def sweep(parent: Path) -> list[Path]:
    """Removes spools of this user whose host process is dead: nobody holds their lock.

    A lock, not the process number in the name, decides: containers share /dev/shm and not
    process numbers.
    """
    removed = []
    for path in (*parent.glob(f"{PREFIX}*"), *parent.glob(f"{UNNAMED}*")):
        with contextlib.suppress(OSError):
            found = path.lstat()
            unnamed = path.name.startswith(UNNAMED)
            young = unnamed and time.time() - found.st_mtime < SWEEP_AGE_S
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or young:
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path)
                removed.append(path)
            finally:
                os.close(lock)
    return removed


def make_folder(path: Path) -> None:
    """Raises StorageError if the disk will not have it."""
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise StorageError(f"cannot make {path}: {error.strerror}") from error


def write_file(folder: int, name: str, data: bytes, *, owner: int | None = None) -> None:
    """Writes a new file in the folder of this descriptor, for ``owner`` if not for this user.

    Raises:
        StorageError: the disk is full, or will not have it.
        SandboxError: the name is not a plain file name.
    """
    check_name(name)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            if owner is not None:
                os.fchown(file.fileno(), owner, -1)
    except OSError as error:
        raise StorageError(
            f"cannot write {name} into the spool: {error.strerror}",
            hint="free space in /dev/shm or TMPDIR",
        ) from error


def require_room(folder: int) -> None:
    """Tells a failed job on a full disk from a failed candidate: what could not be written there
    is the disk's fault, unless the job itself has filled it.

    Raises:
        StorageError: the disk of this descriptor's folder has no room left.
    """
    found = os.fstatvfs(folder)
    full = found.f_bavail * found.f_frsize < FULL_BYTES
    full = full or (found.f_files > 0 and found.f_favail == 0)
    if full and _bytes_in(folder) < JOB_BYTES:
        raise StorageError(
            "the spool's disk is full: a worker could not write its answer",
            hint="free space in /dev/shm or TMPDIR; the candidate is judged again after `resume`",
        )


def read_file(
    folder: int,
    name: str,
    *,
    offset: int = 0,
    nbytes: int | None = None,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> bytes:
    """Reads a file that a worker wrote.

    Args:
        folder: descriptor of the job's folder.
        name: plain file name.
        offset: first byte.
        nbytes: how many; by default to the end.
        max_bytes: refuses to read more.

    Raises:
        FileNotFoundError: there is none.
        SandboxError: it is a link, has a second name, is no plain file, is too large or too
            short.
    """
    check_name(name)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SandboxError(f"{name} in the spool is not a plain file: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise SandboxError(f"{name} in the spool is not a plain file with one name")
        wanted = found.st_size - offset if nbytes is None else nbytes
        if not 0 <= wanted <= max_bytes or offset < 0:
            raise SandboxError(f"{name} in the spool: {wanted} bytes wanted, limit {max_bytes}")
        if offset + wanted > found.st_size:
            raise SandboxError(
                f"{name} in the spool has {found.st_size} bytes, {offset + wanted} wanted"
            )
        data = _read_all(descriptor, offset, wanted)
    finally:
        os.close(descriptor)
    if len(data) != wanted:
        raise SandboxError(
            f"{name} in the spool has {found.st_size} bytes, {offset + wanted} wanted"
        )
    return data


def check_name(name: str) -> None:
    """Raises SandboxError for what is not a plain file name."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(name) > 255:
        raise SandboxError(f"{name!r} is not a plain file name")


def _bytes_in(folder: int) -> int:
    """What a job's files take, links not followed; it stops counting at ``JOB_BYTES``."""
    total, waiting = 0, ["."]
    while waiting and total < JOB_BYTES:
        place = waiting.pop()
        with contextlib.suppress(OSError):  # gone meanwhile, or nested deeper than a path is long
            at = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                with os.scandir(at) as entries:
                    for entry in entries:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(f"{place}/{entry.name}")
            finally:
                os.close(at)
    return total


def _read_all(descriptor: int, offset: int, wanted: int) -> bytes:
    parts = []
    while wanted:
        part = os.pread(descriptor, min(wanted, 1 << 30), offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        wanted -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
