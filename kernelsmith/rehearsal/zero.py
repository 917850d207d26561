"""The script "zero": endless small edits, each another program, at the least cost of serving.

For measuring what lies around a model. A turn of a session always gets the same bytes, found
without parsing the request: the opening's first line and the number of assistant turns decide.
"""

import hashlib
import json
import re
from collections.abc import Mapping

from kernelsmith.model import Usage
from kernelsmith.rehearsal.replies import BYTES_A_TOKEN, Reply, Text, ToolCall, stream_events

_OPENING = re.compile(rb"Task: (\w+)\. Session: (\d+)\. Parent: ([0-9a-f]+)\.")
_MESSAGES = re.compile(rb'"messages": ?\[')
_ASSISTANT = (b'"role":"assistant"', b'"role": "assistant"')
TURNS_A_SESSION = 1_000_000

# task: (a line of the seed that is there once, what comes before it). The extra select keeps every
# bit: lanes at and beyond the size are never stored.
EDITS: Mapping[str, tuple[str, str]] = {
    "rms_norm": (
        "    tl.store(dw_ptr + cols, acc, mask=inside)",
        "    acc = tl.where(cols < n_cols + {n}, acc, 0.0)\n",
    ),
    "linear": (
        "    tl.store(sum_ptr + cols, acc, mask=col_inside)",
        "    acc = tl.where(cols < n_size + {n}, acc, 0.0)\n",
    ),
}


def answer(body: bytes) -> bytes:
    """The whole stream that answers a request."""
    start = _MESSAGES.search(body)
    at = start.end() if start else 0
    opening = _OPENING.search(body, at)
    task, session, parent = opening.groups() if opening else (b"", b"0", b"")
    turn = sum(body.count(mark, at) for mark in _ASSISTANT)
    return _stream(task.decode(), int(session), parent.decode(), turn, len(body) // BYTES_A_TOKEN)


def edit(task: str, session: int, turn: int) -> dict[str, str]:
    """The edit of a turn: no two turns of a task have the same."""
    line, before = EDITS[task]
    return {"old": line, "new": before.format(n=1 + session * TURNS_A_SESSION + turn) + line}


def _stream(task: str, session: int, parent: str, turn: int, prompt_tokens: int) -> bytes:
    key = hashlib.sha256(f"{task}.{session}.{parent}.{turn}".encode()).hexdigest()
    if task in EDITS:
        check = {"base": parent, "edits": [edit(task, session, turn)]}
        reply = Reply(parts=(Text("Next."), ToolCall("check", json.dumps(check))))
    else:
        reason = json.dumps({"reason": "this script plays rms_norm and linear alone"})
        reply = Reply(parts=(Text("Scripted."), ToolCall("finish", reason)))
    read = 0 if turn == 0 else prompt_tokens - 200
    usage = Usage(input=3, output=90, cache_read=max(0, read), cache_write_5m=200)
    return b"".join(stream_events(reply, key, usage, thinking=False))
