"""Content blocks of an answer: what they say, and the JSON that is sent back for them.

Text, thinking and signatures come as JSON strings in pieces and are written once more, in one
spelling. A tool's input is the model's own text and stays as it is, byte for byte. Keys stand in a
fixed order; keys that are not known here follow, as they came.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from kernelsmith.wire.canonical import dumps, encoded, paired

BlockKind = Literal["text", "thinking", "redacted_thinking", "tool_use", "other"]

UNSIGNED = "unsigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One content block. ``raw``: the JSON to send back. ``text``: what it says; of a tool_use,
    its input as the model wrote it. ``problem``: why a tool's input is no JSON object (then
    ``tool_input`` is None and ``raw`` quotes the text), or ``UNSIGNED`` of a thinking block."""

    kind: BlockKind
    raw: bytes
    text: str = ""
    tool_use_id: str = ""
    tool_name: str = ""
    tool_input: dict[str, Any] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A block as it came: the members of its first object as exact JSON text, and what its deltas
    add. ``partial`` None: no delta of input came."""

    start: dict[str, str]
    text: str = ""
    signature: str = ""
    partial: str | None = None
    citations: tuple[str, ...] = ()


def build(pieces: Pieces, spare_id: str) -> Block:
    """The block of these pieces. ``spare_id``: the id of a tool_use to which the server gave none.

    Raises:
        ValueError: deltas that do not fit the block.
    """
    kind = _string(pieces.start, "type")
    if not kind:
        raise ValueError("a block without a type")
    if pieces.partial is not None and not ("input" in pieces.start or kind == "tool_use"):
        raise ValueError(f"input deltas for a block of type {kind!r}")
    if pieces.text and kind not in ("text", "thinking"):
        raise ValueError(f"text deltas for a block of type {kind!r}")
    if kind == "text":
        return _text(pieces)
    if kind == "thinking":
        return _thinking(pieces)
    if kind == "redacted_thinking":
        known = {"type": '"redacted_thinking"', "data": dumps_text(_string(pieces.start, "data"))}
        return Block(kind="redacted_thinking", raw=_object(known, pieces.start))
    if kind == "tool_use":
        return _tool_use(pieces, spare_id)
    start = dict(pieces.start)
    if pieces.partial is not None:
        start["input"], _, _ = _input(pieces.partial)
    return Block(kind="other", raw=_object(start, {}))


def dumps_text(value: Any) -> str:
    """Canonical JSON as text."""
    return dumps(value).decode("utf-8")


def _text(pieces: Pieces) -> Block:
    text = paired(_string(pieces.start, "text") + pieces.text)
    known = {"type": '"text"', "text": dumps_text(text)}
    if pieces.citations:
        known["citations"] = "[" + ",".join(pieces.citations) + "]"
    return Block(kind="text", raw=_object(known, pieces.start), text=text)


def _thinking(pieces: Pieces) -> Block:
    text = paired(_string(pieces.start, "thinking") + pieces.text)
    signature = pieces.signature or _string(pieces.start, "signature")
    known = {"type": '"thinking"', "thinking": dumps_text(text)}
    if signature or "signature" in pieces.start:
        known["signature"] = dumps_text(signature)
    raw = _object(known, pieces.start)
    return Block(kind="thinking", raw=raw, text=text, problem="" if signature else UNSIGNED)


def _tool_use(pieces: Pieces, spare_id: str) -> Block:
    first = pieces.start.get("input", "")
    given = pieces.partial or ("" if first in ("null", "{}") else first)
    written, value, problem = _input(given)
    text = paired(given)
    tool_use_id = _string(pieces.start, "id") or spare_id
    name = _string(pieces.start, "name")
    known = {
        "type": '"tool_use"',
        "id": dumps_text(tool_use_id),
        "name": dumps_text(name),
        "input": written,
    }
    return Block(
        kind="tool_use",
        raw=_object(known, pieces.start),
        text=text,
        tool_use_id=tool_use_id,
        tool_name=name,
        tool_input=value,
        problem=problem,
    )


def _input(given: str) -> tuple[str, dict[str, Any] | None, str]:
    """A tool's input: (JSON to send back, its value, what is wrong with it)."""
    given = paired(given)
    if not given.strip(" \t\r\n"):
        return "{}", {}, ""
    try:
        value = json.loads(given, parse_constant=_no_constant)
        problem = "" if isinstance(value, dict) else "the input is no JSON object"
    except (ValueError, RecursionError) as error:
        value, problem = None, f"the input is no JSON: {error}"
    if problem:
        return dumps_text({"unparsable": given}), None, problem
    return given, value, ""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _string(start: dict[str, str], key: str) -> str:
    value = json.loads(start.get(key, '""'))
    return value if isinstance(value, str) else ""


def _object(known: dict[str, str], start: dict[str, str]) -> bytes:
    """The object of these members: the known ones first, then others of ``start`` but nulls."""
    others = {k: v for k, v in start.items() if k not in known and v != "null"}
    if known.get("type") == '"thinking"':
        others.pop("signature", None)
    body = ",".join(f"{dumps_text(key)}:{value}" for key, value in {**known, **others}.items())
    return encoded("{" + body + "}")


def spare_tool_use_id(body: bytes, index: int) -> str:
    """An id for a tool_use without one: the same whenever the same answer is read."""
    return f"toolu_{hashlib.sha256(body).hexdigest()[:20]}{index:02d}"
