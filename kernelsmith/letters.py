"""Letters: short messages as files of a folder that host and supervisor both see.

They are how the host speaks to a container. Nothing is attached to it, so it may be frozen, or its
memory saved, at any moment. A letter appears by rename: whoever sees it sees all of it. What a
container sends is sealed with a key that only the host and the supervisor know, since a job in the
container runs as the same user: it could at most spoil a letter, never write one.

Each side holds a lock for as long as it lives; one that can be taken says that the other is gone.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import hmac
import os
import select
from dataclasses import dataclass, field
from pathlib import Path

# In the folder of orders, which the container cannot write: the host's.
KEY, HOST = "key", "host"
ORDER = ".order"
# In the folder of answers: the supervisor's.
ALIVE, READY, ENDED = "alive", "ready", "ended"
ANSWER = ".answer"
KEY_BYTES = 32
MAX_LETTER_BYTES = 1 << 17
# A runtime that does not pass the host's changes on (gVisor) leaves a watch deaf; then we look.
DEAF_AFTER = 3
DEAF_STEP_S = 0.002
IN_CREATE, IN_MOVED_TO, IN_NONBLOCK, IN_CLOEXEC = 0x100, 0x80, 0o4000, 0o2000000


def seal(key: bytes, name: str, text: bytes) -> bytes:
    """A letter's bytes: its seal, which also says what it answers, and its text."""
    return _mark(key, name, text) + b" " + text


def unseal(key: bytes, name: str, letter: bytes) -> bytes | None:
    """The text, or None if nobody who has the key wrote it under this name."""
    mark, _, text = letter.partition(b" ")
    return text if hmac.compare_digest(mark, _mark(key, name, text)) else None


def post(folder: int, name: str, letter: bytes) -> None:
    """Puts a letter into the folder of this descriptor, whole or not at all.

    Raises:
        OSError: the disk will not have it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    # A bare write takes on a full disk a part, and says nothing.
    with open(os.open(f"{name}.new", flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(letter)
    os.rename(f"{name}.new", name, src_dir_fd=folder, dst_dir_fd=folder)


def hold(path: Path) -> int:
    """Makes a file and holds its lock; the descriptor, to be kept for as long as one lives."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_held(descriptor: int) -> bool:
    """Whether someone else holds the lock of this open file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """Waits until something arrives in a folder. Where the system can tell (inotify) it wakes at
    once; where it cannot, or proves deaf, it looks every few milliseconds."""

    watch: int
    missed: int = 0
    poll: select.poll = field(default_factory=select.poll)

    def wait(self, limit_s: float) -> bool:
        """Waits so long at most. Returns whether something was told of, here or by another
        descriptor of ``poll``."""
        if self.watch < 0 or self.missed >= DEAF_AFTER:
            limit_s = min(limit_s, DEAF_STEP_S)
        return bool(self.poll.poll(limit_s * 1000)) | self.told()

    def told(self) -> bool:
        """Forgets what was told of; whether anything was."""
        if self.watch < 0:
            return False
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self.watch, 1 << 16))
        return False

    def found(self, told: bool) -> None:
        """Something was there when we looked; ``told``: and it had been told of."""
        self.missed = 0 if told or self.told() else self.missed + 1

    def close(self) -> None:
        if self.watch >= 0:
            os.close(self.watch)
            self.watch = -1


def arrivals(folder: Path) -> Arrivals:
    """Watches a folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = int(libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC))
    waiting = Arrivals(watch=watch)
    if watch >= 0:
        if libc.inotify_add_watch(watch, os.fsencode(folder), IN_CREATE | IN_MOVED_TO) < 0:
            waiting.close()
        else:
            waiting.poll.register(watch, select.POLLIN)
    return waiting


def _mark(key: bytes, name: str, text: bytes) -> bytes:
    said = hashlib.blake2b(name.encode() + b"\0" + text, key=key, digest_size=32)
    return said.hexdigest().encode()
