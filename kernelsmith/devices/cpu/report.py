"""What a running kernel says: ``tl.device_print`` and a failed ``tl.device_assert``.

A kernel that can say something has *sites*, one for each such op, numbered. The host puts the
address of a function into the header of the arena before each run, behind a mark that no other
contents of an arena has; the kernel calls it where it has something to say. Where no one listens,
prints are dropped and a failed assertion still ends the kernel's run at once.

Printed on standard error, a line for each element, in row-major order::

    pid (2, 0, 0) idx (0, 3) x: 1.5

without ``idx`` for a scalar; with ``(operand 1)`` before the value where several are printed.
Floats are the shortest decimals that read back as the same number of their type. The lines of one
program's op stay together.
"""

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from kernelsmith.devices.cpu.ttir import BITS, EIGHT_BITS
from kernelsmith.errors import DeviceAssertError

#: Where in the arena the mark and the function's address are.
MARK_AT, FUNCTION_AT, HEADER_BYTES = 64, 72, 128
MARK = 0x6B73_7265_706F_7274
_TYPE = ctypes.CFUNCTYPE(
    None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p
)
_WORDS = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A ``tt.print`` or ``tt.assert``. ``text``: prefix or message; ``line``: Python source line;
    ``elems``, ``shapes``, ``signed``: of the printed operands; ``shapes[0]`` of the condition."""

    kind: str
    text: str
    line: str
    elems: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    signed: tuple[bool, ...] = ()
    hexadecimal: bool = False


def as_stats(sites: Sequence[Site]) -> list[dict[str, Any]]:
    """Sites as JSON values, for an object's ``stats``."""
    return [asdict(site) for site in sites]


def from_stats(stats: Sequence[dict[str, Any]]) -> tuple[Site, ...]:
    """The sites again, also after a round trip through JSON."""
    return tuple(
        Site(
            kind=one["kind"],
            text=one["text"],
            line=one["line"],
            elems=tuple(one["elems"]),
            shapes=tuple(tuple(shape) for shape in one["shapes"]),
            signed=tuple(one["signed"]),
            hexadecimal=one["hexadecimal"],
        )
        for one in stats
    )


class Reporter:
    """Listens to one kernel. Safe for runs on several threads."""

    __slots__ = ("_failure", "_function", "_lock", "_sites", "_symbol")

    def __init__(self, symbol: str, sites: Sequence[Site]) -> None:
        self._symbol = symbol
        self._sites = tuple(sites)
        self._lock = threading.Lock()
        self._failure: DeviceAssertError | None = None
        self._function = _TYPE(self._hear)

    def arm(self, arena: int) -> None:
        """Writes the header of an arena; needed before each run, as kernels may share it."""
        address = ctypes.cast(self._function, ctypes.c_void_p).value or 0
        ctypes.memmove(arena + MARK_AT, _WORDS.pack(MARK, address), _WORDS.size)

    def disarm(self, arena: int) -> None:
        """Takes the header back: the arena may outlive this object."""
        ctypes.memset(arena + MARK_AT, 0, _WORDS.size)

    def check(self) -> None:
        """After a run.

        Raises:
            DeviceAssertError: an assertion failed; the first that was heard.
        """
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _hear(self, number: int, x: int, y: int, z: int, data: int | None) -> None:
        site, program = self._sites[number], (x, y, z)
        if site.kind == "print":
            text = "".join(f"{line}\n" for line in _printed(site, program, data or 0))
            with self._lock:
                sys.stderr.write(text)
                sys.stderr.flush()
            return
        at = ctypes.c_int64.from_address(data or 0).value
        error = _failed(self._symbol, site, program, at)
        with self._lock:
            self._failure = self._failure or error


def heard(reporter: Reporter, arena: int, call: Callable[[], object]) -> None:
    """Runs ``call``, which runs the reporter's kernel with this arena, and hears what it says."""
    reporter.arm(arena)
    try:
        call()
    finally:
        reporter.disarm(arena)


def _failed(symbol: str, site: Site, program: tuple[int, ...], at: int) -> DeviceAssertError:
    index = ", ".join(map(str, _unravel(at, site.shapes[0])))
    element = f" at element ({index})" if site.shapes[0] else ""
    where = f" ({site.line})" if site.line else ""
    return DeviceAssertError(
        f"device_assert failed in program {program} of {symbol}{element}: {site.text}{where}",
        line=site.line,
        program=program,
        hint="the kernel's own assertion; its outputs are not complete",
    )


def _unravel(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        index.insert(0, at % size)
        at //= size
    return tuple(index)


def _printed(site: Site, program: tuple[int, ...], data: int) -> Iterator[str]:
    """The lines of one print."""
    head = f"pid {program}"
    if not site.elems:
        yield f"{head}{site.text}"
        return
    for number, (elem, shape, signed) in enumerate(
        zip(site.elems, site.shapes, site.signed, strict=True)
    ):
        base = ctypes.c_uint64.from_address(data + 8 * number).value
        name = f"(operand {number}) " if len(site.elems) > 1 else ""
        for at, index in enumerate(product(*map(range, shape))):
            value = _value(elem, signed, site.hexadecimal, base, at)
            place = f" idx ({', '.join(map(str, index))})" if shape else ""
            yield f"{head}{place}{site.text}{name}{value}"


def _value(elem: str, signed: bool, hexadecimal: bool, base: int, at: int) -> str:
    """One element as text."""
    size = max(1, BITS[elem] // 8)
    raw = ctypes.string_at(base + size * at, size)
    word = int.from_bytes(raw, "little")
    if hexadecimal or elem == "ptr":
        return f"0x{word:0{2 * size}x}"
    if elem == "i1":
        return str(bool(word))
    if elem.startswith("i"):
        return str(int.from_bytes(raw, "little", signed=signed))
    return _float(elem, word)


def _float(elem: str, word: int) -> str:
    if elem == "f64":
        return repr(struct.unpack("<d", struct.pack("<Q", word))[0])
    if elem in EIGHT_BITS:
        # Imported here: timing sessions load kernels and none of the compiler.
        from kernelsmith.devices.cpu.lower_narrow import value_of

        return repr(value_of(elem, word))
    value = float(_decoded(elem, word))
    if value - value != 0:
        return repr(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _encoded(elem, float(text)) == word:
            return repr(float(text))
    return repr(value)


def _decoded(elem: str, word: int) -> float:
    if elem == "f16":
        half: float = struct.unpack("<e", struct.pack("<H", word))[0]
        return half
    single: float = struct.unpack("<f", struct.pack("<I", word << 16 if elem == "bf16" else word))[
        0
    ]
    return single


def _encoded(elem: str, value: float) -> int:
    try:
        if elem == "f16":
            return int.from_bytes(struct.pack("<e", value), "little")
        word = int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return -1
    return word if elem == "f32" else (word + 0x7FFF + ((word >> 16) & 1)) >> 16
