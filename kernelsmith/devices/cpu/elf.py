"""A loader for the relocatable x86-64 objects that this device compiles.

It maps the sections that belong in memory, applies the relocations it knows, and makes code
executable only once nothing can write it any more. Whatever it does not know it refuses by
name: unknown relocations, symbols from elsewhere, writable data.
"""

import ctypes
import struct
import weakref
from dataclasses import dataclass

from kernelsmith.devices.cpu.memory import (
    EXECUTE,
    PAGE_BYTES,
    READ,
    libc,
    map_pages,
    protect,
    round_up,
    unmap,
)
from kernelsmith.errors import CompileError

CODE_ALIGN_BYTES = 64
# LLVM makes calls of these out of its own loops. They move bytes and cannot change a result.
LIBC_SYMBOLS = frozenset({"memcpy", "memmove", "memset"})

_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_REL = 2, 4, 8, 9
_SHF_WRITE, _SHF_ALLOC, _SHF_EXEC, _SHF_TLS = 1, 2, 4, 0x400
_SHN_UNDEF, _SHN_ABS, _SHN_LORESERVE = 0, 0xFFF1, 0xFF00
_R_64, _R_PC32, _R_PLT32, _R_32, _R_32S, _R_PC64 = 1, 2, 4, 10, 11, 24
# Relocation type -> (format of the field, whether it is relative to its own place).
_FIELDS = {
    _R_64: ("<Q", False),
    _R_PC32: ("<i", True),
    _R_PLT32: ("<i", True),
    _R_32: ("<I", False),
    _R_32S: ("<i", False),
    _R_PC64: ("<q", True),
}
_JUMP = b"\xff\x25\x00\x00\x00\x00"  # jmp [rip+0]; the address follows
_STUB_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    type: int
    flags: int
    data: bytes
    nbytes: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int


class Image:
    """Code and constants of one object in memory. Unmapped on close or with the object."""

    __slots__ = ("__weakref__", "_finalizer", "_symbols", "base", "nbytes")

    def __init__(self, base: int, nbytes: int, symbols: dict[str, int]) -> None:
        self.base = base
        self.nbytes = nbytes
        self._symbols = symbols
        self._finalizer = weakref.finalize(self, unmap, base, nbytes)

    def address(self, name: str) -> int:
        """Where the function ``name`` starts.

        Raises:
            CompileError: the object has no such function, or is closed.
        """
        if not self._finalizer.alive:
            raise CompileError(f"object with {name} is closed", op=name)
        if name not in self._symbols:
            raise CompileError(f"object has no function {name}: {sorted(self._symbols)}", op=name)
        return self._symbols[name]

    def close(self) -> None:
        self._finalizer()


def link(code: bytes, *, base_pad_bytes: int = 0) -> Image:
    """Loads an object into this process.

    Args:
        code: a relocatable ELF object for x86-64.
        base_pad_bytes: where the code starts within its mapping, rounded up to 64, so that a
            timing session can move it about; functions keep their alignment.

    Raises:
        CompileError: not such an object, or something in it is refused; ``op`` names it.
        InfrastructureError: no memory, or executable memory is forbidden.
    """
    try:
        sections = _read_sections(code)
        symbols = _read_symbols(sections)
        relocations = _read_relocations(sections, symbols)
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError(f"object is malformed: {error}", op="elf") from None
    _refuse_state(sections)
    offsets, stubs_at, code_end, nbytes = _lay_out(sections, base_pad_bytes)
    low = any(type_ in (_R_32, _R_32S) for _, _, type_, _, _ in relocations)
    base = map_pages(nbytes, low=low)
    try:
        for index, offset in offsets.items():
            ctypes.memmove(base + offset, sections[index].data, len(sections[index].data))
        stubs = _write_stubs(base + stubs_at)
        places = {index: base + offset for index, offset in offsets.items()}
        for index, offset, type_, symbol, addend in relocations:
            target = _resolve(symbol, places, stubs)
            field = _field(places[index] + offset, type_, target + addend, symbol.name)
            ctypes.memmove(places[index] + offset, field, len(field))
        protect(base, code_end, READ | EXECUTE)
        if nbytes > code_end:
            protect(base + code_end, nbytes - code_end, READ)
    except BaseException:
        unmap(base, nbytes)
        raise
    functions = {
        s.name: places[s.section] + s.value
        for s in symbols
        if s.name and s.section in places and sections[s.section].flags & _SHF_EXEC
    }
    return Image(base, nbytes, functions)


def _read_sections(code: bytes) -> list[_Section]:
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < 64:
        raise CompileError("object is not 64-bit little-endian ELF", op="elf")
    kind, machine = struct.unpack_from("<HH", code, 16)
    if (kind, machine) != (1, 62):
        raise CompileError(
            f"object is not relocatable x86-64 (type {kind}, machine {machine})", op="elf"
        )
    (table,) = struct.unpack_from("<Q", code, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", code, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", code, table + i * entry_bytes) for i in range(count)
    ]
    names_offset = headers[names_index][4]
    sections = []
    for name, type_, flags, _, offset, nbytes, link_, info, align, _ in headers:
        text = _string(code, names_offset + name)
        data = b"" if type_ == _SHT_NOBITS else code[offset : offset + nbytes]
        sections.append(_Section(text, type_, flags, data, nbytes, link_, info, max(align, 1)))
    return sections


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode("ascii", "replace")


