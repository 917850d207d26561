"""Faults at system calls: a program's writes, syncs, renames and messages, counted and struck.

Nothing in what is tested knows of it. A seccomp filter that the program starts under hands each
call of interest to this process (``SECCOMP_RET_USER_NOTIF``), which lets it go on, makes it fail,
holds it, cuts a write in half or kills its caller before it is made. Between two such calls nothing
outside the process changes, so that to kill before each of them is to kill at every moment that
differs. x86-64 Linux. Source: seccomp(2), seccomp_unotify(2).
"""

import ctypes
import errno
import fcntl
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NoReturn

from kernelsmith.worker.wall_seccomp import (
    ALLOW,
    ARCH_AT,
    AUDIT_ARCH_X86_64,
    JUMP_EQUAL,
    LOAD,
    NR_AT,
    RETURN,
)

SECCOMP, PIDFD_GETFD = 317, 438
SET_MODE_FILTER, NEW_LISTENER, WAIT_KILLABLE = 1, 1 << 3, 1 << 5
USER_NOTIF, CONTINUE = 0x7FC00000, 1
RECEIVE, SEND = 0xC0502100, 0xC0182101
NOTIFICATION, RESPONSE = struct.Struct("<QIIiIQ6Q"), struct.Struct("<QqiI")
CALLS = {
    1: "write",
    18: "pwrite64",
    20: "writev",
    296: "pwritev",
    44: "sendto",
    46: "sendmsg",
    74: "fsync",
    75: "fdatasync",
    77: "ftruncate",
    285: "fallocate",
    82: "rename",
    264: "renameat",
    316: "renameat2",
    83: "mkdir",
    258: "mkdirat",
    84: "rmdir",
    87: "unlink",
    263: "unlinkat",
}
NAMES_A_PATH = {82: 0, 83: 0, 84: 0, 87: 0, 264: 1, 316: 1, 258: 1, 263: 1}
"""Which argument is the path; the others' first argument is a descriptor."""
Fault = Literal["kill", "torn", "power", "hold", "ENOSPC", "EIO", "EROFS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A call about to be made. ``target``: the file, pipe or socket; ``nbytes``: of a write;
    ``thread``: who makes it."""

    call: str
    target: str
    nbytes: int
    thread: int
    descriptor: int
    address: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A program under the filter. ``listener`` is where its calls come in."""

    pid: int
    listener: int


def forked(work: Callable[[], int], ready: Callable[[], None] = lambda: None) -> Watched:
    """Runs ``work`` in a fork of this process, under the filter; its return value is the status.

    Args:
        ready: called in the child before the filter stands, to redirect its streams.

    Raises:
        OSError: the kernel has no such filters.
    """
    go, start = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(work, ready, go)
    os.close(go)
    try:
        listener = _listener_of(pid)
    finally:
        os.write(start, b"g")
        os.close(start)
    return Watched(pid=pid, listener=listener)


def adopted(pid: int) -> Watched:
    """A process that was started as ``python faults.py PROGRAM ...`` and waits for a byte on its
    standard input before it becomes the program."""
    return Watched(pid=pid, listener=_listener_of(pid))


def points(watched: Watched) -> Iterator[tuple[Point, int]]:
    """Each call with the number to answer it by, until the program and all it started are gone.
    Every one must be answered by :func:`proceed` or :func:`strike`."""
    poll = select.poll()
    poll.register(watched.listener, select.POLLIN)
    while True:
        ((_, event),) = poll.poll()
        if not event & select.POLLIN:
            os.close(watched.listener)
            return
        buffer = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(watched.listener, RECEIVE, buffer)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue  # whoever called was killed meanwhile
            raise
        number, thread, _, call, _, _, *arguments = NOTIFICATION.unpack(buffer)
        yield _point(thread, call, arguments), number


def proceed(watched: Watched, number: int) -> None:
    """Lets the call be made."""
    _answer(watched, number, 0, 0, CONTINUE)


def strike(watched: Watched, point: Point, number: int, fault: Fault, hold_s: float = 0.5) -> None:
    """Places the fault at this call. "torn" writes half of what was to be written, then kills;
    "power" kills, and the caller makes of the disk what a power cut leaves."""
    if fault == "hold":
        time.sleep(hold_s)
        proceed(watched, number)
    elif fault in ("kill", "torn", "power"):
        if fault == "torn" and point.call in ("write", "pwrite64"):
            _write_half(point)
        os.kill(watched.pid, signal.SIGKILL)
    else:
        _answer(watched, number, 0, -getattr(errno, fault), 0)


def _become(work: Callable[[], int], ready: Callable[[], None], go: int) -> NoReturn:
    code = 70
    try:
        ready()
        _install()
        os.read(go, 1)
        code = work()
    finally:
        os._exit(code)


def process_of(point: Point) -> int:
    """The process whose thread makes the call; 0 if it is gone."""
    with suppress(OSError), open(f"/proc/{point.thread}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Tgid:"))
    return 0


