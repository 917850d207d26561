"""The warm template: imports what its role needs once, then forks a child for each job.

Standard input: names of job folders in the spool, one a line. Standard output: one JSON line when
ready, then one a job. The template never touches what a job holds; it forks while it has one
thread, so that a child never inherits a lock that nobody will release.
"""

import contextlib
import gc
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelsmith.active_clock import Countdown
from kernelsmith.errors import InfrastructureError
from kernelsmith.worker import job_child, wall, wall_landlock, wall_seccomp, wall_watch

READ_BYTES = 1 << 16
# What was killed while it held much memory goes slowly on a busy machine; what does not go at all
# (it waits for a disk) is not waited for longer.
REAP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the host decides. With ``landlock``, and a kernel that has it, a job may reach
    ``read`` and ``write`` only; paths as seen inside the wall. ``python_flags`` are for processes
    that are started anew."""

    landlock: bool = False
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    python_flags: list[str] = field(default_factory=list)

    def wall(self) -> wall.Settings:
        landlock = self.landlock and wall_landlock.abi() > 0
        return wall.Settings(
            limits=wall.Limits(**self.limits),
            read=tuple(map(Path, self.read)) if landlock else None,
            write=tuple(map(Path, self.write)),
        )


@dataclass(slots=True, kw_only=True)
class Watch:
    """Looks now and then at what a job takes."""

    share: wall_watch.Share
    every_s: float
    exceeded: str = ""
    next_s: float = 0.0

    def finds(self) -> bool:
        """Whether it takes too much; looks no oftener than every ``every_s``."""
        now_s = time.monotonic()
        if not self.next_s:  # most jobs have ended before a first look
            self.next_s = now_s + self.every_s
        if now_s >= self.next_s:
            self.exceeded = wall_watch.exceeded(self.share)
            self.next_s = time.monotonic() + self.every_s
        return bool(self.exceeded)


def serve(role: str, spool: Path, settings: Settings) -> None:
    """Runs jobs until standard input ends.

    Raises:
        InfrastructureError: a thread is left over that would make forking unsafe.
        OSError: the wall cannot be put up, or the pipes broke.
    """
    wall.die_first()
    wall.give_up_privileges()
    # Blocked here, taken by sigtimedwait: waiting with a time limit and no thread.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    facts = warm(role, spool)
    facts["landlock_abi"] = wall_landlock.abi() if settings.landlock else 0
    facts["seccomp"] = wall_seccomp.supported()
    gc.collect()
    gc.freeze()
    _one_thread()
    _answer({"ready": True, **facts})
    for name in _lines():
        _answer(run_job(spool / name, settings))


def warm(role: str, spool: Path) -> dict[str, Any]:
    """Imports what the role's jobs need, so that children find it in memory.

    Raises:
        ValueError: an unknown role.
    """
    if role == "frontend":
        from kernelsmith.worker.frontend_warm import warm_front_end

        return warm_front_end(spool)
    if role in ("launcher", "seed"):
        from kernelsmith.worker.template_warm import warm_launcher

        return warm_launcher()
    raise ValueError(f"role {role!r}: frontend, launcher or seed")


def run_job(folder: Path, settings: Settings) -> dict[str, Any]:
    """Forks a child for the job, waits within its time limit, kills what it left.

    Returns:
        ``job``, ``exit`` (status or null), ``signal`` (number or null), ``timed_out``,
        ``exceeded`` (what it took too much of, for which it was killed; or ""), ``seconds``.
    """
    _one_thread()
    order = job_child.read_order(folder)
    virtual = wall.virtual_bytes()
    share = wall_watch.share(folder, wall.Limits(**settings.limits), memory=not order.gpu)
    watch = Watch(share=share, every_s=wall_watch.every_s(order.kind))
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        job_child.become(order, folder, settings.wall(), settings.python_flags, virtual)
    status, timed_out = _wait(child, order.timeout_s, watch)
    _kill_group(child)
    code = os.waitstatus_to_exitcode(status)
    return {
        "job": folder.name,
        "exit": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
        "timed_out": timed_out,
        "exceeded": watch.exceeded,
        "seconds": time.monotonic() - started,
    }


def _wait(child: int, limit_s: float, watch: Watch | None = None) -> tuple[int, bool]:
    """Waits for ``child`` for so many active seconds, then kills it; or as soon as ``watch`` finds
    that it takes too much. This process may be frozen together with its child: what that takes is
    not the child's."""
    left = Countdown(left_s=limit_s)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == child:
            return status, False
        slice_s = left.slice_s()
        if not slice_s or (watch is not None and watch.finds()):
            _kill(child)  # and no more: whoever reaps it here loses its status
            return os.waitpid(child, 0)[1], not slice_s
        signal.sigtimedwait({signal.SIGCHLD}, min(slice_s, watch.every_s if watch else slice_s))


def _kill_group(child: int) -> None:
    """Kills what is left of a job, whose first process has been reaped, and waits until all of it
    is gone: what its parents leave behind comes down to this process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    deadline = time.monotonic() + REAP_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.001)


def _kill(child: int) -> None:
    """Kills the child and its process group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _one_thread() -> None:
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise InfrastructureError(
            f"the template has {threads} threads; it forks only with one",
            hint="a library started threads while it was imported: set OMP_NUM_THREADS=1",
        )


def _lines() -> Iterator[str]:
    pending = b""
    while chunk := os.read(0, READ_BYTES):
        *lines, pending = (pending + chunk).split(b"\n")
        yield from (line.decode() for line in lines)


def _answer(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")
