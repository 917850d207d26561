"""What an observed run found, and the line that says it: what, by which program of which kernel,
at which bytes, at which source line."""

import re
from dataclasses import dataclass
from typing import Literal

FindingKind = Literal[
    "out_of_bounds",
    "gap",
    "unwritten",
    "race",
    "atomic_order",
    "float_atomic",
    "spin",
    "endless",
    "unfinished",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an observed run found at one source line, all accesses of one kind merged.

    ``program`` is the first that showed it, ``other_*`` whom it met there. Bytes [``begin``,
    ``end``) count from the start of ``buffer``, the memory behind the kernel's parameter
    ``argument``. ``count``: accesses, or turns of a loop. ``str(finding)`` is :func:`sentence`.

    Kinds: outside the buffer; in a gap between its rows; read, and never written; touched by two
    programs, one writing without an atomic, or by two lanes of a store with different values;
    changed by atomics that do not commute; by adding floats; a loop in which nothing changes that
    another program would have to end; that nobody ends; that had not ended when the time was up."""

    kind: FindingKind
    kernel: str
    line: str
    does: str
    launch: int
    program: tuple[int, int, int]
    argument: str = ""
    buffer: str = ""
    buffer_bytes: int = 0
    item_bytes: int = 0
    begin: int = 0
    end: int = 0
    count: int = 1
    other_line: str = ""
    other_does: str = ""
    other_program: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        return sentence(self)


def sentence(found: Finding) -> str:
    """One line; bytes count from the start of their buffer."""
    who = f"program {_program(found.program)} of {found.kernel}"
    at = _line(found.line)
    match found.kind:
        case "out_of_bounds":
            text = (
                f"out of bounds: {who} {found.does} {_bytes(found)} at {at}; "
                f"{_buffer(found)} has {found.buffer_bytes} bytes"
            )
        case "gap":
            text = f"out of bounds: {who} {found.does} {_bytes(found)} between two rows at {at}"
        case "unwritten":
            text = f"unwritten: {who} {found.does} {_bytes(found)} at {at}, which nobody wrote"
        case "race" if found.other_program == found.program:
            text = (
                f"race: {who} {found.does} {_bytes(found)} at {at}, where lanes of one store "
                "write different values"
            )
        case "race":
            text = (
                f"race: {who} {found.does} {_bytes(found)} at {at}, which program "
                f"{_other(found)} {found.other_does} at {_line(found.other_line)}"
            )
        case "atomic_order":
            text = (
                f"atomics that do not commute: {who} {found.does} {_bytes(found)} at {at}, which "
                f"program {_other(found)} {found.other_does} at {_line(found.other_line)}"
            )
        case "float_atomic":
            text = f"{who} {found.does} {_bytes(found)} at {at}, in whatever order programs run"
        case "spin":
            return (
                f"{who} waits in the loop at {at} for another program to change {_bytes(found)}, "
                f"which it {found.does} at {_line(found.other_line)}"
            )
        case "endless":
            return f"{who} never leaves the loop at {at}: a turn of it changes nothing"
        case _:
            return f"{who} was still in the loop at {at} after {found.count} turns"
    return f"{text} ({found.count} accesses)" if found.count > 1 else text


def _program(program: tuple[int, int, int]) -> str:
    x, y, z = program
    return f"{x}" if not (y or z) else f"({x}, {y}, {z})"


def _other(found: Finding) -> str:
    return _program(found.other_program) if found.other_program else "another"


def _line(line: str) -> str:
    """``line 13``; the file is the candidate's own."""
    number = re.search(r":(\d+)$", line)
    return f"line {number[1]}" if number else "an unknown line"


def _bytes(found: Finding) -> str:
    return f"bytes {found.begin} to {found.end - 1} of {_buffer(found)}"


def _buffer(found: Finding) -> str:
    if not found.buffer:
        return "memory of no buffer"
    if found.argument in ("", found.buffer):
        return found.buffer
    return f"{found.buffer} ({found.argument})"
