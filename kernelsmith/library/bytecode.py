"""Is a ``.pyc`` what Python makes of a source? Read without executing or unmarshalling it:
``marshal`` is not safe on what somebody else wrote."""

import importlib.util
import marshal
import struct
from collections.abc import Callable
from typing import Any

HEAD = 16
DEEPEST = 200
_REF = 0x80
_NUMBERS = {b"i": "<i", b"g": "<d", b"y": "<dd"}
_SINGLE = (b"N", b"F", b"T", b".", b"S")
_SHORT = (b"z", b"Z")
_LONG = (b"s", b"t", b"u", b"a", b"A")
_CODE_NUMBERS = ("argcount", "posonlyargcount", "kwonlyargcount", "stacksize", "flags")
_CODE_OBJECTS = (
    *("code", "consts", "names", "localsplusnames", "localspluskinds"),
    *("filename", "name", "qualname", "firstlineno", "linetable", "exceptiontable"),
)


def is_of(data: bytes, source: bytes, optimize: int) -> bool:
    """Whether byte code is that of a source, for this very Python.

    Args:
        data: the ``.pyc``'s bytes. Those of another Python are not what is made here.
        optimize: 0, or the number after ``.opt-`` in the file's name.
    """
    if data[:4] != importlib.util.MAGIC_NUMBER:
        return False
    try:
        made = compile(source, "", "exec", dont_inherit=True, optimize=optimize)
        return bool(_tree(data[HEAD:]) == _tree(marshal.dumps(made)))
    except (SyntaxError, ValueError, IndexError, struct.error, RecursionError, MemoryError):
        return False


def _tree(data: bytes) -> Any:
    """The objects of a marshalled module as nested tuples, without its file's name.

    Raises:
        ValueError, IndexError, struct.error: it is none, or of kinds that no module has.
    """
    at = 0
    seen: list[Any] = []

    def take(count: int) -> bytes:
        nonlocal at
        if count < 0 or at + count > len(data):
            raise ValueError("cut short")
        at += count
        return data[at - count : at]

    def number(form: str = "<i") -> Any:
        return struct.unpack(form, take(struct.calcsize(form)))

    def read(depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("too deep")
        (first,) = take(1)
        kind = bytes([first & ~_REF])
        if kind == b"r":
            return seen[number()[0]]
        place = len(seen)
        if first & _REF:
            seen.append(None)
        found = (kind, _value(kind, take, number, lambda: read(depth + 1)))
        if kind in (b"t", b"A", b"Z", b"a", b"z", b"u"):  # interned or not, short or long
            text = found[1]
            found = (b"u", text.decode("utf-8" if kind in (b"t", b"u") else "latin-1", "replace"))
        if first & _REF:
            seen[place] = found
        return found

    return read(0)


def _value(
    kind: bytes,
    take: Callable[[int], bytes],
    number: Callable[..., Any],
    read: Callable[[], Any],
) -> Any:
    if kind in _SINGLE:
        return ()
    if kind in _NUMBERS:
        return number(_NUMBERS[kind])
    if kind == b"l":
        (count,) = number()
        return count, take(2 * abs(count))
    if kind in _SHORT:
        return take(take(1)[0])
    if kind in _LONG:
        return take(number()[0])
    if kind in (b")", b"("):
        count = take(1)[0] if kind == b")" else number()[0]
        return tuple(read() for _ in range(count))
    if kind == b">":
        return tuple(sorted(repr(read()) for _ in range(number()[0])))
    if kind == b"c":
        numbers = [number() for _ in _CODE_NUMBERS]
        parts = [number() if name == "firstlineno" else read() for name in _CODE_OBJECTS]
        named = dict(zip(_CODE_OBJECTS, parts, strict=True))
        return tuple(numbers), tuple(named[name] for name in _CODE_OBJECTS if name != "filename")
    raise ValueError(f"marshal type {kind!r}")