def _install() -> None:
    """Puts the filter over this thread and all it starts."""
    head = [_op(LOAD, ARCH_AT), _op(JUMP_EQUAL, AUDIT_ARCH_X86_64, 1, 0), _op(RETURN, ALLOW)]
    code = [*head, _op(LOAD, NR_AT)]
    for number in CALLS:
        code += [_op(JUMP_EQUAL, number, 0, 1), _op(RETURN, USER_NOTIF)]
    text = b"".join([*code, _op(RETURN, ALLOW)])
    memory = ctypes.create_string_buffer(text, len(text))
    described = struct.pack("<HxxxxxxQ", len(text) // 8, ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "no_new_privs")
    flags = NEW_LISTENER | WAIT_KILLABLE
    if libc.syscall(SECCOMP, SET_MODE_FILTER, flags, described) < 0:
        raise OSError(ctypes.get_errno(), "seccomp filter with a listener")


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, true, false, value)


def _listener_of(pid: int) -> int:
    """The child's listener as a descriptor of this process: the child cannot send it, since what it
    sends would have to be answered first."""
    folder = f"/proc/{pid}/fd"
    while True:
        for name in os.listdir(folder):
            with suppress(FileNotFoundError):
                if os.readlink(f"{folder}/{name}") == "anon_inode:seccomp notify":
                    return _fetched(pid, int(name))
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise OSError(errno.ENOSYS, "this kernel has no filters that ask")
        time.sleep(0.001)


def _fetched(pid: int, descriptor: int) -> int:
    """Another process's descriptor as one of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        found = int(libc.syscall(PIDFD_GETFD, process, descriptor, 0))
    finally:
        os.close(process)
    if found < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return found


def _answer(watched: Watched, number: int, value: int, error: int, flags: int) -> None:
    response = bytearray(RESPONSE.pack(number, value, error, flags))
    try:
        fcntl.ioctl(watched.listener, SEND, response)
    except OSError as gone:
        if gone.errno != errno.ENOENT:  # it was killed meanwhile
            raise


def _point(thread: int, call: int, arguments: list[int]) -> Point:
    name = CALLS[call]
    descriptor = -1
    target = ""
    with suppress(OSError):
        if call in NAMES_A_PATH:
            target = _text_at(thread, arguments[NAMES_A_PATH[call]])
        else:
            descriptor = arguments[0]
            target = os.readlink(f"/proc/{thread}/fd/{descriptor}")
    return Point(
        call=name,
        target=target,
        nbytes=arguments[2] if name in ("write", "pwrite64", "sendto") else 0,
        thread=thread,
        descriptor=descriptor,
        address=arguments[1],
        offset=arguments[3] if name == "pwrite64" else -1,
    )


def _text_at(thread: int, address: int) -> str:
    """A path in the caller's memory."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(256).partition(b"\0")[0].decode("utf-8", "replace")


def written(point: Point, nbytes: int) -> bytes:
    """The first bytes of what a write is about to write."""
    with open(f"/proc/{point.thread}/mem", "rb", buffering=0) as memory:
        memory.seek(point.address)
        return memory.read(nbytes)


def _write_half(point: Point) -> None:
    half = written(point, point.nbytes // 2)
    file = _fetched(point.thread, point.descriptor)
    try:
        os.write(file, half) if point.offset < 0 else os.pwrite(file, half, point.offset)
    finally:
        os.close(file)


if __name__ == "__main__":
    _install()
    os.read(0, 1)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
