"""The real client through the proxy into the real lineage; many streams at once."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
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
from kernelsmith.model import Price, Rates, Usage, cost_usd
from tests.capture.parts import RawUpstream, cut, events, whole

STREAMS = 64
ONE = Decimal(1)
PRICE = Price(
    rates=Rates(input=ONE, output=ONE, cache_read=ONE / 10, cache_write_5m=ONE, cache_write_1h=ONE)
)


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


@pytest.mark.parametrize(
    ("count", "kept"),
    [
        (b"1" + b"0" * 30, 10**12),
        (b"9" * 5000, 10**12),
        (b"1e30", 10**12),
        (b"1e999", 0),
        (b"-" + b"9" * 5000, 0),
        (b"true", 0),
        (b"1.5", 0),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_count_that_is_none_is_recorded_as_one_that_can_be(
    journal: LineageJournal, count: bytes, kept: int
) -> None:
    fields = b'"input_tokens":%b,"cache_read_input_tokens":%b,"output_tokens":7' % (count, count)
    body = (
        b'{"type":"message","id":"m","model":"claude-opus-5-5","content":[],"usage":{%b}}' % fields
    )
    with RawUpstream() as raw, running(journal, raw.url) as base:
        raw.answers(whole(body))
        answer = httpx2.post(f"{base}/k/run1/s1/v1/messages", content=b"{}", trust_env=False)
        assert (answer.status_code, answer.content, len(raw.requests)) == (200, body, 1)
    recorded = journal.sessions("run1")[0].calls[0].answer
    assert recorded is not None
    assert (recorded.body, recorded.complete, recorded.error) == (body, True, "")
    assert recorded.usage == Usage(input=kept, cache_read=kept, output=7)
    assert cost_usd(recorded.usage, PRICE) == Decimal(kept) * 11 / 10**7 + Decimal(7) / 10**6
