"""A finding of an observed run in one line: what, in which kernel, at which line, by which program,
at which bytes."""

import re

from kernelsmith.model import Finding


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
    return f"{found.buffer} ({found.argument})" if found.argument else found.buffer
