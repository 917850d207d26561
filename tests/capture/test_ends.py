"""A clean end is seen only of an answer that is whole and on record."""

import socket
import threading

import httpx2
import pytest

from kernelsmith.capture import Limits, running
from kernelsmith.model import CallAnswered, CallSent
from tests.capture.parts import (
    LAST_CHUNK,
    PATIENCE_S,
    Line,
    MemoryJournal,
    RawUpstream,
    Rig,
    chunked,
    events,
    one,
    post,
    read_all,
    whole,
)

PATH = "/k/run1/s1/v1/messages"
NOT_YET_S = 0.15
IN_CHUNKS = (chunked(), b"%x\r\n%b\r\n" % (len(events()), events()), LAST_CHUNK)


@pytest.mark.parametrize(
    ("request_bytes", "answer", "all_but_the_end"),
    [
        (post(PATH, b"{}"), IN_CHUNKS, b"\r\n\r\n%x\r\n%b\r\n" % (len(events()), events())),
        (post(PATH, b"{}"), (whole(b"[1234]"),), b""),
        (f"HEAD {PATH} HTTP/1.1\r\nHost: h\r\n\r\n".encode(), (whole(b""),), b""),
        (post(PATH, b"{}"), (b"HTTP/1.1 204 No Content\r\n\r\n",), b""),
    ],
    ids=["chunks", "declared", "head", "no content"],
)
def test_the_end_waits_for_the_record(
    rig: Rig, request_bytes: bytes, answer: tuple[bytes, ...], all_but_the_end: bytes
) -> None:
    rig.upstream.answers(*answer)
    rig.journal.holding = CallAnswered
    client = rig.dial(request_bytes.replace(b"Host: h", b"Host: h\r\nConnection: close"))
    assert one(rig.journal.answered()).complete
    client.wait_for(all_but_the_end)
    assert not client.over.wait(NOT_YET_S)
    before = client.received
    assert not before.endswith(LAST_CHUNK)
    assert b"[1234" not in before
    rig.journal.release()
    after = client.rest()
    assert after.startswith(before)
    assert len(after) > len(before)
    assert one(rig.journal.answered()).delivered_bytes == len(one(rig.journal.answered()).body)


def test_of_a_declared_answer_only_the_last_piece_waits(rig: Rig) -> None:
    first, last = b'{"a":', b"1}"
    seen = threading.Event()

    async def script(line: Line) -> None:
        await line.send(whole(first + last)[: -len(last)])
        await line.when(seen)
        await line.send(last)

    rig.upstream.script = script
    rig.journal.holding = CallAnswered
    client = rig.dial(post(PATH, b"{}"))
    client.wait_for(first)
    seen.set()
    assert one(rig.journal.answered()).body == first + last
    assert not client.over.wait(NOT_YET_S)
    assert client.received.endswith(first)
    rig.journal.release()
    assert client.rest().endswith(first + last)


def test_nothing_goes_out_before_the_request_is_on_record(rig: Rig) -> None:
    rig.upstream.answers(whole(b"{}"))
    rig.journal.holding = CallSent
    client = rig.dial(post(PATH, b"{}"))
    with rig.journal.changed:
        assert rig.journal.changed.wait_for(lambda: len(rig.journal.entries) == 1, PATIENCE_S)
    assert not client.over.wait(NOT_YET_S)
    assert rig.upstream.requests == []
    rig.journal.release()
    assert client.rest().endswith(b"{}")
    assert len(rig.upstream.requests) == 1


@pytest.mark.parametrize("answer", [IN_CHUNKS, (whole(b"[1234]"),)], ids=["chunks", "declared"])
def test_an_answer_that_cannot_be_recorded_has_no_clean_end(
    rig: Rig, answer: tuple[bytes, ...]
) -> None:
    rig.upstream.answers(*answer)
    rig.journal.failing = CallAnswered
    status, _, clean = read_all(rig.url())
    assert (status, clean) == (200, False)
    assert "disk full" in one(rig.said)


def test_an_answer_of_one_line_that_cannot_be_recorded_is_an_error(rig: Rig) -> None:
    rig.upstream.answers(b"HTTP/1.1 204 No Content\r\n\r\n")
    rig.journal.failing = CallAnswered
    response = httpx2.delete(rig.url())
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "capture_failed"


def test_a_request_that_cannot_be_recorded_is_not_sent(rig: Rig) -> None:
    rig.upstream.answers(whole(b"{}"))
    rig.journal.failing = CallSent
    response = httpx2.post(rig.url(), content=b"{}")
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "capture_failed"
    assert rig.upstream.requests == []
    assert "disk full" in one(rig.said)


@pytest.mark.parametrize("framing", ["chunks", "declared"])
def test_an_upstream_that_dies_ends_nothing_cleanly(rig: Rig, framing: str) -> None:
    came = events()[:300]

    async def script(line: Line) -> None:
        if framing == "chunks":
            await line.send(chunked())
            await line.chunks(came)
        else:
            await line.send(
                whole(came + b"never comes", kind="text/event-stream")[: -len(b"never comes")]
            )
        line.writer.close()

    rig.upstream.script = script
    assert read_all(rig.url()) == (200, came, False)
    answer = one(rig.journal.answered())
    assert (answer.status, answer.body, answer.complete) == (200, came, False)
    assert answer.delivered_bytes == len(came)
    assert "RemoteProtocolError" in answer.error
    assert answer.usage.input == 11


@pytest.mark.parametrize(
    "pieces", [(), (b"SSH-2.0-OpenSSH_9.6\r\n",), (b"HTTP/1.1 200 OK\r\nX: 1",)]
)
def test_an_upstream_that_gives_no_answer_is_told(rig: Rig, pieces: tuple[bytes, ...]) -> None:
    async def script(line: Line) -> None:
        await line.send(*pieces)
        line.writer.close()

    rig.upstream.script = script
    response = httpx2.post(rig.url(), content=b"{}")
    assert response.status_code == 502
    assert response.json()["error"]["type"] == "upstream_unreachable"
    answer = one(rig.journal.answered())
    assert (answer.status, answer.body, answer.complete) == (None, b"", False)
    assert answer.error in response.json()["error"]["message"]
    assert "RemoteProtocolError" in answer.error


def test_an_upstream_that_is_not_there_is_told() -> None:
    journal = MemoryJournal()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with running(journal, url) as base:
        response = httpx2.post(f"{base}/k/r/s/v1/messages", content=b"{}")
    assert (response.status_code, response.json()["type"]) == (502, "error")
    answer = one(journal.answered())
    assert answer.status is None
    assert answer.error.startswith("ConnectError")


def test_a_silent_upstream_is_given_up() -> None:
    """Once before its status, once in the middle of its answer."""
    journal, forever = MemoryJournal(), threading.Event()

    async def script(line: Line) -> None:
        if b"/stalls" in line.head:
            await line.send(chunked())
            await line.chunks(b"data: 1\n\n")
        await line.when(forever)

    with (
        RawUpstream() as upstream,
        running(journal, upstream.url, limits=Limits(silence_s=0.05)) as base,
    ):
        upstream.script = script
        assert httpx2.post(f"{base}/k/r/s/v1/messages", content=b"{}").status_code == 502
        with pytest.raises(httpx2.RemoteProtocolError):
            httpx2.post(f"{base}/k/r/s/stalls", content=b"{}")
        forever.set()
    first, second = journal.answered(2)
    assert (first.status, second.status, second.body) == (None, 200, b"data: 1\n\n")
    assert "ReadTimeout" in first.error
    assert "ReadTimeout" in second.error
    assert not second.complete
