"""A whole answer of the Messages API, streamed or not, from its decoded body.

Servers of other makers leave out ids, usage or pings and add fields of their own: all of that is
read. What cannot be sent back exactly (an unknown delta, a broken event) makes the answer
unfinished instead of being left out.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from kernelsmith.model import Usage
from kernelsmith.wire.blocks import Block, Pieces, build, spare_tool_use_id
from kernelsmith.wire.canonical import elements, members
from kernelsmith.wire.problems import ApiError, error_of_body, error_of_event, unreadable
from kernelsmith.wire.sse import Event, events
from kernelsmith.wire.usage import read_usage, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for a request. ``finished``: the message is whole (message_stop was seen, or
    the JSON is complete) and every block of it can be sent back. ``error``: the server's own, or
    why its answer cannot be read."""

    message_id: str = ""
    model: str = ""
    stop_reason: str = ""
    blocks: tuple[Block, ...] = ()
    usage: Usage = field(default_factory=Usage)
    error: ApiError | None = None
    finished: bool = False

    @property
    def received(self) -> bool:
        """A conversation can go on from it."""
        return self.finished and self.error is None

    @property
    def text(self) -> str:
        """All that its text blocks say."""
        return "".join(block.text for block in self.blocks if block.kind == "text")


def parse_answer(status: int, content_type: str, body: bytes) -> Answer:
    """The answer in a decoded body. Never raises: a body that is no answer is an ``error``."""
    if not 200 <= status < 300:
        return Answer(error=error_of_body(status, body), finished=True)
    if _is_stream(content_type, body):
        return _streamed(body)
    return _whole(status, body)


def _is_stream(content_type: str, body: bytes) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return True
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    return kind != "application/json" and start.startswith((b"event:", b"data:", b":"))


def _whole(status: int, body: bytes) -> Answer:
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        message = members(text)
        value = json.loads(text, parse_int=whole_number)
        if value.get("type") == "error" or (
            isinstance(value.get("error"), dict) and "content" not in message
        ):
            return Answer(error=error_of_event(value), finished=True)
        blocks = tuple(
            build(Pieces(start=members(one)), spare_tool_use_id(body, index))
            for index, one in enumerate(elements(message.get("content", "")))
        )
    except (ValueError, RecursionError) as error:
        return Answer(error=unreadable(f"no message: {error}", status))
    return Answer(
        **_head(value), blocks=blocks, usage=read_usage(value.get("usage")), finished=True
    )


def _head(message: dict[str, Any]) -> dict[str, Any]:
    pairs = (("message_id", "id"), ("model", "model"), ("stop_reason", "stop_reason"))
    found = {name: message.get(key) for name, key in pairs}
    return {name: value for name, value in found.items() if isinstance(value, str)}


@dataclass(slots=True, kw_only=True)
class _Open:
    """A block of a stream while its deltas come."""

    start: dict[str, str]
    texts: list[str] = field(default_factory=list)
    partials: list[str] = field(default_factory=list)
    citations: list[str] = field(default_factory=list)
    signature: str = ""

    def pieces(self) -> Pieces:
        return Pieces(
            start=self.start,
            text="".join(self.texts),
            signature=self.signature,
            partial="".join(self.partials) if self.partials else None,
            citations=tuple(self.citations),
        )


@dataclass(slots=True, kw_only=True)
class _Stream:
    """What was read of a stream so far."""

    head: dict[str, Any] = field(default_factory=dict)
    usages: list[Any] = field(default_factory=list)
    blocks: dict[int, _Open] = field(default_factory=dict)
    error: ApiError | None = None
    finished: bool = False


def _streamed(body: bytes) -> Answer:
    stream = _Stream()
    for event in events(body):
        if event.data.strip() == "[DONE]":
            continue
        try:
            _take(stream, event)
        except (ValueError, RecursionError) as error:
            stream.error = unreadable(f"event {event.name}: {error}", 200)
        if stream.error is not None or stream.finished:
            break
    try:
        blocks = tuple(
            build(opened.pieces(), spare_tool_use_id(body, index))
            for index, opened in sorted(stream.blocks.items())
        )
    except (ValueError, RecursionError) as error:
        blocks = ()
        stream.error = stream.error or unreadable(f"a block: {error}", 200)
    return Answer(
        **stream.head,
        blocks=blocks,
        usage=read_usage(*stream.usages),
        error=stream.error,
        finished=stream.finished and stream.error is None,
    )


def _take(stream: _Stream, event: Event) -> None:
    """Raises ValueError for an event that cannot be read or does not fit."""
    value = json.loads(event.data, parse_int=whole_number)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    kind = value.get("type") or event.name
    if kind == "content_block_delta":
        index = _index(value, len(stream.blocks) - 1)
        if index not in stream.blocks:
            raise ValueError(f"a delta for block {index}, which has not begun")
        _add(stream.blocks[index], value.get("delta"), event.data)
    elif kind == "content_block_start":
        index = _index(value, len(stream.blocks))
        if index in stream.blocks:
            raise ValueError(f"block {index} starts twice")
        start = members(event.data).get("content_block", "")
        stream.blocks[index] = _Open(start=members(start))
    elif kind == "message_start":
        message = value.get("message")
        if isinstance(message, dict):
            stream.head |= _head(message)
            stream.usages.append(message.get("usage"))
    elif kind == "message_delta":
        delta = value.get("delta")
        stream.head |= _head(delta) if isinstance(delta, dict) else {}
        stream.usages.append(value.get("usage"))
    elif kind == "message_stop":
        stream.finished = True
    elif kind == "error" or (kind == "message" and "error" in value):
        stream.error = error_of_event(value)


def _index(value: dict[str, Any], otherwise: int) -> int:
    index = value.get("index", otherwise)
    if not isinstance(index, int):
        raise ValueError(f"block index {index!r}")
    return index


def _add(opened: _Open, delta: Any, data: str) -> None:
    match delta:
        case {"type": "input_json_delta", "partial_json": str(partial)}:
            opened.partials.append(partial)
        case {"type": "text_delta", "text": str(text)}:
            opened.texts.append(text)
        case {"type": "thinking_delta", "thinking": str(text)}:
            opened.texts.append(text)
        case {"type": "signature_delta", "signature": str(signature)}:
            opened.signature = signature
        case {"type": "citations_delta", "citation": dict()}:
            opened.citations.append(members(members(data)["delta"])["citation"])
        case {"type": str(kind)}:
            raise ValueError(f"a delta of type {kind!r}, which cannot be sent back")
        case _:
            raise ValueError("a delta without a type")
