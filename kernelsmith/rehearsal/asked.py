"""A request to the Messages API, read and held to the rules of the API."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelsmith.model import Usage
from kernelsmith.rehearsal.replies import BYTES_A_TOKEN

MAX_BODY_BYTES = 32 * 2**20
OPENING = re.compile(r"Task: (\S+)\. Session: (\d+)\. Parent: ([0-9a-f]+)\.")
_CANDIDATE = re.compile(r"\bcandidate\W+([0-9a-f]{16})\b", re.IGNORECASE)
_ANY_ID = re.compile(r"\b([0-9a-f]{16})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a request is refused, as the API words it."""

    status: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool said, as the model is told."""

    name: str
    text: str
    is_error: bool

    @property
    def candidate(self) -> str:
        """The candidate it speaks of; "" if of none."""
        found = _CANDIDATE.search(self.text) or _ANY_ID.search(self.text)
        return found.group(1) if found else ""

    def says(self, *words: str) -> bool:
        """Whether one of the words is in it."""
        return any(word in self.text for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The user's message that followed a turn: results in order, and text."""

    results: tuple[ToolResult, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request. ``key``: hash of its bytes. ``task`` "": the opening is not the agent's.
    ``feedback``: one item for each turn that the conversation already has."""

    key: str
    task: str
    session: int
    parent: str
    feedback: tuple[Feedback, ...]
    stream: bool
    thinking: bool
    prompt: Usage

    @property
    def turn(self) -> int:
        """How many turns came before, from 0."""
        return len(self.feedback)


def read(body: bytes) -> Asked | Fault:
    """Reads a request body."""
    if len(body) > MAX_BODY_BYTES:
        return Fault(status=413, kind="request_too_large", message="Request exceeds 32 MB")
    try:
        request = json.loads(body)
    except ValueError as error:
        return _invalid(f"The request body is not valid JSON: {error}")
    fault = _check(request)
    if fault is not None:
        return fault
    messages = request["messages"]
    opening = OPENING.match(_text(messages[0]["content"]))
    task, session, parent = opening.groups() if opening else ("", "0", "")
    thinking = request.get("thinking") or {"type": "disabled"}
    return Asked(
        key=hashlib.sha256(body).hexdigest(),
        task=task,
        session=int(session),
        parent=parent,
        feedback=_feedback(messages),
        stream=bool(request.get("stream")),
        thinking=thinking.get("type") != "disabled",
        prompt=_prompt(request, body),
    )


def _check(request: Any) -> Fault | None:
    if not isinstance(request, dict):
        return _invalid("The request body must be an object")
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        if not isinstance(request.get(name), kind):
            return _invalid(f"{name}: Field required")
    if request["max_tokens"] < 1:
        return _invalid("max_tokens: must be greater than or equal to 1")
    if request["model"].startswith("no-such"):
        message = f"model: {request['model']}"
        return Fault(status=404, kind="not_found_error", message=message)
    return _check_messages(request["messages"])


def _check_messages(messages: list[Any]) -> Fault | None:
    if not messages:
        return _invalid("messages: at least one message is required")
    awaited: list[str] = []
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant") or not message.get("content"):
            return _invalid(f"messages.{index}: role and content are required")
        if index == 0 and role != "user":
            return _invalid("messages.0: the first message must be the user's")
        blocks = _blocks(message["content"])
        given = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
        if sorted(given, key=str) != sorted(awaited):
            return _invalid(
                f"messages.{index}: `tool_use` ids {awaited} need `tool_result` blocks "
                f"immediately after, found {given}"
            )
        awaited = [str(b.get("id")) for b in blocks if b.get("type") == "tool_use"]
        if any(not isinstance(b.get("input"), dict) for b in blocks if b.get("type") == "tool_use"):
            return _invalid(f"messages.{index}: tool_use.input: Input should be an object")
    return _invalid("messages: `tool_use` without `tool_result`") if awaited else None


def _feedback(messages: list[Any]) -> tuple[Feedback, ...]:
    found = []
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        names = {b["id"]: b["name"] for b in _blocks(message["content"]) if b["type"] == "tool_use"}
        after = messages[index + 1] if index + 1 < len(messages) else {"role": "assistant"}
        if after["role"] == "assistant":  # the turn was paused and is simply sent again
            found.append(Feedback())
            continue
        blocks = _blocks(after["content"])
        results = tuple(
            ToolResult(
                name=names.get(b["tool_use_id"], ""),
                text=_text(b.get("content", "")),
                is_error=bool(b.get("is_error")),
            )
            for b in blocks
            if b["type"] == "tool_result"
        )
        found.append(Feedback(results=results, text=_text(after["content"])))
    return tuple(found)


def _prompt(request: Mapping[str, Any], body: bytes) -> Usage:
    """Prompt tokens, counted from bytes. With caching, what the turn before had sent is read from
    the cache and the rest written to it, as if no entry ever expired."""
    total = len(body) // BYTES_A_TOKEN
    control = request.get("cache_control")
    if not control:
        return Usage(input=total)
    messages = request["messages"]
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=None)
    if last is None:
        read = 0
    else:
        new_bytes = len(json.dumps(messages[last:], ensure_ascii=False).encode())
        read = max(0, len(body) - new_bytes) // BYTES_A_TOKEN
    written = max(0, total - read - 3)
    if control.get("ttl") == "1h":
        return Usage(input=3, cache_read=read, cache_write_1h=written)
    return Usage(input=3, cache_read=read, cache_write_5m=written)


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)]


def _text(content: Any) -> str:
    return "\n".join(b.get("text", "") for b in _blocks(content) if b.get("type") == "text")


def _invalid(message: str) -> Fault:
    return Fault(status=400, kind="invalid_request_error", message=message)
