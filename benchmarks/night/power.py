"""What a disk may hold after a power cut: all that was synced, and any part of the rest.

The calls of a run are written along; at the cut, each write since its file was last synced is kept,
lost or torn by a draw of its own, in any combination. A file that was never synced may be missing,
one that was removed may be back. Source: Pillai et al., "All File Systems Are Not Created Equal",
OSDI 2014.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path

import faults
from faults import Point

SECTOR = 512


@dataclass(slots=True)
class Disk:
    """``synced``: what is safe, by file; ``since``: what was done to a file after that, in order,
    as (call, offset or length, bytes)."""

    folder: Path
    synced: dict[str, bytearray] = field(default_factory=dict)
    since: dict[str, list[tuple[str, int, bytes]]] = field(default_factory=dict)

    def note(self, point: Point) -> None:
        """A call about to be made."""
        name = Path(point.target).name
        if point.target == str(self.folder) and point.call in ("fsync", "fdatasync"):
            self._forget_removed()
        if not name.startswith("runs.db") or name.endswith("-shm"):
            return  # the index is made anew from the log
        if point.call == "pwrite64":
            data = faults.written(point, point.nbytes)
            self.since.setdefault(name, []).append(("write", point.offset, data))
        elif point.call == "ftruncate":
            self.since.setdefault(name, []).append(("truncate", point.address, b""))
        elif point.call == "unlink":
            self.since.setdefault(name, []).append(("unlink", 0, b""))
        elif point.call in ("fsync", "fdatasync"):
            held = self.synced.get(name, bytearray())
            for each in self.since.pop(name, []):
                held = _applied(held, *each) or bytearray()
            self.synced[name] = held

    def _forget_removed(self) -> None:
        """The folder was synced: what was removed before stays so."""
        for name, calls in self.since.items():
            ends = [number for number, (call, _, _) in enumerate(calls) if call == "unlink"]
            if ends:
                self.synced.pop(name, None)
                del calls[: ends[-1] + 1]

    def cut(self, draw: random.Random) -> None:
        """Leaves in the folder what one power cut might."""
        for each in self.folder.glob("runs.db*"):
            each.unlink()
        for name in {*self.synced, *self.since}:
            held: bytearray | None = self.synced.get(name)
            for call, at, data in self.since.get(name, ()):
                fate = draw.choice(("kept", "lost", "torn"))
                if fate == "torn" and call == "write":
                    data = data[: SECTOR * draw.randrange(1 + len(data) // SECTOR)]
                if fate != "lost":
                    held = _applied(held or bytearray(), call, at, data)
            if held is not None:
                (self.folder / name).write_bytes(held)


def _applied(held: bytearray, call: str, at: int, data: bytes) -> bytearray | None:
    if call == "unlink":
        return None
    if call == "truncate":
        return held[:at].ljust(at, b"\0")
    held = held.ljust(at, b"\0")
    held[at : at + len(data)] = data
    return held
