"""JSON as this project writes it on the wire: one spelling of a value, and exact slices of foreign
text where a value must not be spelled anew."""

import json
import re
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")
# Values are cut out, not read: an integer of thousands of digits, too many for Python, is text.
_DECODER = json.JSONDecoder(parse_int=len)


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8, keys in their order. A lone surrogate stays an escape, as UTF-8 has
    no bytes for it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encoded(text)


def encoded(text: str) -> bytes:
    """UTF-8 of JSON text; a surrogate that is left alone becomes its JSON escape."""
    return paired(text).encode("utf-8", "backslashreplace")


def paired(text: str) -> str:
    """Text whose surrogate pairs are one character again: a pair may be cut over two deltas."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def members(text: str, start: int = 0) -> dict[str, str]:
    """The members of the JSON object at ``start``, each value as the exact text it has there.

    Raises:
        ValueError: there is no JSON object; a value is no JSON.
    """
    found: dict[str, str] = {}
    at = _expect(text, start, "{")
    if text[at : at + 1] == "}":
        return found
    while True:
        key, at = _DECODER.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError(f"a key that is no string at {at}")
        at = _expect(text, at, ":")
        _, end = _DECODER.raw_decode(text, at)
        found[key] = text[at:end]
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            return found
        at = _expect(text, at, ",")


def elements(text: str, start: int = 0) -> list[str]:
    """The elements of the JSON array at ``start``, each as the exact text it has there.

    Raises:
        ValueError: there is no JSON array; an element is no JSON.
    """
    found: list[str] = []
    at = _expect(text, start, "[")
    if text[at : at + 1] == "]":
        return found
    while True:
        _, end = _DECODER.raw_decode(text, at)
        found.append(text[at:end])
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            return found
        at = _expect(text, at, ",")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        raise ValueError(f"expected {sign!r} at {at}")
    return _skip(text, at + 1)
