"""What goes through is what came, on both sides and on record."""

import gzip
import threading

import httpx2
import pytest

from kernelsmith.capture import OneRun, running
from kernelsmith.capture.app import STRANGER
from tests.capture.parts import (
    LAST_CHUNK,
    Dialled,
    Line,
    MemoryJournal,
    Rig,
    chunked,
    cut,
    events,
    headers_of,
    one,
    post,
    whole,
)

ODD_BODY = '{"a" : 1.0,\r\n\t"a":1e0, "é":"\\u00e9\u2028"}'.encode() + bytes(range(256))


def test_the_request_reaches_the_upstream_as_it_was_written(rig: Rig) -> None:
    rig.upstream.answers(whole(b"{}"))
    target = "/k/run1/s1/v1//messages/../x%2fy%7E?beta=true&q=%20+%C3%A9&&e="
    rig.dial(
        post(
            target,
            ODD_BODY,
            "X-Odd:  two  words ",
            "Anthropic-Beta: a",
            "anthropic-beta: b",
            "Keep-Alive: 5",
            "X-Hop: 1",
            "Connection: X-Hop",
            "x-kernelsmith-turn: 3",
            "X-Kernelsmith-Attempt: 2",
            "x-kernelsmith-other: 1",
        )
    ).rest()
    line = one(rig.upstream.requests)
    assert line.body == ODD_BODY
    assert line.head.split(b"\r\n")[0] == (
        b"POST /v1//messages/../x%2fy%7E?beta=true&q=%20+%C3%A9&&e= HTTP/1.1"
    )
    host = rig.upstream.url.removeprefix("http://").encode()
    lines = [each.partition(b":") for each in line.head.split(b"\r\n")[1:] if each]
    assert [(name.lower(), value.strip()) for name, _, value in lines] == [
        (b"host", host),
        (b"x-odd", b"two  words"),
        (b"anthropic-beta", b"a"),
        (b"anthropic-beta", b"b"),
        (b"content-length", str(len(ODD_BODY)).encode()),
    ]
    sent = one(rig.journal.sent())
    assert sent.request == ODD_BODY
    assert (sent.run_id, sent.session_id, sent.turn, sent.attempt) == ("run1", "s1", None, None)
    assert (sent.method, sent.path) == ("POST", target.removeprefix("/k/run1/s1"))
    assert sent.headers == (
        ("x-odd", "two  words"),
        ("anthropic-beta", "a"),
        ("anthropic-beta", "b"),
        ("content-length", str(len(ODD_BODY))),
    )


def test_a_request_in_chunks_arrives_whole(rig: Rig) -> None:
    rig.upstream.answers(whole(b"{}"))
    pieces = cut(ODD_BODY, 7)
    assert httpx2.post(rig.url(), content=iter(pieces)).content == b"{}"
    line = one(rig.upstream.requests)
    assert line.body == ODD_BODY == one(rig.journal.sent()).request
    assert headers_of(line.head)[b"content-length"] == str(len(ODD_BODY)).encode()
    assert b"transfer-encoding" not in headers_of(line.head)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 61, 4096])
def test_a_stream_in_odd_pieces_arrives_byte_for_byte(rig: Rig, size: int) -> None:
    body = events(b": ping\n\n")
    pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in cut(body, size)]
    rig.upstream.answers(chunked("Request-Id: req_1"), *pieces, LAST_CHUNK)
    with httpx2.stream("POST", rig.url(), content=b"{}") as response:
        assert b"".join(response.iter_raw()) == body
    assert response.headers["request-id"] == "req_1"
    answer = one(rig.journal.answered())
    assert answer.body == body
    assert (answer.status, answer.complete, answer.delivered_bytes) == (200, True, len(body))
    assert answer.headers[:1] == (("content-type", "text/event-stream"),)
    assert (answer.message_id, answer.model, answer.stop_reason) == (
        "msg_1",
        "claude-opus-5-5",
        "end_turn",
    )
    usage = answer.usage
    assert (usage.input, usage.cache_read, usage.output) == (11, 7, 29)


