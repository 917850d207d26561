"""The script "zero": endless small edits, each another program, at the least cost of serving.

For measuring what lies around a model. A turn of a session always gets the same bytes, found
without parsing the request: the opening's first line and the number of assistant turns decide.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from zlib import crc32

from kernelsmith.model import Usage
from kernelsmith.rehearsal.replies import BYTES_A_TOKEN, Reply, Text, ToolCall, stream_events

_OPENING = re.compile(rb"Task: (\w+)\. Session: (\d+)\. Parent: ([0-9a-f]+)\.")
_MESSAGES = re.compile(rb'"messages": ?\[')
_ASSISTANT = (b'"role":"assistant"', b'"role": "assistant"')
TURNS_A_SESSION = 1_000_000
NEW_TOKENS = 200
_CACHED = 987_654_321  # a mark that nothing else in a stream looks like

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
    number = _number(int(session), turn)
    cached = max(0, len(body) // BYTES_A_TOKEN - NEW_TOKENS) if turn else 0
    return _template(task.decode()) % {
        b"id": b"%08x%016x" % (crc32(task), number),
        b"n": b"%d" % number,
        b"parent": parent,
        b"cached": b"%d" % cached,
    }


def edit(task: str, session: int, turn: int) -> dict[str, str]:
    """The edit of a turn: no two turns of a task have the same."""
    line, before = EDITS[task]
    return {"old": line, "new": before.format(n=_number(session, turn)) + line}


def _number(session: int, turn: int) -> int:
    return 1 + session * TURNS_A_SESSION + turn


@cache
def _template(task: str) -> bytes:
    """The stream of every turn, with %(…)b where turns differ."""
    if task in EDITS:
        line, before = EDITS[task]
        change = {"old": line, "new": before.format(n="<n>") + line}
        name, given = "check", json.dumps({"base": "<parent>", "edits": [change]})
    else:
        name, given = "finish", json.dumps({"reason": "this script plays rms_norm and linear"})
    reply = Reply(parts=(Text("Next."), ToolCall(name, "<")))
    usage = Usage(input=3, output=90, cache_read=_CACHED, cache_write_5m=NEW_TOKENS)
    stream = b"".join(stream_events(reply, "0" * 64, usage, thinking=False))
    stream = stream.replace(b'"<"', json.dumps(given).encode()).replace(b"%", b"%%")
    stream = re.sub(rb"(msg_|toolu_)[0-9a-f]{24}", rb"\1%(id)b", stream)
    stream = stream.replace(b"%d" % _CACHED, b"%(cached)b")
    return stream.replace(b"<n>", b"%(n)b").replace(b"<parent>", b"%(parent)b")
