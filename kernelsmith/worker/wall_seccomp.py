"""A system-call filter for the child that runs a job (x86-64 Linux, classic BPF).

It is the wall that does not depend on namespaces: what it forbids returns an error in the child,
whatever runs there. The rules by kind of job:

- every job: no sockets, tracing of or signals to other processes (nor by a pipe that reports its
  input), mounts, namespaces, kernel modules, System V IPC, io_uring, links, change of owners,
  times or priorities, files without a name, calls that are newer than this list, and no leaving
  the process group that a time-out kills, nor outliving the template;
- "trace": no new process or program, no opening of a file for writing: its two files are open
  before;
- "run" and "compile": files may be made and written, not removed or renamed, and no program is
  started; "compile" may fork;
- "time": as "run", and one program: the session that replaces the process;
- "compile_gpu": forks, starts the compiler's programs, and makes and removes temporary files.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from typing import Literal

from kernelsmith.worker import wall_calls as calls

JobKind = Literal["trace", "compile", "compile_gpu", "run", "time"]

AUDIT_ARCH_X86_64 = 0xC000003E
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NR_AT, ARCH_AT, ARGS_AT = 0, 4, 16


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
    forks = kind in ("compile", "compile_gpu")
    code = [
        _op(LOAD, ARCH_AT),
        _op(JUMP_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        _op(RETURN, KILL),
        _op(LOAD, NR_AT),
        _op(JUMP_GREATER_EQUAL, calls.FIRST_UNKNOWN, 0, 1),
        _op(RETURN, ERRNO | errno.ENOSYS),  # x32 too: its numbers begin far above
    ]
    for number in _refused(kind):
        code += _deny(number)
    code += [
        *_deny(calls.CLONE3, errno.ENOSYS),  # libc then takes clone, whose flags are readable
        *_deny(calls.OPENAT2, errno.ENOSYS),
        *_only(calls.KILL, pid),
        *_only(calls.TGKILL, pid),
        *_only(calls.PRLIMIT, 0),
        *_none_of(calls.FCNTL, 1, calls.FCNTL_REFUSED),
        *_none_of(calls.PRCTL, 0, calls.PRCTL_REFUSED),
        *_no_flag(calls.CLONE, 0, calls.CLONE_APART),
    ]
    if kind == "time":  # a session pins itself to a processor
        code += _only(calls.SCHED_SETAFFINITY, 0)
    if not forks:
        code += _need_flag(calls.CLONE, 0, calls.CLONE_THREAD)
    unwanted = calls.WRITING if kind == "trace" else calls.NAMELESS
    code += [*_no_flag(calls.OPEN, 1, unwanted), *_no_flag(calls.OPENAT, 2, unwanted)]
    return b"".join([*code, _op(RETURN, ALLOW)])


def _refused(kind: JobKind) -> list[int]:
    """Numbers that are refused whatever their arguments."""
    tables = [*calls.ALWAYS]
    if kind != "compile_gpu":
        tables.append(calls.NAMES)
    if kind not in ("compile", "compile_gpu"):
        tables.append(calls.FORKS)
    if kind not in ("time", "compile_gpu"):
        tables.append(calls.PROGRAMS)
    numbers = {number for table in tables for number in table.values()}
    return sorted(numbers if kind == "time" else numbers | {calls.SCHED_SETAFFINITY})


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, true, false, value)


def _deny(number: int, error: int = errno.EPERM) -> list[bytes]:
    return [_op(JUMP_EQUAL, number, 0, 1), _op(RETURN, ERRNO | error)]


def _of_argument(number: int, argument: int, rules: list[bytes]) -> list[bytes]:
    """Rules about the low 32 bits of an argument of one call."""
    body = [_op(LOAD, ARGS_AT + 8 * argument), *rules, _op(LOAD, NR_AT)]
    return [_op(JUMP_EQUAL, number, 0, len(body)), *body]


def _only(number: int, value: int) -> list[bytes]:
    """Allows the call only with ``value`` (a process id) as its first argument."""
    rules = [_op(JUMP_EQUAL, value, 1, 0), _op(RETURN, ERRNO | errno.EPERM)]
    return _of_argument(number, 0, rules)


def _none_of(number: int, argument: int, values: Iterable[int]) -> list[bytes]:
    return _of_argument(number, argument, [op for value in values for op in _deny(value)])


def _need_flag(number: int, argument: int, flag: int) -> list[bytes]:
    rules = [_op(JUMP_SET, flag, 1, 0), _op(RETURN, ERRNO | errno.EPERM)]
    return _of_argument(number, argument, rules)


def _no_flag(number: int, argument: int, flags: int) -> list[bytes]:
    rules = [_op(JUMP_SET, flags, 0, 1), _op(RETURN, ERRNO | errno.EACCES)]
    return _of_argument(number, argument, rules)
