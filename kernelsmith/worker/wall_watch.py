"""What a job has taken, looked at from outside while it runs: the limits that no rlimit keeps.

An rlimit is about one process, or one file. A job may have several processes, thousands of threads
(each costs the system memory that no limit of address space counts) and any number of files. The
template looks some times a second; what a job takes between two looks is the price of that.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.worker.wall import Limits
from kernelsmith.worker.wall_seccomp import JobKind

EVERY_S = 0.1
# A timing session wants to be alone on the machine. It cannot fork.
EVERY_TIMED_S = 1.0
BLOCK_BYTES = 512
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a job may take from here on: its folder, and what was there before; ``resident``: the
    pages that the template has, with which each of the job's processes starts."""

    folder: Path
    limits: Limits
    files: int
    nbytes: int
    resident: int
    memory: bool


def every_s(kind: JobKind) -> float:
    """How often to look at a job of this kind."""
    return EVERY_TIMED_S if kind == "time" else EVERY_S


def share(folder: Path, limits: Limits, *, memory: bool = True) -> Share:
    """Call it before the job starts. ``memory`` False: its memory is not looked at (a GPU's driver
    maps more than there is)."""
    files, nbytes, _ = _stored(folder, 1 << 30)
    return Share(
        folder=folder,
        limits=limits,
        files=files,
        nbytes=nbytes,
        resident=_pages(os.getpid()),
        memory=memory,
    )


def exceeded(of: Share) -> str:
    """What the job of this process's children took too much of, "" if nothing."""
    limits = of.limits
    processes, threads, pages = _running(of)
    if processes > limits.processes:
        return f"{processes} processes at once, limit {limits.processes}"
    if threads > limits.threads:
        return f"{threads} threads at once, limit {limits.threads}"
    held = pages * os.sysconf("SC_PAGE_SIZE")
    if of.memory and held > limits.memory_bytes:
        return f"{held // MIB} MiB of memory, limit {limits.memory_bytes // MIB} MiB"
    files, nbytes, hidden = _stored(of.folder, of.files + limits.spool_files)
    if files - of.files > limits.spool_files:
        return f"more than {limits.spool_files} files"
    if nbytes - of.nbytes > limits.spool_bytes:
        return f"{(nbytes - of.nbytes) // MIB} MiB of files, limit {limits.spool_bytes // MIB} MiB"
    return "a folder that cannot be looked into" if hidden else ""


def _running(of: Share) -> tuple[int, int, int]:
    """Processes, threads, and pages that they have beyond those they started with. Stops counting
    where a limit is passed."""
    found = set(_children(os.getpid()))
    wait_for = list(found)
    threads = pages = 0
    while wait_for and max(len(found) - of.limits.processes, threads - of.limits.threads) <= 0:
        pid = wait_for.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        threads += len(tasks)
        pages += max(0, _pages(pid) - of.resident)
        if len(tasks) <= of.limits.threads:
            new = {child for task in tasks for child in _children(pid, task)} - found
            found |= new
            wait_for += new
    return len(found), threads, pages


def _children(pid: int, task: int | str = 0) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{task or pid}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _pages(pid: int) -> int:
    """Resident pages of a process."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


def _stored(folder: Path, most: int) -> tuple[int, int, bool]:
    """Files and folders below a folder, the bytes they take, and whether one hides what it holds
    (it lies too deep, or may not be read). Stops counting after ``most``."""
    files = nbytes = 0
    hidden = False
    folders = [str(folder)]
    while folders and files <= most:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    files += 1
                    if files > most:
                        break
                    state = entry.stat(follow_symlinks=False)
                    nbytes += state.st_blocks * BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:
            hidden = True
    return files, nbytes, hidden
