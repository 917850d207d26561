"""What a reply consists of, and its bytes on the wire: server-sent events, or one JSON document."""

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kernelsmith.model import Usage
from kernelsmith.rehearsal import MODEL

StopReason = Literal[
    "end_turn", "tool_use", "max_tokens", "pause_turn", "refusal", "model_context_window_exceeded"
]
LONGEST_PIECE = 240
BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A thinking block; it is left out for a request that did not ask for thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool_use block. ``json_text``: its input as the model spells it, perhaps not JSON."""

    name: str
    json_text: str


Part = Text | Thought | ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the script."""

    parts: tuple[Part, ...]
    stop_reason: StopReason = "tool_use"


def stream_events(reply: Reply, key: str, usage: Usage, thinking: bool) -> Iterator[bytes]:
    """The reply as server-sent events, as the Messages API sends them.

    Args:
        key: 64 hex digits; ids, signatures and the places where tool input is split follow from it.
        usage: of the whole call.
        thinking: whether the request asked for thinking.
    """
    rng = random.Random(key)
    start = {**_envelope(key), "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = {**usage_document(usage), "output_tokens": 1}
    yield _event("message_start", {"message": start})
    parts = [part for part in reply.parts if thinking or not isinstance(part, Thought)]
    for index, part in enumerate(parts):
        block, deltas = _block(part, f"{key}{index}", rng)
        yield _event("content_block_start", {"index": index, "content_block": block})
        if index == 0:
            yield _event("ping", {})
        for delta in deltas:
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    ended = {"stop_reason": reply.stop_reason, "stop_sequence": None}
    yield _event("message_delta", {"delta": ended, "usage": usage_document(usage)})
    yield _event("message_stop", {})


def document(reply: Reply, key: str, usage: Usage, thinking: bool) -> bytes:
    """The reply to a request that did not ask for a stream."""
    content: list[dict[str, Any]] = []
    for index, part in enumerate(reply.parts):
        if isinstance(part, ToolCall):
            block = _tool_use(part, f"{key}{index}")
            content.append({**block, "input": _parsed(part.json_text)})
        elif isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif thinking:
            signature = _signature(f"{key}{index}")
            content.append({"type": "thinking", "thinking": part.text, "signature": signature})
    whole = {**_envelope(key), "content": content, "stop_reason": reply.stop_reason}
    return _json({**whole, "stop_sequence": None, "usage": usage_document(usage)})


def error_document(kind: str, message: str, request_id: str) -> bytes:
    """An error body of the Messages API."""
    error = {"type": kind, "message": message}
    return _json({"type": "error", "error": error, "request_id": request_id})


def error_event(kind: str, message: str) -> bytes:
    """An error inside a stream that began well."""
    return _event("error", {"error": {"type": kind, "message": message}})


def usage_document(usage: Usage) -> dict[str, Any]:
    """Usage as the Messages API words it."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write_5m + usage.cache_write_1h,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_5m,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def output_tokens(reply: Reply) -> int:
    """A plausible count, from the length of what is said."""
    texts = (p.json_text if isinstance(p, ToolCall) else p.text for p in reply.parts)
    return sum(12 + len(text) // BYTES_A_TOKEN for text in texts)


def _block(part: Part, key: str, rng: random.Random) -> tuple[dict[str, Any], list[dict[str, str]]]:
    match part:
        case Text(text):
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(text, rng)]
            return {"type": "text", "text": ""}, deltas
        case Thought(text):
            deltas = [{"type": "thinking_delta", "thinking": p} for p in _pieces(text, rng)]
            deltas.append({"type": "signature_delta", "signature": _signature(key)})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case ToolCall():
            pieces = ["", *_pieces(part.json_text, rng)]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            return _tool_use(part, key), deltas


def _pieces(text: str, rng: random.Random) -> Iterator[str]:
    """The text cut at odd places; the first backslash always falls on a cut, so that an escape of
    a tool's input is torn apart."""
    cut = text.find("\\") + 1
    for stretch in (text[:cut], text[cut:]):
        at = 0
        while at < len(stretch):
            size = rng.randint(1, LONGEST_PIECE)
            yield stretch[at : at + size]
            at += size


def _tool_use(part: ToolCall, key: str) -> dict[str, Any]:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return {"type": "tool_use", "id": f"toolu_{digest[:24]}", "name": part.name, "input": {}}


def _envelope(key: str) -> dict[str, Any]:
    return {"id": f"msg_{key[:24]}", "type": "message", "role": "assistant", "model": MODEL}


def _signature(key: str) -> str:
    return base64.b64encode(hashlib.sha512(key.encode()).digest()).decode()


def _parsed(json_text: str) -> Any:
    try:
        return json.loads(json_text)
    except ValueError:
        return {}  # one document has no place for input that is not JSON


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _json({"type": name, **data}))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
