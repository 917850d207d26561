"""Answers of the Messages API as a server writes them."""

import json
from collections.abc import Sequence
from typing import Any


def event(kind: str, **fields: Any) -> bytes:
    """One server-sent event."""
    data = json.dumps({"type": kind, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def text(said: str, pieces: int = 3) -> list[dict[str, Any]]:
    """A text block: its start, then its deltas."""
    deltas = [{"type": "text_delta", "text": one} for one in cut(said, pieces)]
    return [{"type": "text", "text": ""}, *deltas]


def thinking(said: str, signature: str = "c2lnbmVk") -> list[dict[str, Any]]:
    """A thinking block; signature "" leaves it unsigned."""
    deltas = [{"type": "thinking_delta", "thinking": one} for one in cut(said, 2)]
    if signature:
        deltas.append({"type": "signature_delta", "signature": signature})
    return [{"type": "thinking", "thinking": "", "signature": ""}, *deltas]


def tool(
    name: str, given: str, tool_use_id: str = "toolu_1", pieces: int = 4, **more: Any
) -> list[dict[str, Any]]:
    """A tool_use block whose input is this text."""
    deltas = [{"type": "input_json_delta", "partial_json": one} for one in cut(given, pieces)]
    start = {"type": "tool_use", "id": tool_use_id, "name": name, "input": {}, **more}
    return [start, *deltas]


def message(
    *blocks: Sequence[dict[str, Any]],
    stop: str | None = "end_turn",
    usage: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
    end: bool = True,
) -> bytes:
    """A whole stream of these blocks."""
    started = {"input_tokens": 10, "output_tokens": 1} if usage is None else usage
    parts = [
        event(
            "message_start",
            message={"id": "msg_1", "model": "m", "role": "assistant", "usage": started},
        ),
        event("ping"),
    ]
    for index, (start, *deltas) in enumerate(blocks):
        parts.append(event("content_block_start", index=index, content_block=start))
        parts += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        parts.append(event("content_block_stop", index=index))
    delta_usage = {"output_tokens": 7} if more is None else more
    parts.append(event("message_delta", delta={"stop_reason": stop}, usage=delta_usage))
    parts += [event("message_stop")] if end else []
    return b"".join(parts)


def cut(said: str, pieces: int) -> list[str]:
    """A text in pieces; one piece may be empty."""
    size = max(1, -(-len(said) // pieces))
    return [said[at : at + size] for at in range(0, len(said), size)]
