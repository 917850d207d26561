"""A conversation with a model as JSON fields: what ``show SESSION`` tells people or prints."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelsmith.model import CallRecord, Price, SessionRecord, ToolDone, Usage, cost_usd
from kernelsmith.wire.answer import Answer
from kernelsmith.wire.blocks import Block
from kernelsmith.wire.recorded import read_response

if TYPE_CHECKING:
    from decimal import Decimal

    from kernelsmith.lineage.spending import SessionBrief


def usage_fields(usage: Usage) -> dict[str, int]:
    """Tokens in the JSON contract."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write_5m": usage.cache_write_5m,
        "cache_write_1h": usage.cache_write_1h,
        "tokens": usage.tokens,
    }


def brief_fields(brief: "SessionBrief") -> dict[str, Any]:
    """A conversation in brief, in the JSON contract of ``show RUN``."""
    ended = None if brief.end is None else {"reason": brief.end, "message": brief.end_message}
    return {
        "id": brief.id,
        "task": brief.task,
        "ordinal": brief.ordinal,
        "parent": brief.parent,
        "model": brief.model,
        "started_at": brief.started_at,
        "turns": brief.turns,
        "calls": brief.calls,
        "answers": brief.answers,
        "submissions": brief.submissions,
        "accepted": brief.accepted,
        "usage": usage_fields(brief.usage),
        "cost_usd": brief.cost_usd,
        "rehearsal": brief.rehearsal,
        "end": ended,
    }


def session_fields(
    record: SessionRecord,
    brief: "SessionBrief",
    *,
    prices: Mapping[str, Price],
    submitted: Sequence[Mapping[str, Any]],
    rehearsal: bool,
) -> dict[str, Any]:
    """The JSON contract of ``show SESSION``: everything that was said, call by call."""
    start = record.start
    return {
        **brief_fields(brief),
        "run": brief.run_id,
        "rehearsal": rehearsal or brief.rehearsal,
        "prompt": "" if start is None else start.prompt,
        "facts": {} if start is None else dict(start.facts),
        "opening": [] if start is None else _said_by_user(start.opening, "opening"),
        "submitted": [dict(each) for each in submitted],
        "exchanges": list(_exchanges(record, prices)),
    }


def _exchanges(record: SessionRecord, prices: Mapping[str, Price]) -> Iterator[dict[str, Any]]:
    """One a request and its retries; each call of a foreign client is one."""
    asked = "" if record.start is None else record.start.model
    counted = enumerate(record.calls)
    grouped = itertools.groupby(
        counted, lambda item: (item[1].sent.turn, item[0] if item[1].sent.turn is None else 0)
    )
    for ordinal, ((turn, _), items) in enumerate(grouped):
        calls = [call for _, call in items]
        yield {
            "turn": ordinal if turn is None else turn,
            "user": _said_by_user(calls[0].sent.request, "request"),
            "calls": [_call(call, asked, prices) for call in calls],
            "results": [_result(each) for each in record.results if each.turn == turn],
        }


def _call(call: CallRecord, asked: str, prices: Mapping[str, Price]) -> dict[str, Any]:
    sent = call.sent
    return {
        "id": call.id,
        "attempt": sent.attempt,
        "method": sent.method,
        "path": sent.path,
        "headers": [list(pair) for pair in sent.headers],
        "dropped": list(sent.dropped),
        "request_bytes": len(sent.request),
        "answer": _answer(call, asked, prices),
    }


def _answer(call: CallRecord, asked: str, prices: Mapping[str, Price]) -> dict[str, Any] | None:
    answered = call.answer
    if answered is None:
        return None
    read = (
        Answer()
        if answered.status is None
        else read_response(answered.status, answered.headers, answered.body)
    )
    error = None
    if read.error is not None:
        error = {"kind": read.error.kind, "message": read.error.message}
    return {
        "status": answered.status,
        "complete": answered.complete,
        "received": answered.complete and read.received,
        "error": answered.error,
        "server_said": error,
        "headers": [list(pair) for pair in answered.headers],
        "body_bytes": len(answered.body),
        "delivered_bytes": answered.delivered_bytes,
        "first_byte_s": answered.first_byte_s,
        "seconds": answered.seconds,
        "message_id": answered.message_id,
        "model": answered.model,
        "stop_reason": answered.stop_reason,
        "usage": usage_fields(answered.usage),
        "cost_usd": _cost(answered.usage, prices.get(asked or answered.model)),
        "said": [_block(block) for block in read.blocks],
    }


def _cost(usage: Usage, price: Price | None) -> "Decimal | None":
    return None if price is None else cost_usd(usage, price)


def _block(block: Block) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": block.kind}
    if block.kind == "tool_use":
        fields |= {"id": block.tool_use_id, "name": block.tool_name, "input": block.tool_input}
        fields |= {"problem": block.problem, "written": block.text} if block.problem else {}
    elif block.kind == "other":
        fields["raw"] = block.raw.decode("utf-8", "replace")
    else:
        fields["text"] = block.text
    return fields


def _result(done: ToolDone) -> dict[str, Any]:
    return {
        "tool_use_id": done.tool_use_id,
        "name": done.name,
        "is_error": done.is_error,
        "seconds": done.seconds,
        "text": done.text,
        "facts": dict(done.facts),
    }


def _said_by_user(body: bytes, what: str) -> list[dict[str, Any]]:
    """Content of the last message of a request, or of a message alone; what cannot be read is
    told by its size."""
    try:
        value = json.loads(body, strict=False)
        message = value["messages"][-1] if "messages" in value else value
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        return [dict(block) for block in content]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return [{"type": f"unreadable {what}", "bytes": len(body)}] if body else []
