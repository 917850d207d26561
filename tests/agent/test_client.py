"""Calls over real HTTP, by the real SDK, to a server that plays a script."""

import asyncio
import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kernelsmith.errors import (
    InfrastructureError,
    InputError,
    KernelsmithError,
    MissingError,
    StorageError,
)
from kernelsmith.model import Usage
from kernelsmith.proposers.agent.budget import Budget
from kernelsmith.proposers.agent.client import UNREACHED_MAX, UNREADABLE_MAX, Caller
from kernelsmith.wire import Answer
from tests.agent.night import settings
from tests.agent.scripted import RUN, FakeBudget, Reply, Scripted, refuses, says
from tests.wire import streams

BODY = '{"model":"m","n": 1E3,"é":"\u2028","messages":[]}'.encode()
FINE = says(streams.text("so"), usage={"input_tokens": 10, "output_tokens": 1})
SPENT = Usage(input=10, output=7)


@dataclass
class Waits:
    """Sleeps no time; ends the call after ``at_most`` waits."""

    at_most: int = 100
    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) > self.at_most:
            raise asyncio.CancelledError


def call(
    address: str,
    *,
    budget: FakeBudget | Budget | None = None,
    waits: Waits | None = None,
    first_attempt: int = 0,
    key: str = "sk-key",
    notice: Callable[[str, str], None] = lambda session_id, text: None,
    read_timeout_s: float = 20.0,
) -> Answer | None:
    async def run() -> Answer | None:
        caller = Caller(
            address,
            key,
            read_timeout_s=read_timeout_s,
            sleep=waits or Waits(),
            now_s=lambda: 1_800_000_000.0,
            notice=notice,
        )
        try:
            return await caller.call("s1", 0, first_attempt, BODY, budget or FakeBudget(), 4000)
        finally:
            await caller.close()

    return asyncio.run(run())


@pytest.mark.parametrize("limit", [{"budget_usd": 5}, {"budget_tokens": 10}, {}])
def test_an_answer_without_a_usage_is_taken_only_where_nothing_is_limited(
    server: Scripted, address: str, limit: dict[str, Any]
) -> None:
    server.play(says(streams.text("so"), usage={}, more={}))
    unlimited = settings(budget_usd=None, budget_tokens=None)
    budget = Budget(replace(unlimited, **limit))
    with pytest.raises(InputError, match="how many tokens") if limit else nullcontext():
        call(address, budget=budget)
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_key_that_the_server_repeats_is_in_no_message(
    server: Scripted, address: str, status: int
) -> None:
    server.play(refuses(status, "invalid_request_error", "what is Bearer sk-key?"))
    try:
        answer = call(address)
    except KernelsmithError as error:
        said = error.message
    else:
        assert answer is not None
        assert answer.error is not None
        said = answer.error.message
    assert "sk-key" not in said
    assert "what is Bearer (left out)?" in said


