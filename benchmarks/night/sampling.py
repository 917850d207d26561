"""What a process and all that it started hold now, from /proc; of root's or one's own processes."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.sandbox import freezing

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_A_S = os.sysconf("SC_CLK_TCK")
LIVED_S = 12.0
"""Longer than any job of the soak: what is older is a template, or was left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """``workers_bytes``, ``workers_open``, ``processes``: resident memory, open descriptors and
    number of descendants that are older than any job, zombies included."""

    loop_bytes: int
    workers_bytes: int
    open: int
    workers_open: int
    threads: int
    processes: int


def held(root: int, lived_s: float = LIVED_S) -> Held | None:
    """None: there is no such process any more."""
    try:
        loop_bytes = _resident(root)
        threads = len(os.listdir(PROC / str(root) / "task"))
        opened = len(os.listdir(PROC / str(root) / "fd"))
    except OSError:
        return None
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    others = [each.pid for each in _below(root) if now_s - each.ticks / TICKS_A_S >= lived_s]
    return Held(
        loop_bytes=loop_bytes,
        workers_bytes=sum(_resident(pid, gone=0) for pid in others),
        open=opened,
        workers_open=sum(_open(pid) for pid in others),
        threads=threads,
        processes=len(others),
    )


def descendants(root: int) -> list[int]:
    """Process numbers of children, their children and so on, zombies included."""
    return [each.pid for each in _below(root)]


def _below(root: int) -> list[freezing.Seen]:
    children: dict[int, list[freezing.Seen]] = {}
    for each in freezing.everything():
        children.setdefault(each.parent, []).append(each)
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += [each.pid for each in below]
    return found


def command_of(pid: int) -> bytes:
    """A process's command line; b"" if it is gone."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def spools(root: int, parents: tuple[Path, ...]) -> list[Path]:
    """The spools of a process: the number stands in their names."""
    return [path for parent in parents for path in parent.glob(f"kernelsmith-spool-{root}-*")]


def tree(top: Path) -> tuple[int, int]:
    """How many files and folders lie below, and the bytes that they take on their disk."""
    entries = nbytes = 0
    for stat in _stats(top):
        entries += 1
        nbytes += stat.st_blocks * 512
    return entries, nbytes


def _stats(top: Path) -> Iterator[os.stat_result]:
    todo = [top]
    while todo:
        try:
            with os.scandir(todo.pop()) as found:
                for entry in found:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(Path(entry.path))
                    yield entry.stat(follow_symlinks=False)
        except OSError:
            continue


def _resident(pid: int, gone: int | None = None) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        if gone is None:
            raise
        return gone


def _open(pid: int) -> int:
    try:
        return len(os.listdir(PROC / str(pid) / "fd"))
    except OSError:
        return 0