def test_each_piece_arrives_before_the_next_one_is_made(rig: Rig) -> None:
    """A piece is inside "é", one inside "data:", one is a ping after a long pause."""
    pieces = [b"da", b"ta: \xc3", b"\xa9\n\n", b": ping\n\n", b"data: end\n\n"]
    seen = [threading.Event() for _ in pieces]

    async def script(line: Line) -> None:
        await line.send(chunked())
        for piece, event in zip(pieces, seen, strict=True):
            await line.chunks(piece)
            await line.when(event)
        await line.send(LAST_CHUNK)

    rig.upstream.script = script
    with httpx2.stream("POST", rig.url(), content=b"{}") as response:
        arrived = response.iter_raw()
        for piece, event in zip(pieces, seen, strict=True):
            assert next(arrived) == piece
            event.set()
        assert list(arrived) == []
    assert one(rig.journal.answered()).body == b"".join(pieces)


@pytest.mark.parametrize("framing", ["chunked", "declared"])
def test_gzip_stays_gzip(rig: Rig, framing: str) -> None:
    body = gzip.compress(events(), mtime=0)
    encoding, kind = "Content-Encoding: gzip", "text/event-stream"
    if framing == "chunked":
        rig.upstream.answers(chunked(encoding), b"%x\r\n%b\r\n" % (len(body), body), LAST_CHUNK)
    else:
        rig.upstream.answers(whole(body, encoding, kind=kind))
    with httpx2.stream("POST", rig.url(), content=b"{}") as response:
        assert b"".join(response.iter_raw()) == body
    assert response.headers["content-encoding"] == "gzip"
    answer = one(rig.journal.answered())
    assert answer.body == body
    assert answer.usage.output == 29


def test_an_overloaded_answer_keeps_its_body_and_retry_after(rig: Rig) -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    rig.upstream.answers(whole(body, "Retry-After: 7", status="529 Overloaded"))
    response = httpx2.post(rig.url(), content=b"{}")
    assert (response.status_code, response.content) == (529, body)
    assert response.headers["retry-after"] == "7"
    answer = one(rig.journal.answered())
    assert (answer.status, answer.body, answer.complete) == (529, body, True)
    assert ("retry-after", "7") in answer.headers
    assert answer.usage.tokens == 0


@pytest.mark.parametrize(
    ("method", "answer", "status", "body"),
    [
        ("GET", whole(b'{"data":[]}'), 200, b'{"data":[]}'),
        ("GET", whole(b""), 200, b""),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n", 200, b""),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, b""),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", 304, b""),
        (
            "GET",
            b"HTTP/1.1 307 Moved\r\nLocation: http://[/\r\nContent-Length: 0\r\n\r\n",
            307,
            b"",
        ),
        ("PATCH", whole(b"no", status="418 Teapot", kind="text/plain"), 418, b"no"),
    ],
)
def test_any_method_and_any_status_pass(
    rig: Rig, method: str, answer: bytes, status: int, body: bytes
) -> None:
    rig.upstream.answers(answer)
    with httpx2.Client() as client, client.stream(method, rig.url("/v1/models")) as response:
        assert b"".join(response.iter_raw()) == body
    assert response.status_code == status
    assert one(rig.upstream.requests).head.startswith(f"{method} /v1/models ".encode())
    assert one(rig.upstream.requests).body == b""
    recorded = one(rig.journal.answered())
    assert (recorded.status, recorded.body, recorded.complete) == (status, body, True)


