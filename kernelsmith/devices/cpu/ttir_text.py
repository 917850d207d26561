"""Pieces of MLIR text: types, literals, brackets, source locations."""

import re
import struct

from kernelsmith.devices.cpu.ttir import BITS, Ty
from kernelsmith.errors import CompileError

_LOC_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_FILE_LINE = re.compile(r'"([^"]*)":(\d+):\d+')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*)>$", re.S)


def parse_type(text: str) -> Ty:
    """Parses ``i32``, ``!tt.ptr<bf16>``, ``tensor<128x64x!tt.ptr<f32>>``."""
    text = text.strip()
    found = _TENSOR.match(text)
    if found:
        shape = tuple(int(dim) for dim in found.group(1).split("x") if dim)
        elem = parse_type(found.group(2).split(", #")[0])
        return Ty(elem.elem, shape, elem.pointee)
    if text.startswith("!tt.ptr<"):
        pointee = text[8:-1].split(",")[0].strip()
        if pointee not in BITS:
            raise CompileError(
                f"a pointer to {pointee} is not supported on the cpu device",
                op="type",
                hint="load an address as int64 and cast it: .to(tl.pointer_type(tl.float32))",
            )
        return Ty("ptr", (), pointee)
    if text == "index":
        return Ty("i64")
    if text not in BITS:
        raise CompileError(
            f"type {text} is not supported on the cpu device",
            op="type",
            hint="use i1, i8, i16, i32, i64, f16, bf16, f32, f64 and pointers to them",
        )
    return Ty(text)


def split_top(text: str, separator: str = ",") -> list[str]:
    """Splits at ``separator`` outside brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for index, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "<([{":
            depth += 1
        elif char in ")]}" or (char == ">" and text[index - 1] != "-"):
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    tail = text[start:].strip()
    return [*parts, tail] if tail or parts else []


def parse_float(text: str, elem: str) -> float:
    """A float literal: decimal, or the element's bits in hexadecimal."""
    if not text.startswith("0x"):
        return float(text)
    bits = int(text, 16)
    if elem == "bf16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    form = {"f16": "<He", "f32": "<If", "f64": "<Qd"}[elem]
    return float(struct.unpack("<" + form[2], struct.pack(form[:2], bits))[0])


def strip_loc(line: str) -> tuple[str, str]:
    """Removes every ``loc(...)`` from a line; returns the line and the last location."""
    last = ""
    while True:
        at = line.rfind(" loc(")
        if at < 0:
            return line, last
        depth, end = 0, at + 4
        while end < len(line):
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
            if depth == 0:
                break
        last = last or line[at + 5 : end - 1]
        line = line[:at] + line[end:]


def type_colon(text: str) -> int:
    """Index of the colon that starts the types: the first one outside brackets and quotes."""
    depth, quoted = 0, False
    for index, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "<([{":
            depth += 1
        elif char in ")]}" or (char == ">" and text[index - 1] != "-"):
            depth -= 1
        elif char == ":" and depth == 0:
            return index
    return -1


def unwrap(text: str) -> str:
    """Takes off one pair of parentheses."""
    text = text.strip()
    return text[1:-1] if text.startswith("(") else text


def logical_lines(text: str) -> tuple[list[str], dict[str, str]]:
    """The module's lines without blanks and comments, and its location aliases apart."""
    lines, aliases = [], {}
    for raw in text.splitlines():
        line = raw.strip()
        alias = _LOC_ALIAS.match(line)
        if alias:
            aliases[alias.group(1)] = alias.group(2)
        elif line and not line.startswith("//"):
            lines.append(line)
    return lines, aliases


def source_line(loc: str, aliases: dict[str, str]) -> str:
    """``file.py:LINE`` of the innermost location, outside Triton's own library."""
    seen, texts = 0, [loc]
    fallback = ""
    while texts and seen < 200:
        seen += 1
        text = texts.pop(0)
        for found in _FILE_LINE.finditer(text):
            place = f"{found.group(1)}:{found.group(2)}"
            if "/triton/language/" not in place:
                return place
            fallback = fallback or place
        texts[:0] = [aliases[a] for a in re.findall(r"#loc\d*", text) if a in aliases]
    return fallback
