"""The real client through the proxy into the real lineage; many streams at once."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from kernelsmith.capture import running
from kernelsmith.lineage.journal import LineageJournal, open_journal
from kernelsmith.loopback import serving
from tests.capture.parts import cut, events

STREAMS = 64


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[LineageJournal]:
    opened = open_journal(tmp_path / "runs.db")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """Streams a message, in pieces; the request's last byte says how large they are."""

    async def messages(request: Request) -> StreamingResponse:
        body = await request.body()

        async def pieces():
            for piece in cut(events(), body[-1]):
                yield piece

        return StreamingResponse(pieces(), media_type="text/event-stream")

    with serving(Starlette(routes=[Route("/v1/messages", messages, methods=["POST"])])) as url:
        yield url


def test_the_real_client_streams_through(journal: LineageJournal, upstream: str) -> None:
    async def talk(base: str) -> anthropic.types.Message:
        client = anthropic.AsyncAnthropic(
            base_url=f"{base}/k/run1/s1", api_key="sk-ant-aaaabbbbccccdddd", max_retries=0
        )
        async with (
            client,
            client.messages.stream(
                model="claude-opus-5-5",
                max_tokens=64,
                messages=[{"role": "user", "content": "hello"}],
            ) as stream,
        ):
            return await stream.get_final_message()

    with running(journal, upstream) as base:
        message = asyncio.run(talk(base))
    assert message.content[0].text == "Grüße 核"
    session = journal.sessions("run1")[0]
    call = session.calls[0]
    assert (session.id, session.start) == ("s1", None)
    assert call.sent.path == "/v1/messages"
    assert call.sent.dropped == ("authorization",)
    assert b'"content":"hello"' in call.sent.request
    assert call.answer is not None
    assert call.answer.body == events()
    assert call.answer.message_id == message.id
    assert call.answer.usage.output == message.usage.output_tokens == 29
    assert call.answer.complete


def test_many_streams_at_once_keep_their_own_bytes(journal: LineageJournal, upstream: str) -> None:
    bodies = [b'{"n":%d}' % n + bytes([1 + n % 50]) for n in range(STREAMS)]

    async def talk(base: str) -> list[bytes]:
        limits = httpx2.Limits(max_connections=STREAMS)
        async with httpx2.AsyncClient(limits=limits, timeout=30, trust_env=False) as client:
            answers = await asyncio.gather(
                *(
                    client.post(f"{base}/k/run1/s{n % 7}/v1/messages", content=body)
                    for n, body in enumerate(bodies)
                )
            )
        return [answer.content for answer in answers]

    with running(journal, upstream) as base:
        assert asyncio.run(talk(base)) == [events()] * STREAMS
    calls = [call for session in journal.sessions("run1") for call in session.calls]
    assert Counter(call.sent.request for call in calls) == Counter(bodies)
    assert {call.answer.body for call in calls if call.answer is not None} == {events()}
    assert all(call.answer is not None and call.answer.complete for call in calls)
