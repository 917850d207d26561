"""What a cubin says of its kernel: registers, stack, shared memory, parameters, machine code.

A cubin is an ELF file. The sections ``.nv.info`` and ``.nv.info.<kernel>`` hold attributes; their
format is not published by NVIDIA, the numbers below are those that ``cuobjdump -elf`` prints
(EIATTR_*), and a test holds every reading against ``cuobjdump --dump-resource-usage``.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.errors import CompileError

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_BYTES = 24
_NOBITS, _FUNCTION = 8, 2
_CUDA_MACHINE = 190
_ATTRIBUTE = struct.Struct("<BBH")
_FOLLOWED = 4
_FRAME_SIZE, _PARAMETER, _REGISTERS = 0x11, 0x17, 0x2F
# What runs and what it reads; all else is for debuggers and loaders.
CODE_SECTIONS = (".text.", ".nv.constant", ".nv.global", ".nv.capmerc.text.", ".rel.text.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one kernel needs. ``stack_bytes`` of local memory a thread: spilled registers and
    arrays that are indexed. ``shared_bytes`` that the binary declares itself; what Triton uses is
    given at the launch. ``param_bytes``: the size of each parameter, in order."""

    registers: int
    stack_bytes: int
    shared_bytes: int
    param_bytes: tuple[int, ...]
    code_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of an ELF file; ``data`` is empty for one that takes no room in it."""

    name: str
    kind: int
    size: int
    data: bytes


def resources(cubin: bytes, symbol: str) -> Resources:
    """Reads what ``symbol`` needs.

    Raises:
        CompileError: this is no cubin, or it has no such kernel.
    """
    found = {section.name: section for section in sections(cubin)}
    text = found.get(f".text.{symbol}")
    own = found.get(f".nv.info.{symbol}")
    if text is None or own is None:
        raise CompileError(f"the cubin has no kernel {symbol}", op="cubin")
    index = _symbol_index(found, symbol)
    registers, stack = 0, 0
    for attribute, payload in attributes(found[".nv.info"].data):
        if attribute not in (_REGISTERS, _FRAME_SIZE):
            continue
        of, value = struct.unpack_from("<II", payload)
        if of == index and attribute == _REGISTERS:
            registers = value
        elif of == index:
            stack = value
    sizes: dict[int, int] = {}
    for attribute, payload in attributes(own.data):
        if attribute == _PARAMETER:
            _, ordinal, _, packed = struct.unpack_from("<IHHI", payload)
            sizes[ordinal] = packed >> 18
    shared = found.get(f".nv.shared.{symbol}")
    return Resources(
        registers=registers,
        stack_bytes=stack,
        shared_bytes=shared.size if shared else 0,
        param_bytes=tuple(sizes[ordinal] for ordinal in sorted(sizes)),
        code_bytes=text.size,
    )


def code_sections(cubin: bytes) -> dict[str, bytes]:
    """Machine code and constants by section name: what must be equal for code to be equal."""
    return {
        section.name: section.data
        for section in sections(cubin)
        if section.name.startswith(CODE_SECTIONS)
    }


def sections(cubin: bytes) -> Iterator[Section]:
    """All sections of an ELF file.

    Raises:
        CompileError: this is no cubin, or it is cut short.
    """
    try:
        header = _ELF_HEADER.unpack_from(cubin)
        if header[0][:4] != b"\x7fELF" or header[2] != _CUDA_MACHINE:
            raise CompileError("this is no cubin", op="cubin")
        at, size, count, names = header[6], header[11], header[12], header[13]
        table = [_SECTION.unpack_from(cubin, at + size * number) for number in range(count)]
        base, length = table[names][4], table[names][5]
        texts = cubin[base : base + length]
        for row in table:
            name = texts[row[0] : texts.index(b"\0", row[0])].decode("ascii", "replace")
            data = b"" if row[1] == _NOBITS else cubin[row[4] : row[4] + row[5]]
            yield Section(name=name, kind=row[1], size=row[5], data=data)
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError(f"the cubin cannot be read: {error}", op="cubin") from None


def attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """(attribute, payload) of an ``.nv.info`` section; a value of 16 bits is its payload."""
    position = 0
    while position + _ATTRIBUTE.size <= len(info):
        form, attribute, value = _ATTRIBUTE.unpack_from(info, position)
        position += _ATTRIBUTE.size
        if form == _FOLLOWED:
            yield attribute, info[position : position + value]
            position += value
        else:
            yield attribute, struct.pack("<H", value)


def _symbol_index(found: dict[str, Section], symbol: str) -> int:
    symbols, names = found[".symtab"].data, found[".strtab"].data
    for number in range(len(symbols) // _SYMBOL_BYTES):
        start, kind = struct.unpack_from("<IB", symbols, number * _SYMBOL_BYTES)
        name = names[start : names.index(b"\0", start)]
        if name == symbol.encode() and kind & 0xF == _FUNCTION:
            return number
    raise CompileError(f"the cubin has no symbol {symbol}", op="cubin")
