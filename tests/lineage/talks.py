"""Hand-made conversations for the record."""

import json
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kernelsmith.lineage.journal import LineageJournal
from kernelsmith.lineage.store import LineageStore
from kernelsmith.model import (
    END_OF_BODY,
    CallAnswered,
    CallSent,
    SessionEnd,
    SessionStart,
    ToolDone,
    Usage,
    candidate_id,
    new_candidate,
)
from tests.loop import fakes

TASK = fakes.make_task()
SEED = fakes.seed_of(TASK)
SESSION = "s0123456789a"
PREFIX = b'{"model":"m-1","system":"' + b"what keeps bits. " * 200 + b'","stream":true,"messages":['
OPENING = b'{"role":"user","content":[{"type":"text","text":"Task: toy. Session: 0. Parent: p."}]}'
RATES = dict.fromkeys(("cache_read", "cache_write_5m", "cache_write_1h"), "0")
AGENT = {
    "model": "m-1",
    "budget_usd": "5",
    "budget_tokens": None,
    "rehearsal": False,
    "prices": {"m-1": {"rates": {"input": "5", "output": "25", **RATES}, "long_above": None}},
}


def begin_run(store: LineageStore, **agent: Any) -> str:
    options = {"time_limit_s": 60.0, "agent": {**AGENT, **agent}}
    payload = fakes.run_payload([TASK], proposer="agent", options=options)
    return store.append("", "run", payload)


def start(run_id: str, session_id: str = SESSION, **more: Any) -> SessionStart:
    known: dict[str, Any] = {
        "ordinal": 0,
        "parent": SEED.id,
        "model": "m-1",
        "prompt": "h" * 16,
        "prefix": PREFIX,
        "opening": OPENING,
        "facts": {"effort": "high"},
    }
    return SessionStart(id=session_id, run_id=run_id, task="toy", **{**known, **more})


def sent(
    run_id: str, turn: int | None, request: bytes, session_id: str = SESSION, **more: Any
) -> CallSent:
    known: dict[str, Any] = {
        "attempt": None if turn is None else 0,
        "method": "POST",
        "path": "/v1/messages",
        "headers": (("content-type", "application/json"),),
        "dropped": ("x-api-key",),
    }
    return CallSent(
        run_id=run_id, session_id=session_id, turn=turn, request=request, **{**known, **more}
    )


def answered(call_id: str, body: bytes, **more: Any) -> CallAnswered:
    known: dict[str, Any] = {
        "status": 200,
        "headers": (("content-type", "text/event-stream"),),
        "complete": True,
        "delivered_bytes": len(body),
        "error": "",
        "first_byte_s": 0.25,
        "seconds": 1.5,
        "message_id": "msg_1",
        "model": "m-1-20260101",
        "stop_reason": "tool_use",
        "usage": Usage(input=1000, output=200, cache_read=3000),
    }
    return CallAnswered(call_id=call_id, body=body, **{**known, **more})


def done(turn: int, ordinal: int, tool_use_id: str, text: str, **more: Any) -> ToolDone:
    known: dict[str, Any] = {
        "session_id": SESSION,
        "name": "check",
        "is_error": False,
        "seconds": 0.5,
        "facts": {"status": "ok"},
    }
    return ToolDone(
        turn=turn, ordinal=ordinal, tool_use_id=tool_use_id, text=text, **{**known, **more}
    )


def end(reason: str = "finished", message: str = "nothing is left to try") -> SessionEnd:
    return SessionEnd(session_id=SESSION, reason=reason, message=message)


def body(fragments: list[bytes]) -> bytes:
    return PREFIX + b",".join(fragments) + END_OF_BODY


