"""The observing mode: what its code and its host share.

An observing build is the same TTIR lowered once more, with a note before every access to memory
and at every turn of a loop. The notes are machine code too (:mod:`observe_code`); they read and
write one block of 64-bit words, whose address is the slot after the kernel's last argument.
:mod:`observe_module` places the notes, :mod:`observe_run` fills the block, runs the programs of a
launch one after the other and reads what was found.

For every granule of a buffer that a kernel may write there is a *cell*: which program wrote it,
which two read it, which changed it atomically, and whether it holds anything. So what is found is
exact: nothing is drawn or merged, and memory is bounded by the buffers, not by the accesses.
"""

from dataclasses import dataclass
from typing import Any

# Words of the block.
STOP, LOOP_SITE, LOOP_PROGRAM, LOOP_TURNS, MISALIGNED, FOUND, LOST, SHIFT, ENTRIES = range(9)
RING_COUNT, TURN_STATE, TURN_SITE, TURN_PROGRAM, TURN_SAME = 10, 11, 13, 14, 15
LAST_SITE, LAST_AT = 16, 17
SINK_WORD = 24
RING, RING_MAX, RING_WORDS = 32, 64, 3
TABLE, TABLE_MAX, TABLE_WORDS = 224, 128, 3
FINDINGS, FINDINGS_MAX, FINDING_WORDS = 640, 64, 10
BLOCK_WORDS = FINDINGS + FINDINGS_MAX * FINDING_WORDS

SPINNING, OUT_OF_TIME = 1, 2
"""Values of the word STOP: the program waits for another, or the host lost its patience."""
SAME_TURNS = 8
"""Turns of a loop, with nothing changed between them, after which it is taken for endless."""

READ, WRITE = 0, 1
ATOMIC = {
    "exch": 2, "cas": 2, "add": 3, "and": 4, "or": 5, "xor": 6, "max": 7, "min": 8, "umax": 9,
    "umin": 10, "fadd": 11,
}  # fmt: skip
MIXED, FLOAT = ATOMIC["cas"], ATOMIC["fadd"]
"""Kinds of access. Two atomics commute if they are of one kind above MIXED and below FLOAT."""

CELL_BYTES = 24
INSIDE, HOLDS, SHARED = 1, 2, 4
"""Flags of a cell: part of an element, holds what was written, changed by several programs."""

(
    OUTSIDE_READ,
    OUTSIDE_WRITE,
    UNWRITTEN_READ,
    RACE,
    ATOMIC_ORDER,
    FLOAT_ATOMIC,
    GAP_READ,
    GAP_WRITE,
    ATOMIC_RACE,
    LANES,
) = range(1, 11)
"""Kinds of findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in the kernel that is observed: an access to memory, or a loop.

    ``line`` is the Python source line; ``does`` says "reads", "writes", "adds atomically to", …;
    ``param`` indexes the kernel's parameters, -1 where the pointer may come from several."""

    op: str
    line: str
    does: str
    param: int = -1
    size: int = 0
    writes: bool = False


def sites_of(stats: dict[str, Any]) -> tuple[Site, ...]:
    """The sites that an observing build's ``ObjectInfo.stats`` names, by number."""
    return tuple(Site(**one) for one in stats.get("sites", ()))


def word(index: int, base: str = "%s") -> str:
    """LLVM text of the address of a word behind a pointer operand."""
    return f"getelementptr i8, ptr {base}, i64 {8 * index}"
