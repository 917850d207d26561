"""Stops a worker's processes from the host and lets them go on: SIGSTOP, which no namespace and no
candidate can refuse, for walls without a freezer of their own.

Memory stays where it is. What a GPU was given to do before is done to its end.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.errors import SandboxError

PATIENCE_S = 5.0
"""A process that waits for a disk stops when it has its answer."""
STOPPED = "TtXZ"  # zombies run no more either
PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A process as ``/proc/PID/stat`` shows it. ``ticks``: when it started; with the id it names
    one process for as long as the machine is up."""

    pid: int
    state: str
    parent: int
    session: int
    ticks: int


def stop(roots: Iterable[int], patience_s: float = PATIENCE_S) -> list[Seen]:
    """Stops these processes with all that descends from them or belongs to their sessions, and
    returns them once all stand still.

    A process may fork while others are being stopped; so it is looked again until a look finds
    nothing new and nothing that runs. Whatever its state says, each is signalled once: a process
    whose first thread has ended shows as a zombie, and its other threads run.

    Raises:
        SandboxError: some do not stop.
    """
    wanted = tuple(roots)
    until_s = time.monotonic() + patience_s
    signalled: set[tuple[int, int]] = set()
    while True:
        found = family(wanted)
        running = [
            each
            for each in found
            if each.state not in STOPPED or (each.pid, each.ticks) not in signalled
        ]
        if not running:
            return found
        for each in running:
            _signal(each, signal.SIGSTOP)
            signalled.add((each.pid, each.ticks))
        if time.monotonic() > until_s:
            pids = ", ".join(str(each.pid) for each in running)
            raise SandboxError(f"processes {pids} of the sandbox do not stop")
        time.sleep(0.001)


def go_on(stopped: Iterable[Seen]) -> None:
    """Lets go on what :func:`stop` returned and still lives."""
    for each in reversed(list(stopped)):  # children first: a parent finds them as it left them
        _signal(each, signal.SIGCONT)


def family(roots: Iterable[int]) -> list[Seen]:
    """These processes and all that descends from them or belongs to their sessions, parents before
    their children. Descent alone would lose a process whose parent has died."""
    here = list(everything())
    known = set(roots)
    found = [each for each in here if each.pid in known or each.session in known]
    known = {each.pid for each in found}
    while more := [e for e in here if e.parent in known and e.pid not in known]:
        found += more
        known |= {each.pid for each in more}
    return found


def held_bytes(pids: Iterable[int]) -> int:
    """Memory of these processes, what they share counted once among them (PSS); where the system
    does not tell it, resident memory without what is shared."""
    return sum(_held_bytes(pid) for pid in pids)


def _held_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (PROC / f"{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, IndexError):
        _, resident, shared = (PROC / f"{pid}/statm").read_text().split()[:3]
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    return 0


def everything() -> Iterable[Seen]:
    """All processes of this machine, or of this container."""
    for entry in os.scandir(PROC):
        if not entry.name.isdigit():
            continue
        if (seen := _seen(int(entry.name))) is not None:
            yield seen


def _seen(pid: int) -> Seen | None:
    """None: it is gone."""
    try:  # a name may hold spaces and brackets
        fields = (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
        return Seen(
            pid=pid,
            state=fields[0],
            parent=int(fields[1]),
            session=int(fields[3]),
            ticks=int(fields[19]),
        )
    except (OSError, IndexError, ValueError):
        return None


def _signal(seen: Seen, number: int) -> None:
    """Sends a signal to this very process: by a descriptor, so that its id cannot have become
    another's between the look and the signal."""
    try:
        descriptor = os.pidfd_open(seen.pid)
    except OSError:
        return  # gone
    try:
        now = _seen(seen.pid)
        if now is not None and now.ticks == seen.ticks:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