def message(role: str, text: str) -> bytes:
    value = {"role": role, "content": [{"type": "text", "text": text}]}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def stream(*blocks: dict[str, Any], stop_reason: str = "tool_use") -> bytes:
    """A streamed answer: text and thinking in one delta, a tool's input as ``partial_json``."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m-1-20260101"}}
    ]
    for index, block in enumerate(blocks):
        events += _block_events(index, block)
    events += [{"type": "message_delta", "delta": {"stop_reason": stop_reason}}]
    events += [{"type": "message_stop"}]
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode())
        for each in events
    )


def _block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    kind = block["type"]
    if kind == "tool_use":
        opened = {"type": kind, "id": block["id"], "name": block["name"], "input": {}}
        partial = block.get("partial") or json.dumps(block["input"])
        delta = {"type": "input_json_delta", "partial_json": partial}
    else:
        opened = {"type": kind, kind: ""}
        delta = {"type": f"{kind}_delta", kind: block[kind]}
    return [
        {"type": "content_block_start", "index": index, "content_block": opened},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


SOURCE = "".join(f"line_{number} = {number}\n" for number in range(40))
SUBMITTED = candidate_id(SOURCE)
OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
ODD = "look\x1b[2J \u202egnp\u200b\x9b31m \x00 and\r\nthis\x0cend\nverdict    accepted (cpu)"


def record_story(
    store: LineageStore,
    journal: LineageJournal,
    first_answer: Mapping[str, Any] = MappingProxyType({}),
    **agent: Any,
) -> str:
    """A run with one session: a check that breaks bits, a 529, a submission that wins, an end."""
    run_id = begin_run(store, **agent)
    journal.append(start(run_id)).result()
    first = journal.append(sent(run_id, 0, body([OPENING]))).result()
    thinking = {"type": "thinking", "thinking": "hm " * 100}
    check = {"type": "tool_use", "id": "toolu_1", "name": "check", "input": {"source": SOURCE}}
    said = stream(thinking, {"type": "text", "text": ODD}, check)
    journal.append(answered(first, said, **first_answer)).result()
    text = f"BITS_DIFFER {SUBMITTED}: case m16: y[0, 3]\x1b[31m"
    journal.append(done(0, 0, "toolu_1", text, is_error=True)).result()
    second = body([OPENING, message("assistant", ODD), message("user", "go on")])
    failed = journal.append(sent(run_id, 1, second)).result()
    facts: dict[str, Any] = {"status": 529, "usage": Usage(), "stop_reason": "", "model": ""}
    plain = (("content-type", "application/json"),)
    journal.append(answered(failed, OVERLOADED, headers=plain, **facts)).result()
    again = journal.append(sent(run_id, 1, second, attempt=1)).result()
    submit = {"type": "tool_use", "id": "toolu_2", "name": "submit"}
    submit |= {"input": {"candidate": SUBMITTED, "note": "tiles of 64\nfor every row"}}
    journal.append(answered(again, stream(submit))).result()
    submit_candidate(store, run_id)
    journal.append(done(1, 0, "toolu_2", "ACCEPTED", name="submit")).result()
    journal.append(sent(run_id, 2, second[:-2] + b"]}")).result()
    journal.append(end()).result()
    return run_id


def submit_candidate(store: LineageStore, run_id: str) -> None:
    note = "tiles\x1b]0;owned\x07 of 64\nverdict    accepted (cpu)"
    candidate = new_candidate(
        SOURCE,
        "toy",
        author="agent",
        parents=(SEED.id,),
        note=note,
        origin=f"{SESSION}/toolu_2",
    )
    store.append(run_id, "candidate", {"candidate": candidate, "normal_hash": "n1"})
    verdict = fakes.make_verdict(candidate, "ACCEPTED", against=SEED.id)
    facts = {"seconds": 2.5, "elapsed_s": 10.0, "gain_vs_seed": 1.05}
    store.append(run_id, "verdict", {"verdict": verdict, **facts})


def long_talk(turns: int) -> list[bytes]:
    """Requests of a conversation that grows by about 2 KB a turn."""
    rng = random.Random(3)
    fragments, bodies = [OPENING], []
    for turn in range(turns):
        bodies.append(body(fragments))
        fragments.append(message("assistant", f"turn {turn}: {rng.randbytes(600).hex()}"))
        fragments.append(message("user", f"result {turn}: {rng.randbytes(300).hex()}"))
    return bodies