def test_an_answer_that_ends_with_its_connection_is_whole(rig: Rig) -> None:
    async def script(line: Line) -> None:
        await line.send(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", events())
        line.writer.close()

    rig.upstream.script = script
    assert httpx2.post(rig.url(), content=b"{}").content == events()
    assert one(rig.journal.answered()).complete


def test_connections_to_the_upstream_are_used_again(rig: Rig) -> None:
    rig.upstream.answers(whole(b"{}"))
    before = rig.upstream.connections
    with httpx2.Client() as client:
        for _ in range(5):
            client.post(rig.url(), content=b"{}")
    assert rig.upstream.connections - before <= 1


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/messages",
        "/k/run1",
        "/k/run1/s1",
        "/k/run%2F1/s1/v1/x",
        "/k/../s1/x",
        "/k%2Frun1%2Fs1%2Fx",
    ],
)
def test_other_places_are_not_found(rig: Rig, path: str) -> None:
    answer = rig.dial(
        f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
    ).rest()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"/k/RUN/SESSION/v1/messages" in answer
    assert rig.journal.entries == []


OWN = OneRun(run_id="run1", token="unguessable")
PATH = "/k/run1/s1/v1/messages"
KNOWN = "X-Kernelsmith-Token: unguessable"


def test_a_runs_own_proxy_takes_its_own_calls_alone(rig: Rig) -> None:
    """Any process of the machine may reach it; a call in the run's name would spoil its record."""
    journal = MemoryJournal()
    turn = ("x-kernelsmith-turn: 1", "x-kernelsmith-attempt: 7")
    rig.upstream.answers(whole(b"{}"))
    with running(journal, rig.upstream.url, only=OWN) as base:
        for path, *lines in (
            (PATH, *turn),
            (PATH, *turn, "x-kernelsmith-token: Unguessable"),
            (PATH, "x-kernelsmith-token:"),
            (PATH, "x-kernelsmith-token: \xff"),
        ):
            refused = Dialled(base, post(path, b"{}", *lines)).rest()
            assert refused.startswith(b"HTTP/1.1 403 ")
            assert refused.endswith(b"\r\n\r\n" + STRANGER.encode())
        another = Dialled(base, post("/k/run2/s1/v1/messages", b"{}", KNOWN)).rest()
        assert another.startswith(b"HTTP/1.1 404 ")
        assert (journal.entries, rig.upstream.requests) == ([], [])
        Dialled(base, post(PATH, b"{}", *turn, KNOWN)).rest()
    sent = one(journal.sent())
    assert (sent.turn, sent.attempt) == (1, 7)
    assert "unguessable" not in repr((journal.entries, OWN))
    assert b"unguessable" not in one(rig.upstream.requests).head


def test_a_foreign_client_makes_no_call_in_the_name_of_a_run(rig: Rig) -> None:
    journal = MemoryJournal()
    rig.upstream.answers(whole(b"{}"))
    with running(journal, rig.upstream.url, is_run=lambda name: name == "run1") as base:
        refused = Dialled(base, post(PATH, b"{}", "x-kernelsmith-turn: 1")).rest()
        assert refused.startswith(b"HTTP/1.1 403 ")
        assert (journal.entries, rig.upstream.requests) == ([], [])
        Dialled(base, post("/k/mine/s1/v1/messages", b"{}", "x-kernelsmith-turn: x")).rest()
    assert (one(journal.sent()).run_id, one(journal.sent()).turn) == ("mine", None)


def test_what_cannot_be_kept_is_refused_before_anything_goes_out(rig: Rig) -> None:
    journal = MemoryJournal()
    with running(journal, rig.upstream.url, only=OWN) as base:
        odd_turn = Dialled(base, post(PATH, b"{}", "x-kernelsmith-turn: x", KNOWN)).rest()
    assert journal.entries == []
    assert odd_turn.startswith(b"HTTP/1.1 400 ")
    assert b"x-kernelsmith-turn" in odd_turn
    old = rig.dial(b"GET " + PATH.encode() + b" HTTP/1.0\r\n\r\n").rest()
    assert old.split(b" ")[1] == b"505"
    assert rig.journal.entries == []
    assert rig.upstream.requests == []
