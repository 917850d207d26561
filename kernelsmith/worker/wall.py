"""The part of the wall that a worker puts around itself, whatever stands around the worker.

The template, which holds no candidate, gives up privileges before it answers; the child that runs
a job takes on limits and the system-call filter before it touches the job.
"""

import contextlib
import ctypes
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.worker import wall_landlock, wall_seccomp
from kernelsmith.worker.wall_seccomp import JobKind

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
OOM_SCORE = Path("/proc/self/oom_score_adj")
DIES_FIRST = "500"
CAPABILITY_VERSION_3 = 0x20080522
CAPSET = 126
LAST_CAPABILITY = 63
# Processor time counts every thread; the clock of the template is the real time-out.
CPU_SECONDS_PER_SECOND = 64
CPU_SECONDS_SLACK = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one job may use. ``memory_bytes`` is address space beyond what the template has, of
    each process, and resident memory of all; ``file_bytes`` the size of each file it writes,
    ``files`` how many are open at once; ``spool_bytes`` and ``spool_files`` are for all that it
    leaves in its folder, ``processes`` and ``threads`` for all that run at once."""

    memory_bytes: int = 8 << 30
    file_bytes: int = 2 << 30
    trace_file_bytes: int = 32 << 20
    files: int = 256
    spool_bytes: int = 4 << 30
    spool_files: int = 10_000
    processes: int = 64
    threads: int = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits and, unless ``read`` is None, the paths that Landlock leaves a job: besides, one that
    is no front end has its own folder, and no other job's."""

    limits: Limits
    read: tuple[Path, ...] | None = None
    write: tuple[Path, ...] = ()


def die_first() -> None:
    """Where memory runs out, the system ends this process or its children before the host that has
    the record. Call it before :func:`give_up_privileges`, after which it is not allowed."""
    with contextlib.suppress(OSError):
        OOM_SCORE.write_text(DIES_FIRST)


def give_up_privileges() -> None:
    """No new privileges, no capabilities, no tracing by processes of the same user, and death
    with the parent.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, PR_SET_PDEATHSIG, signal.SIGKILL)
    # What a job leaves running becomes the template's child, so that it can be reaped.
    _prctl(libc, PR_SET_CHILD_SUBREAPER, 1)
    _prctl(libc, PR_SET_NO_NEW_PRIVS, 1)
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.syscall(CAPSET, header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    forbid_dumps()


def forbid_dumps() -> None:
    """No process of the same user may read this one's memory or its files in /proc.

    Raises:
        OSError: the kernel refuses.
    """
    _prctl(ctypes.CDLL(None, use_errno=True), PR_SET_DUMPABLE, 0)


def virtual_bytes() -> int:
    """Address space of this process."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def confine(
    kind: JobKind, settings: Settings, *, virtual: int, timeout_s: float, gpu: bool = False
) -> None:
    """Landlock, limits and filter for the child of a job. Call it last: nothing lifts it.

    A rule on /proc/self means the process that makes it, so each child makes its own.

    A job that runs on a GPU has no limit of address space, since the driver reserves more of it
    than there is memory, and no system-call filter: what the driver needs is not documented and
    changes with its release. In such a process all code of the CPU is ours; what runs on the GPU
    can make no system call.

    Args:
        kind: what the job may do.
        settings: what it may reach and use.
        virtual: address space of the template, which the child starts with.
        timeout_s: the job's time limit.
        gpu: whether it runs or times kernels on one.

    Raises:
        OSError: the kernel refuses.
    """
    limits = settings.limits
    if settings.read is not None:
        wall_landlock.restrict(read=settings.read, write=settings.write)
    cpu_s = int(timeout_s * CPU_SECONDS_PER_SECOND) + CPU_SECONDS_SLACK
    if not gpu:
        _limit(resource.RLIMIT_AS, virtual + limits.memory_bytes)
    file_bytes = limits.trace_file_bytes if kind == "trace" else limits.file_bytes
    _limit(resource.RLIMIT_FSIZE, file_bytes)
    _limit(resource.RLIMIT_NOFILE, limits.files)
    _limit(resource.RLIMIT_CPU, cpu_s)
    _limit(resource.RLIMIT_CORE, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, PR_SET_PDEATHSIG, signal.SIGKILL)
    if gpu:
        # The driver reads of its process in /proc, which a process that cannot be dumped may not.
        _prctl(libc, PR_SET_DUMPABLE, 1)
    if wall_seccomp.supported() and not gpu:
        wall_seccomp.install(kind)


def detach_descriptors(keep: tuple[int, ...], errors: int | None = None) -> None:
    """Standard streams to /dev/null; every other descriptor but ``keep`` is closed.

    Args:
        keep: what stays open.
        errors: where standard error goes instead.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(errors if errors is not None and descriptor == 2 else null, descriptor)
    edge = 3
    for descriptor in sorted(keep):
        os.closerange(edge, descriptor)
        edge = descriptor + 1
    os.closerange(edge, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
