"""Clients that leave, answers without end, a proxy that ends in the middle."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from kernelsmith.capture import Limits, build, running
from kernelsmith.loopback import serving
from kernelsmith.model import CallSent
from tests.capture.parts import (
    LAST_CHUNK,
    PATIENCE_S,
    Dialled,
    Line,
    MemoryJournal,
    RawUpstream,
    Rig,
    chunked,
    events,
    one,
    post,
)

PATH = "/k/run1/s1/v1/messages"
SPLIT = events().index(b"event: content_block_delta")
BEGIN, REST = events()[:SPLIT], events()[SPLIT:]


@contextmanager
def strict(limits: Limits) -> Iterator[Rig]:
    journal = MemoryJournal()
    with RawUpstream() as upstream, running(journal, upstream.url, limits=limits) as base:
        yield Rig(base=base, upstream=upstream, journal=journal)


def test_an_abandoned_answer_is_read_on_so_that_its_cost_is_known(rig: Rig) -> None:
    left, pings = threading.Event(), [b": ping\n\n"] * 50

    async def script(line: Line) -> None:
        await line.send(chunked())
        await line.chunks(BEGIN)
        await line.when(left)
        await line.chunks(*pings, REST)
        await line.send(LAST_CHUNK)

    rig.upstream.script = script
    client = rig.dial(post(PATH, b"{}"))
    client.wait_for(BEGIN)
    client.hang_up()
    left.set()
    answer = one(rig.journal.answered())
    assert answer.body == BEGIN + b"".join(pings) + REST
    assert answer.complete
    assert len(BEGIN) <= answer.delivered_bytes < len(answer.body)
    assert (answer.usage.output, answer.stop_reason, answer.error) == (29, "end_turn", "")


def test_a_client_that_leaves_before_the_answer_begins_is_recorded_too(rig: Rig) -> None:
    asked, left = threading.Event(), threading.Event()

    async def script(line: Line) -> None:
        asked.set()
        await line.when(left)
        await line.send(chunked())
        await line.chunks(events())
        await line.send(LAST_CHUNK)

    rig.upstream.script = script
    client = rig.dial(post(PATH, b"{}"))
    assert asked.wait(PATIENCE_S)
    client.hang_up()
    left.set()
    answer = one(rig.journal.answered())
    assert (answer.body, answer.complete) == (events(), True)


def test_an_abandoned_answer_is_read_on_for_so_many_bytes() -> None:
    left = threading.Event()

    async def script(line: Line) -> None:
        await line.send(chunked())
        await line.chunks(BEGIN)
        await line.when(left)
        while True:
            await line.chunks(b"x" * 1000)

    with strict(Limits(drain_bytes=20_000)) as rig:
        rig.upstream.script = script
        client = rig.dial(post(PATH, b"{}"))
        client.wait_for(BEGIN)
        client.hang_up()
        left.set()
        answer = one(rig.journal.answered())
    assert not answer.complete
    assert answer.body.startswith(BEGIN)
    assert len(answer.body) > 20_000
    assert "client left" in answer.error
    assert answer.usage.input == 11


def test_an_abandoned_answer_is_read_on_for_so_long() -> None:
    forever = threading.Event()

    async def script(line: Line) -> None:
        await line.send(chunked())
        await line.chunks(BEGIN)
        await line.when(forever)

    with strict(Limits(drain_s=0.05)) as rig:
        rig.upstream.script = script
        client = rig.dial(post(PATH, b"{}"))
        client.wait_for(BEGIN)
        client.hang_up()
        answer = one(rig.journal.answered())
        forever.set()
    assert (answer.body, answer.complete, answer.delivered_bytes) == (BEGIN, False, len(BEGIN))
    assert "client left" in answer.error


def test_a_proxy_that_ends_records_what_has_come() -> None:
    forever = threading.Event()

    async def script(line: Line) -> None:
        if b"/early" not in line.head:
            await line.send(chunked())
            await line.chunks(BEGIN)
        await line.when(forever)

    with strict(Limits()) as rig:
        rig.upstream.script = script
        under_way, early = rig.dial(post(PATH, b"{}")), rig.dial(post("/k/r/s/early", b"{}"))
        under_way.wait_for(BEGIN)
        while len(rig.upstream.requests) < 2:
            threading.Event().wait(0.005)
    forever.set()
    answers = sorted(rig.journal.answered(2), key=lambda answer: answer.status is None)
    assert [(answer.status, answer.body) for answer in answers] == [(200, BEGIN), (None, b"")]
    assert [answer.complete for answer in answers] == [False, False]
    assert {answer.error for answer in answers} == {"the proxy ended"}
    assert not under_way.rest().endswith(LAST_CHUNK)
    assert early.rest().startswith(b"HTTP/1.1 502 ")


def test_a_request_that_was_being_recorded_when_the_proxy_ended_is_not_sent() -> None:
    journal = MemoryJournal()
    journal.holding = CallSent
    with RawUpstream() as upstream:
        app = build(journal, upstream.url)
        with serving(app) as base:
            client = Dialled(base, post(PATH, b"{}"))
            with journal.changed:
                assert journal.changed.wait_for(lambda: bool(journal.entries), PATIENCE_S)
            app.state.proxy.end()
            journal.release()
            answer = one(journal.answered())
            assert client.rest().startswith(b"HTTP/1.1 502 ")
            assert httpx2.post(f"{base}{PATH}", content=b"{}").status_code == 503
        assert upstream.requests == []
    assert (answer.status, answer.error) == (None, "the proxy ended")


def test_an_answer_without_end_is_recorded_in_part_and_cut() -> None:
    async def script(line: Line) -> None:
        await line.send(chunked())
        while True:
            await line.chunks(b"y" * 1000)

    with strict(Limits(answer_bytes=9_500)) as rig:
        rig.upstream.script = script
        with pytest.raises(httpx2.RemoteProtocolError):
            httpx2.post(rig.url(), content=b"{}")
        answer = one(rig.journal.answered())
    assert (answer.body, answer.complete) == (b"y" * 9_500, False)
    assert "9500 bytes" in answer.error


def test_a_request_over_the_limit_is_refused() -> None:
    with strict(Limits(request_bytes=1000)) as rig:
        response = httpx2.post(rig.url(), content=b"z" * 1001)
        assert response.status_code == 413
        assert rig.journal.entries == []
        assert rig.upstream.requests == []