def test_exactly_these_bytes_go_out_and_nothing_of_the_environment_does(
    server: Scripted, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "default.json").write_text('{"extra_headers":{"x-evil":"2"}}')
    for name, value in {
        "ANTHROPIC_API_KEY": "sk-other",
        "ANTHROPIC_AUTH_TOKEN": "other",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_PROFILE": "default",
        "ANTHROPIC_CONFIG_DIR": str(tmp_path),
        "ANTHROPIC_CUSTOM_HEADERS": "x-evil: 1\nAuthorization: Bearer other\nUser-Agent: evil"
        "\nanthropic-version: 1\nAccept-Encoding: br\nx-kernelsmith-turn: 9\nHost: evil",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    server.play(FINE)
    answer = call(address, first_attempt=3)
    assert answer is not None
    assert answer.text == "so"
    (got,) = server.received
    assert got.body == BODY
    assert (got.session_id, got.turn, got.attempt) == ("s1", 0, 3)
    headers = dict(got.headers)
    agent = headers.pop("user-agent")
    assert agent.startswith("AsyncAnthropic/")
    assert headers.pop("anthropic-version") > "2023"
    assert headers == {
        "host": address.split("/")[2],
        "accept": "application/json",
        "accept-encoding": "gzip, deflate, zstd",
        "connection": "keep-alive",
        "authorization": "Bearer sk-key",
        "content-type": "application/json",
        "content-length": str(len(BODY)),
        "x-kernelsmith-turn": "0",
        "x-kernelsmith-attempt": "3",
    }


def test_without_a_key_none_is_sent(
    server: Scripted, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
    server.play(FINE)
    call(address, key="")
    assert "authorization" not in dict(server.received[0].headers)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
def test_an_answer_is_read_however_it_is_packed_and_cut(
    server: Scripted, address: str, encoding: str, chunk_bytes: int
) -> None:
    pack = {"": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}[encoding]
    headers = (*FINE.headers, *((("content-encoding", encoding),) if encoding else ()))
    server.play(Reply(body=pack(FINE.body), headers=headers, chunk_bytes=chunk_bytes))
    answer = call(address)
    assert answer is not None
    assert (answer.text, answer.usage) == ("so", SPENT)


CUT = Reply(body=FINE.body, cut_at=len(FINE.body) // 2)
ERROR_EVENT = streams.event("error", error={"type": "overloaded_error", "message": "Overloaded"})
OVERLOADED = Reply(body=streams.message(streams.text("so"), end=False) + ERROR_EVENT)
ODD = (("content-type", "application/json"), ("content-encoding", "gzip"))
PASSING = {
    "408": refuses(408),
    "409": refuses(409),
    "429": refuses(429, "rate_limit_error"),
    "500": refuses(500, "api_error"),
    "503, no JSON": Reply(body=b"busy", status=503, headers=()),
    "529": refuses(529, "overloaded_error"),
    "529, packed": Reply(body=gzip.compress(b'{"error":"x"}'), status=529, headers=ODD),
    "529, packed wrongly": Reply(body=b"plain", status=529, headers=ODD),
    "529, cut": Reply(body=b'{"error":"overloaded"}', status=529, headers=ODD[:1], cut_at=5),
    "cut": CUT,
    "cut before its last byte": Reply(body=FINE.body, cut_at=len(FINE.body)),
    "cut before its first byte": Reply(body=b"", cut_at=0),
    "an error in the middle": OVERLOADED,
    "ends properly, unfinished": Reply(body=FINE.body[:-30]),
    "packed in an unknown way": Reply(
        body=FINE.body, headers=(*FINE.headers, ("content-encoding", "br"))
    ),
    "an unknown delta": says([{"type": "text", "text": ""}, {"type": "novel"}]),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_tried_again_with_the_same_bytes(
    server: Scripted, address: str, name: str
) -> None:
    server.play([PASSING[name], PASSING[name], FINE])
    waits, budget = Waits(), FakeBudget()
    told: list[tuple[str, str]] = []
    answer = call(address, waits=waits, budget=budget, notice=lambda *what: told.append(what))
    assert answer is not None
    assert answer.text == "so"
    assert [got.attempt for got in server.received] == [0, 1, 2], told
    assert {got.body for got in server.received} == {BODY}
    assert [round(seconds * 2) // 2 for seconds in waits.seconds] in ([1, 2], [1, 1], [0, 1])
    assert [session_id for session_id, _ in told] == ["s1", "s1"]
    assert len(budget.asked) == len(budget.settled) == 3
    assert budget.asked[0] == (len(BODY), 4000)
    assert budget.settled[2] == SPENT
    # What a broken answer is known to have cost counts as the record counts it.
    recorded = [entry.usage for entry in server.journal.entries[1::2]]  # type: ignore[union-attr]
    assert [usage or Usage() for usage in budget.settled] == recorded


def test_the_server_says_how_long_to_wait(server: Scripted, address: str) -> None:
    server.play(
        [
            refuses(429, retry_after="7"),
            refuses(529, retry_after="Fri, 15 Jan 2027 08:01:30 GMT"),
            refuses(503, retry_after_ms="40000"),
            refuses(500, retry_after="86400"),
            FINE,
        ]
    )
    waits = Waits()
    assert call(address, waits=waits) is not None
    assert [int(seconds) for seconds in waits.seconds] == [7, 90, 40, 900]


def test_overload_is_waited_out_until_the_call_is_cancelled(server: Scripted, address: str) -> None:
    server.play(refuses(529, "overloaded_error"))
    budget = FakeBudget()
    with pytest.raises(asyncio.CancelledError):
        call(address, waits=Waits(at_most=UNREADABLE_MAX + 8), budget=budget)
    assert len(server.received) == UNREADABLE_MAX + 9
    assert not budget.open


def test_answers_that_can_never_be_read_end_the_agent(server: Scripted, address: str) -> None:
    server.play(Reply(body=b"<html>hello", headers=(("content-type", "text/html"),)))
    with pytest.raises(InfrastructureError, match="cannot be read"):
        call(address)
    assert len(server.received) == UNREADABLE_MAX


@pytest.mark.parametrize(
    ("reply", "error", "says_so"),
    [
        (refuses(401, "authentication_error"), MissingError, "ANTHROPIC_API_KEY"),
        (refuses(403, "permission_error"), MissingError, "ANTHROPIC_API_KEY"),
        (refuses(402, "billing_error", "pay"), InputError, "pay"),
        (refuses(404, "not_found_error", "model: m-9"), InputError, "model: m-9"),
    ],
)
def test_what_no_try_can_change_ends_the_agent_at_once(
    server: Scripted, address: str, reply: Reply, error: type[KernelsmithError], says_so: str
) -> None:
    server.play(reply)
    with pytest.raises(error, match=says_so) as raised:
        call(address)
    assert raised.value.hint
    assert len(server.received) == 1


TOO_LONG = refuses(400, "invalid_request_error", "prompt is too long")
PACKED = replace(TOO_LONG, body=gzip.compress(TOO_LONG.body), headers=ODD)
REFUSALS = [PACKED, *(replace(TOO_LONG, status=status) for status in (400, 413, 422, 418, 302))]


@pytest.mark.parametrize("reply", REFUSALS, ids=lambda reply: str(reply.status))
def test_a_refusal_of_this_request_is_an_answer(
    server: Scripted, address: str, reply: Reply
) -> None:
    server.play(reply)
    budget = FakeBudget()
    answer = call(address, budget=budget)
    assert answer is not None
    assert answer.error is not None
    assert (answer.error.status, answer.error.message) == (reply.status, "prompt is too long")
    assert len(server.received) == 1
    assert budget.settled == [None]


def test_each_try_needs_the_budgets_leave(server: Scripted, address: str) -> None:
    server.play([CUT, CUT, FINE])
    budget = FakeBudget(calls=2)
    assert call(address, budget=budget) is None
    assert len(server.received) == 2
    assert not budget.open


def test_a_silent_server_is_left_and_asked_again(server: Scripted, address: str) -> None:
    server.play([Reply(body=FINE.body[:40], hangs=True), FINE])
    answer = call(address, read_timeout_s=0.2)
    assert answer is not None
    assert [got.attempt for got in server.received] == [0, 1]


def test_a_slow_server_is_given_more_time_with_each_try(server: Scripted, address: str) -> None:
    server.play(replace(FINE, thinks_s=0.25))
    assert call(address, read_timeout_s=0.1) is not None
    assert len(server.received) >= 2


def test_a_cancelled_call_gives_its_leave_back(server: Scripted, address: str) -> None:
    server.play(Reply(body=FINE.body[:40], hangs=True))
    budget = FakeBudget()

    async def run() -> None:
        caller = Caller(address, "k")
        going = asyncio.create_task(caller.call("s1", 0, 0, BODY, budget, 1))
        while not server.received:
            await asyncio.sleep(0.01)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        await caller.close()

    asyncio.run(run())
    assert not budget.open
    assert budget.settled == [None]


@contextmanager
def resetting() -> Iterator[str]:
    """Accepts every connection and resets it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):  # shut down
            while True:
                accepted, _ = listener.accept()
                accepted.recv(64)  # unread bytes are left, so closing resets
                accepted.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/k/{RUN}"
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


@contextmanager
def refusing() -> Iterator[str]:
    """Holds a port and listens to none."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/k/{RUN}"


@pytest.mark.parametrize("server_that", [resetting, refusing])
def test_a_connection_that_is_reset_or_refused_is_tried_again(
    server_that: Callable[[], AbstractContextManager[str]],
) -> None:
    told: list[str] = []
    alone = Budget(
        settings(budget_tokens=1)
    )  # no try begins before what the last set aside is free
    with server_that() as address, pytest.raises(MissingError, match="was not reached"):
        call(address, budget=alone, notice=lambda _, text: told.append(text))
    assert len(told) == UNREACHED_MAX - 1
    refused = ["ConnectError" in text for text in told]
    assert refused == [server_that is refusing] * len(told)


def test_a_server_that_was_reached_once_is_waited_for(server: Scripted, address: str) -> None:
    gone = refuses(502, "upstream_unreachable", "ConnectError")
    server.play(gone)
    with pytest.raises(MissingError, match="ConnectError"):
        call(address)
    assert len(server.received) == UNREACHED_MAX
    server.play([refuses(529), *[gone] * 2 * UNREACHED_MAX, FINE])
    assert call(address) is not None


def test_without_a_record_no_call_is_made(server: Scripted, address: str) -> None:
    server.play(refuses(503, "capture_failed", "disk full"))
    with pytest.raises(StorageError, match="disk full"):
        call(address)
    assert len(server.received) == 1


def test_an_address_that_is_none_is_no_matter_of_the_connection() -> None:
    with pytest.raises(InfrastructureError, match="no request can be sent"):
        call("ftp://127.0.0.1/k")
