"""A server of the Messages API that plays a script and keeps the record a proxy would keep; and
small stand-ins for what a conversation needs of the rest of the agent."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from kernelsmith.model import (
    CallAnswered,
    CallRecord,
    CallSent,
    JournalEntry,
    SessionEnd,
    SessionRecord,
    SessionStart,
    ToolDone,
    Usage,
)
from kernelsmith.wire import fragments, read_response
from tests.wire import streams

RUN = "r1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """``chunk_bytes``: the size of pieces; ``cut_at``: drops the connection after that many
    bytes; ``hangs``: so long, after them, that only the client can end it;
    ``thinks_s``: before all."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),)
    chunk_bytes: int = 1 << 20
    cut_at: int | None = None
    hangs: bool = False
    thinks_s: float = 0.0


def says(*blocks: list[dict[str, Any]], **more: Any) -> Reply:
    """A whole answer."""
    return Reply(body=streams.message(*blocks, **more))


def refuses(status: int, kind: str = "", message: str = "no", **headers: str) -> Reply:
    """An error of the server; headers with _ for -."""
    body = b'{"type":"error","error":{"type":"%s","message":"%s"}}'
    return Reply(
        body=body % (kind.encode(), message.encode()),
        status=status,
        headers=(
            ("content-type", "application/json"),
            *((name.replace("_", "-"), value) for name, value in headers.items()),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came."""

    session_id: str
    turn: int
    attempt: int
    body: bytes
    headers: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class FakeJournal:
    """Keeps entries in memory, in order."""

    entries: list[JournalEntry] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, entry: JournalEntry) -> "Future[str]":
        done: Future[str] = Future()
        with self.lock:
            self.entries.append(entry)
            done.set_result(f"c{len(self.entries)}")
        return done

    def record(self, session_id: str) -> SessionRecord:
        """A session as the real journal would give it."""
        calls: dict[str, CallRecord] = {}
        for place, entry in enumerate(self.entries, start=1):
            if isinstance(entry, CallSent):
                calls[f"c{place}"] = CallRecord(id=f"c{place}", sent=entry, answer=None)
            elif isinstance(entry, CallAnswered):
                sent = calls[entry.call_id].sent
                calls[entry.call_id] = CallRecord(id=entry.call_id, sent=sent, answer=entry)
        starts = [entry for entry in self.entries if isinstance(entry, SessionStart)]
        ends = [entry for entry in self.entries if isinstance(entry, SessionEnd)]
        return SessionRecord(
            id=session_id,
            start=starts[0] if starts else None,
            calls=tuple(calls.values()),
            results=tuple(entry for entry in self.entries if isinstance(entry, ToolDone)),
            end=ends[0] if ends else None,
        )


@dataclass(slots=True)
class Scripted:
    """Replies by turn, in order of the tries; the last one is given again and again. Requests and
    answers go into ``journal``, an answer before its end is given out, as the proxy does it."""

    replies: dict[int, list[Reply]] = field(default_factory=dict)
    journal: FakeJournal = field(default_factory=FakeJournal)
    received: list[Received] = field(default_factory=list)

    def play(self, *turns: Reply | Sequence[Reply], journal: FakeJournal | None = None) -> None:
        """A new script: one reply, or the replies of its tries, for each turn."""
        self.replies = {
            turn: [reply] if isinstance(reply, Reply) else list(reply)
            for turn, reply in enumerate(turns)
        }
        self.journal = journal if journal is not None else FakeJournal()
        self.received = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        headers = tuple((k.decode(), v.decode()) for k, v in scope["headers"])
        numbers = {k: int(v) for k, v in headers if k.startswith("x-kernelsmith-")}
        *place, version, last = scope["path"].removeprefix("/k/").strip("/").split("/")
        assert (version, last) == ("v1", "messages")
        if not place:  # behind a real proxy, which keeps the record
            numbers = {"x-kernelsmith-turn": body.count(b'{"role":"assistant"')}
        run, session_id = place or (RUN, "")
        turn = numbers["x-kernelsmith-turn"]
        attempt = numbers.get("x-kernelsmith-attempt", 0)
        got = Received(
            session_id=session_id, turn=turn, attempt=attempt, body=body, headers=headers
        )
        sent = CallSent(
            run_id=run,
            session_id=session_id,
            turn=turn,
            attempt=attempt,
            method="POST",
            path="/v1/messages",
            headers=headers,
            dropped=(),
            request=body,
        )
        tries = sum((one.session_id, one.turn) == (session_id, turn) for one in self.received)
        self.received.append(got)
        journal = self.journal if place else FakeJournal()
        earlier = [entry for entry in journal.entries if isinstance(entry, CallSent)]
        tries = sum(entry.turn == turn for entry in earlier) if place else tries
        call_id = journal.append(sent).result()
        choices = self.replies[turn]
        await _send(choices[min(tries, len(choices) - 1)], call_id, journal, receive, send)


async def _send(reply: Reply, call_id: str, journal: FakeJournal, receive: Any, send: Any) -> None:
    await asyncio.sleep(reply.thinks_s)
    pairs = [(k.encode(), v.encode()) for k, v in reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    whole = reply.cut_at is None and not reply.hangs
    body = reply.body if reply.cut_at is None else reply.body[: reply.cut_at]
    for at in range(0, len(body), reply.chunk_bytes):
        piece = body[at : at + reply.chunk_bytes]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    while reply.hangs and (await receive())["type"] != "http.disconnect":
        pass
    answer = read_response(reply.status, reply.headers, body)
    journal.append(
        CallAnswered(
            call_id=call_id,
            status=reply.status,
            headers=reply.headers,
            body=body,
            complete=whole,
            delivered_bytes=len(body),
            error="" if whole else "cut",
            first_byte_s=0.0,
            seconds=0.0,
            message_id=answer.message_id,
            model=answer.model,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
        )
    )
    if whole:  # else uvicorn drops the connection
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def app(server: Scripted) -> Starlette:
    """What ``loopback.serving`` serves."""
    return Starlette(routes=[Mount("/", app=server)])


@dataclass(slots=True)
class FakeBudget:
    """Lets ``calls`` calls through."""

    calls: int = 1000
    asked: list[tuple[int, int]] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    settled: list[Usage | None] = field(default_factory=list)

    async def admit(self, prompt_bytes: int, max_tokens: int, call: object) -> int | None:
        if len(self.asked) >= self.calls:
            return None
        self.asked.append((prompt_bytes, max_tokens))
        self.open.add(len(self.asked))
        return len(self.asked)

    def settle(self, ticket: int, usage: Usage | None) -> None:
        self.open.remove(ticket)
        self.settled.append(usage)

    def require_no_limits(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeReply:
    text: str
    is_error: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    finished: str = ""


@dataclass(slots=True)
class FakeToolbox:
    """Every result tells how many came before it, so that a lost replay shows."""

    ran: list[str] = field(default_factory=list)
    replayed: list[str] = field(default_factory=list)

    async def run(self, tool_use_id: str, name: str, tool_input: Mapping[str, Any]) -> FakeReply:
        number = len(self.ran) + len(self.replayed)
        self.ran.append(tool_use_id)
        return FakeReply(
            text=f"{name} {number}: {sorted(tool_input)}",
            is_error=name == "check" and "wrong" in tool_input,
            facts={"number": number},
            finished="finished" if name == "finish" else "",
        )

    def replay(self, name: str, tool_input: Mapping[str, Any], done: ToolDone) -> None:
        number = len(self.ran) + len(self.replayed)
        assert done.text == f"{name} {number}: {sorted(tool_input)}"
        self.replayed.append(done.tool_use_id)


def start_of(session_id: str = "s00000000001") -> SessionStart:
    """A session that has begun."""
    return SessionStart(
        id=session_id,
        run_id=RUN,
        task="rms_norm",
        ordinal=0,
        parent="0" * 16,
        model="m",
        prompt="p",
        prefix=fragments.prefix("m", 4000, "system é", b'[{"name":"check"}]', "adaptive", None),
        opening=fragments.user_text("Task: rms_norm."),
    )
