"""A server that answers at once, for both systems: each reply is one small edit of the program.

    python benchmarks/agent/edits_server.py

It speaks chat completions for OpenEvolve (one SEARCH/REPLACE block a reply) and the Messages API
for kernelsmith (``check`` with one edit, then ``submit`` of what it returned). The edit is the same
for both: another number in a line that keeps every bit. Prints its address and serves until its
standard input ends. It is no model.
"""

import hashlib
import itertools
import json
import re
import sys
import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kernelsmith.loopback import serving
from kernelsmith.model import Usage
from kernelsmith.rehearsal import zero
from kernelsmith.rehearsal.replies import Reply, Text, ToolCall, stream_events

CURRENT = re.compile(
    r"# Current Program\n.*?(acc = tl\.where\(cols < n_\w+ \+ \d+, acc, 0\.0\)\n)", re.S
)
OPENING = re.compile(rb"Task: (\w+)\. Session: (\d+)\. Parent: ([0-9a-f]+)\.")
CHECKED = re.compile(rb"Candidate ([0-9a-f]{16})")
NUMBER = re.compile(r"\+ \d+")
REPLY = """A smaller step first.

<<<<<<< SEARCH
    {old}=======
    {new}>>>>>>> REPLACE
"""


def initial(task: str, source: str) -> str:
    """The seed with the line that edits change: OpenEvolve's first program."""
    edit = zero.edit(task, 0, 0)
    assert source.count(edit["old"]) == 1
    return source.replace(edit["old"], edit["new"])


def app() -> Starlette:
    """Both protocols; no state but the next number for chat completions."""
    numbers = itertools.count(2)

    async def complete(request: Request) -> JSONResponse:
        body = json.loads(await request.body())
        found = CURRENT.search(body["messages"][-1]["content"])
        if found is None:
            return JSONResponse({"error": {"message": "no line to edit"}}, status_code=400)
        new = NUMBER.sub(f"+ {next(numbers)}", found[1])
        message = {"role": "assistant", "content": REPLY.format(old=found[1], new=new)}
        return JSONResponse(
            {
                "id": "chatcmpl-0",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050},
            }
        )

    async def say(request: Request) -> Response:
        return Response(_said(await request.body()), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/v1/chat/completions", complete, methods=["POST"]),
            Route("/v1/messages", say, methods=["POST"]),
        ]
    )


def _said(body: bytes) -> bytes:
    """The stream that answers a request of kernelsmith's: even turns check, odd ones submit."""
    opening = OPENING.search(body)
    assert opening is not None
    task, session, parent = (part.decode() for part in opening.groups())
    turn = body.count(b'"role":"assistant"', opening.end())
    if turn % 2:
        *_, checked = CHECKED.findall(body, opening.end())
        call = ToolCall("submit", json.dumps({"candidate": checked.decode(), "note": "an edit"}))
    else:
        edits = [zero.edit(task, int(session), turn)]
        call = ToolCall("check", json.dumps({"base": parent, "edits": edits}))
    reply = Reply(parts=(Text("A smaller step first."), call))
    key = hashlib.sha256(body).hexdigest()
    usage = Usage(input=1000, output=50)
    return b"".join(stream_events(reply, key, usage, thinking=False))


if __name__ == "__main__":
    with serving(app()) as address:
        print(address, flush=True)
        sys.stdin.read()