def _read_symbols(sections: list[_Section]) -> list[_Symbol]:
    for section in sections:
        if section.type == _SHT_SYMTAB:
            names = sections[section.link].data
            return [
                _Symbol(_string(names, name), index, value)
                for name, _, _, index, value, _ in struct.iter_unpack("<IBBHQQ", section.data)
            ]
    raise CompileError("object has no symbol table", op="elf")


def _is_loaded(section: _Section) -> bool:
    # Unwind tables are of no use: no exception passes through a kernel.
    return bool(section.flags & _SHF_ALLOC) and section.name != ".eh_frame" and section.nbytes > 0


def _refuse_state(sections: list[_Section]) -> None:
    for section in sections:
        # .data.rel.ro is writable to a dynamic linker only: constants that hold addresses.
        constant = section.name.startswith(".data.rel.ro")
        if _is_loaded(section) and section.flags & (_SHF_WRITE | _SHF_TLS) and not constant:
            raise CompileError(f"object has writable data ({section.name})", op=section.name)


_Relocation = tuple[int, int, int, _Symbol, int]


def _read_relocations(sections: list[_Section], symbols: list[_Symbol]) -> list[_Relocation]:
    """All (section, offset, type, symbol, addend) of loaded sections."""
    found: list[_Relocation] = []
    for section in sections:
        if section.type not in (_SHT_REL, _SHT_RELA) or not _is_loaded(sections[section.info]):
            continue
        if section.type == _SHT_REL:
            raise CompileError(f"object has relocations without addends ({section.name})", op="elf")
        for offset, info, addend in struct.iter_unpack("<QQq", section.data):
            type_, symbol, patched = info & 0xFFFFFFFF, symbols[info >> 32], sections[section.info]
            if type_ not in _FIELDS:
                raise CompileError(
                    f"object has a relocation of type {type_} against {symbol.name!r}",
                    op=symbol.name,
                )
            if offset + struct.calcsize(_FIELDS[type_][0]) > patched.nbytes:
                raise CompileError(f"relocation outside {patched.name}", op=symbol.name)
            found.append((section.info, offset, type_, symbol, addend))
    return found


def _lay_out(sections: list[_Section], pad_bytes: int) -> tuple[dict[int, int], int, int, int]:
    """Returns (offset of each loaded section, offset of the stubs, end of code, total bytes):
    padding, code, stubs, then from a new page the constants."""
    loaded = [(i, s) for i, s in enumerate(sections) if _is_loaded(s)]
    offsets: dict[int, int] = {}
    position = round_up(pad_bytes, CODE_ALIGN_BYTES)
    for index, section in loaded:
        if section.flags & _SHF_EXEC:
            position = round_up(position, max(section.align, CODE_ALIGN_BYTES))
            offsets[index] = position
            position += section.nbytes
    stubs_at = round_up(position, _STUB_BYTES)
    code_end = position = round_up(stubs_at + _STUB_BYTES * len(LIBC_SYMBOLS), PAGE_BYTES)
    for index, section in loaded:
        if not section.flags & _SHF_EXEC:
            position = round_up(position, max(section.align, CODE_ALIGN_BYTES))
            offsets[index] = position
            position += section.nbytes
    return offsets, stubs_at, code_end, round_up(position, PAGE_BYTES)


def _write_stubs(address: int) -> dict[str, int]:
    """Jumps to the C library, which may lie further off than a call reaches."""
    stubs = {}
    for name in sorted(LIBC_SYMBOLS):
        target = ctypes.cast(getattr(libc(), name), ctypes.c_void_p).value or 0
        ctypes.memmove(address, _JUMP + struct.pack("<Q", target), len(_JUMP) + 8)
        stubs[name] = address
        address += _STUB_BYTES
    return stubs


def _resolve(symbol: _Symbol, places: dict[int, int], stubs: dict[str, int]) -> int:
    if symbol.section == _SHN_UNDEF and symbol.name in stubs:
        return stubs[symbol.name]
    if symbol.section == _SHN_ABS:
        return symbol.value
    if symbol.section == _SHN_UNDEF or symbol.section >= _SHN_LORESERVE:
        raise CompileError(f"object needs {symbol.name}, which it does not hold", op=symbol.name)
    if symbol.section not in places:
        raise CompileError(f"object refers to {symbol.name} in no loaded section", op=symbol.name)
    return places[symbol.section] + symbol.value


def _field(place: int, type_: int, value: int, name: str) -> bytes:
    """The bytes a relocation puts at ``place``; ``value`` is symbol plus addend."""
    fmt, relative = _FIELDS[type_]
    try:
        return struct.pack(fmt, value - place if relative else value)
    except struct.error:
        raise CompileError(
            f"relocation of type {type_} against {name!r} is out of range", op=name
        ) from None
