"""A client that plays a session to its end as the agent does, with made-up tools."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from kernelsmith.wire import Answer, fragments, read_response

HEADERS = {"anthropic-version": "2026-10-21", "content-type": "application/json"}
PREFIX = fragments.prefix(
    model="any",
    max_tokens=16_000,
    system="You make kernels faster.",
    tools_json=b"[]",
    thinking="adaptive",
    effort=None,
)
PARENT = "0123456789abcdef"
FIRST, MENDED = "1" * 16, "2" * 16

Tools = Callable[[str, dict[str, Any]], str]


def opening(task: str, session: int) -> bytes:
    return fragments.user_text(f"Task: {task}. Session: {session}. Parent: {PARENT}.\nGo on.")


def body(task: str, session: int = 0, rest: tuple[bytes, ...] = ()) -> bytes:
    return fragments.body(PREFIX, (opening(task, session), *rest))


def gate_like(name: str, given: dict[str, Any]) -> str:
    """Answers in the words of the agent's tools: whole sources break bits, edits mend them."""
    if name == "check":
        if "edits" in given:
            return f"Candidate {MENDED}: bits kept so far (policy; 0.1 s)."
        return f"Candidate {FIRST}: BITS_DIFFER in parity.train.\ncase x, output y: 1 ulp apart"
    if name == "submit":
        return f"Candidate {given['candidate']}: ACCEPTED, gain 1.7400 against the seed."
    return f"{name} says something."


@dataclass
class Played:
    """A session as it went: what was called, and the raw answers."""

    answers: list[Answer] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    fragments: tuple[bytes, ...] = ()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def ask(client: httpx2.Client, request: bytes) -> tuple[int, Answer | None]:
    """One try; None: the stream broke off."""
    try:
        response = client.post("/v1/messages", content=request, headers=HEADERS)
    except httpx2.TransportError:
        return 0, None
    headers = [(k, v) for k, v in response.headers.multi_items() if k != "content-encoding"]
    return response.status_code, read_response(response.status_code, headers, response.content)


def play(client: httpx2.Client, task: str, session: int, tools: Tools = gate_like) -> Played:
    """Plays a session until it finishes, or for twenty turns."""
    played = Played(fragments=(opening(task, session),))
    for _ in range(40):
        status, answer = ask(client, fragments.body(PREFIX, played.fragments))
        played.statuses.append(status)
        if status == 400:
            return played
        if answer is None or status != 200 or not answer.finished or answer.error:
            continue
        played.answers.append(answer)
        said = fragments.assistant(answer)
        results = list(_results(answer, played, tools))
        ended = answer.stop_reason in ("refusal", "model_context_window_exceeded")
        if ended or "finish" in played.names:
            return played
        played.fragments += (said,)
        if results:
            played.fragments += (fragments.tool_results(results),)
        elif answer.stop_reason != "pause_turn":
            played.fragments += (fragments.user_text("Go on."),)
    return played


def _results(answer: Answer, played: Played, tools: Tools) -> Iterator[tuple[str, str, bool]]:
    for block in answer.blocks:
        if block.kind != "tool_use":
            continue
        if block.tool_input is None:
            yield block.tool_use_id, f"Not run: {block.problem}", True
            continue
        played.calls.append((block.tool_name, block.tool_input))
        yield block.tool_use_id, tools(block.tool_name, block.tool_input), False


def events(stream: bytes) -> list[dict[str, Any]]:
    """The data of server-sent events."""
    lines = [line for line in stream.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line[6:]) for line in lines]
