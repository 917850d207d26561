"""A system-call filter for the child that runs a job (x86-64 Linux, classic BPF).

It is the wall that does not depend on namespaces: what it forbids returns an error in the child,
whatever runs there. The rules by kind of job:

- every job: no sockets, tracing of or signals to other processes, mounts, namespaces, kernel
  modules, System V IPC, io_uring, links, change of owners, and no leaving the process group that
  a time-out kills;
- "trace": besides, no new process or program and no opening of a file for writing: its two files
  are open before;
- "run": no new process or program; "time": one program, no new process; "compile": both.
"""

import ctypes
import errno
import os
import platform
import struct
from typing import Literal

JobKind = Literal["trace", "compile", "run", "time"]

AUDIT_ARCH_X86_64 = 0xC000003E
X32_BIT = 0x40000000
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NR_AT, ARCH_AT, ARGS_AT = 0, 4, 16
CLONE_THREAD = 0x00010000
# O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND
WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000

# Numbers of the x86-64 table, by what they would allow.
SOCKETS = (41, 53)
OTHER_PROCESSES = (101, 310, 311, 312, 434, 438, 424, 440, 448, 200, 129, 297)
GROUPS = (109, 112)
MOUNTS = (155, 161, 165, 166, 272, 308, 428, 429, 430, 431, 432, 433, 442)
SYSTEM: tuple[int, ...] = (
    103,
    134,
    135,
    139,
    153,
    154,
    159,
    163,
    164,
    167,
    168,
    169,
    170,
    171,
    172,
    173,
    174,
)
SYSTEM += (175, 176, 179, 180, 212, 227, 246, 305, 313, 320, 443)
KERNEL_OBJECTS = (248, 249, 250, 298, 300, 303, 304, 319, 321, 323, 425, 426, 427, 447)
SHARED_MEMORY = (29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240)
LINKS_AND_OWNERS = (86, 88, 90, 91, 92, 93, 94, 133, 259, 260, 265, 266, 268, 452)
FORKS = (57, 58)
PROGRAMS = (59, 322)
FILES: tuple[int, ...] = (
    76,
    82,
    83,
    84,
    85,
    87,
    132,
    188,
    189,
    190,
    197,
    198,
    199,
    235,
    258,
    261,
    263,
    264,
)
FILES += (280, 316)
SCHEDULING = (141, 142, 144, 203, 251, 314)
CLONE, CLONE3, KILL_NR, TGKILL, PRLIMIT, OPEN, OPENAT, OPENAT2 = 56, 435, 62, 234, 302, 2, 257, 437


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def supported() -> bool:
    """Whether this machine has the system-call table that the filter is written for."""
    return platform.machine() == "x86_64"


def install(kind: JobKind) -> None:
    """Puts the filter over this thread and all it starts; nothing lifts it again.

    Raises:
        OSError: the kernel refuses.
    """
    code = program(kind, os.getpid())
    memory = ctypes.create_string_buffer(code, len(code))
    described = _Program(len(code) // 8, ctypes.cast(memory, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp filter")


def program(kind: JobKind, pid: int) -> bytes:
    """The BPF program for a job of this kind in process ``pid``."""
    denied = [*SOCKETS, *OTHER_PROCESSES, *GROUPS, *MOUNTS, *SYSTEM, *KERNEL_OBJECTS]
    denied += [*SHARED_MEMORY, *LINKS_AND_OWNERS]
    if kind == "trace":
        denied += [*FILES, *SCHEDULING]
    if kind != "compile":
        denied += FORKS
    if kind in ("trace", "run"):
        denied += PROGRAMS
    code = [
        _op(LOAD, ARCH_AT),
        _op(JUMP_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        _op(RETURN, KILL),
        _op(LOAD, NR_AT),
        _op(JUMP_GREATER_EQUAL, X32_BIT, 0, 1),
        _op(RETURN, ERRNO | errno.ENOSYS),
    ]
    for number in sorted(set(denied)):
        code += _deny(number)
    code += [
        *_deny(CLONE3, errno.ENOSYS),  # libc then falls back to clone, whose flags are readable
        *_deny(OPENAT2, errno.ENOSYS),
        *_only_own(KILL_NR, pid),
        *_only_own(TGKILL, pid),
        *_only_own(PRLIMIT, 0),
    ]
    if kind != "compile":
        code += _need_flag(CLONE, 0, CLONE_THREAD)
    if kind == "trace":
        code += [*_no_flag(OPEN, 1, WRITING), *_no_flag(OPENAT, 2, WRITING)]
    return b"".join([*code, _op(RETURN, ALLOW)])


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, true, false, value)


def _deny(number: int, error: int = errno.EPERM) -> list[bytes]:
    return [_op(JUMP_EQUAL, number, 0, 1), _op(RETURN, ERRNO | error)]


def _only_own(number: int, value: int) -> list[bytes]:
    """Allows the call only with ``value`` as its first argument (low 32 bits: a pid)."""
    return [
        _op(JUMP_EQUAL, number, 0, 4),
        _op(LOAD, ARGS_AT),
        _op(JUMP_EQUAL, value, 1, 0),
        _op(RETURN, ERRNO | errno.EPERM),
        _op(LOAD, NR_AT),
    ]


def _need_flag(number: int, argument: int, flag: int) -> list[bytes]:
    return [
        _op(JUMP_EQUAL, number, 0, 4),
        _op(LOAD, ARGS_AT + 8 * argument),
        _op(JUMP_SET, flag, 1, 0),
        _op(RETURN, ERRNO | errno.EPERM),
        _op(LOAD, NR_AT),
    ]


def _no_flag(number: int, argument: int, flags: int) -> list[bytes]:
    return [
        _op(JUMP_EQUAL, number, 0, 4),
        _op(LOAD, ARGS_AT + 8 * argument),
        _op(JUMP_SET, flags, 0, 1),
        _op(RETURN, ERRNO | errno.EACCES),
        _op(LOAD, NR_AT),
    ]
