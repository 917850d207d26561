"""Room for the next candidate: on the database's disk, on the spool's, in memory.

Checked before each candidate, so that none is begun whose verdict could not be written or whose
job could not be laid down. Floors leave room for what one candidate needs and for those who share
the machine to notice too.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.watch import cgroup

MIB = 1 << 20
DATABASE_FLOOR_BYTES = 256 * MIB
"""A verdict with its samples takes well under 1 MiB, the write-ahead log some 4 MiB, which its
checkpoint writes once more; the rest is for blobs of an agent's night, and a wide margin."""
SPOOL_FLOOR_BYTES = 512 * MIB
"""Two workers lay down code, inputs and outputs of their jobs at the same time: at most 96 MiB in
the checks about bits of ``rms_norm``, 25 of ``linear``. A memory file system takes from memory."""
MEMORY_FLOOR_BYTES = 512 * MIB
"""What a launcher and a compiler take beyond their templates for the shipped tasks."""
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Where a run needs room. ``free`` gives the free bytes of a folder's disk, ``memory`` those of
    memory (None: it cannot be told)."""

    database: Path
    spool: Path | None = None
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free
    memory: Callable[[], int | None] = lambda: memory_bytes()

    def line(self) -> str:
        """What there is, for a person."""
        parts = [f"{_mib(self.free(self.database))} for the database"]
        if self.spool is not None:
            parts.append(f"{_mib(self.free(self.spool))} for jobs in {self.spool}")
        left = self.memory()
        parts.append("memory cannot be told" if left is None else f"{_mib(left)} of memory")
        return ", ".join(parts)

    def shortage(self) -> str:
        """What there is too little of, in words; "" if there is room for the next candidate."""
        places = [("the database", self.database, DATABASE_FLOOR_BYTES)]
        if self.spool is not None:
            places.append(("the spool", self.spool, SPOOL_FLOOR_BYTES))
        for what, folder, floor in places:
            try:
                free = self.free(folder)
            except OSError as error:
                return f"the disk of {what} cannot be asked: {folder}: {error.strerror}"
            if free < floor:
                return f"{_mib(free)} left for {what} in {folder}, {_mib(floor)} are needed"
        left = self.memory()
        if left is not None and left < MEMORY_FLOOR_BYTES:
            return f"{_mib(left)} of memory left, {_mib(MEMORY_FLOOR_BYTES)} are needed"
        return ""


def memory_bytes(meminfo: Path = MEMINFO, group: Path | None = None) -> int | None:
    """Memory that could be had now, by the machine and by this process's control group (v2 and v1);
    None where neither tells.

    Args:
        group: the memory controller's folder; by default this process's.
    """
    found = []
    kib = cgroup.table(meminfo)
    if "MemAvailable" in kib:
        found.append(kib["MemAvailable"] << 10)
    group = group or cgroup.folder("memory")
    if group is not None:
        limit = cgroup.number(group / "memory.max")
        used = cgroup.number(group / "memory.current")
        name = "inactive_file"
        if used is None:
            limit = cgroup.number(group / "memory.limit_in_bytes")
            used = cgroup.number(group / "memory.usage_in_bytes")
            name = "total_inactive_file"
        # What only caches files is given back when it is needed.
        cached = cgroup.table(group / "memory.stat").get(name, 0)
        if limit is not None and used is not None:
            found.append(limit - used + cached)
    return min(found, default=None)


def _mib(nbytes: int) -> str:
    return f"{nbytes / MIB:,.0f} MiB"
