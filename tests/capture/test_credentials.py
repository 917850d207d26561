"""Credentials reach the upstream and nothing of them reaches the record."""

import gzip
from pathlib import Path

import httpx2
import pytest

from kernelsmith.capture import credentials, headers, running
from kernelsmith.lineage.journal import open_journal
from tests.capture.parts import RawUpstream, Rig, chunked, headers_of, one, whole

KEY = "sk-ant-api03-WvXyZ0123456789abcdef"
COOKIE = "cf_bm=qQ7hRz1kPz; other=Zm9vYmFyYmF6"
SECRET_LINES = {
    "authorization": f"Bearer {KEY}",
    "x-api-key": KEY,
    "cookie": COOKIE,
    "proxy-authorization": "Basic cHJveHk6cHc5OQ==",
    "x-goog-api-key": "goog-77aa88bb99",
    "x-custom": f"use {KEY} please",
    "x-forwarded-id": "bearer fwd-11223344",
    "anthropic-auth-token": "tok-5566778899",
}
TRACES = (
    KEY,
    KEY[7:],
    "qQ7hRz1kPz",
    "Zm9vYmFyYmF6",
    "cHJveHk6cHc5OQ==",
    "goog-77aa88bb99",
    "fwd-11223344",
    "tok-5566778899",
    "query-secret-1",
    "sess-44332211",
)


def test_no_byte_of_the_database_holds_a_credential(tmp_path: Path) -> None:
    """Streams, errors that repeat the key (plain and gzip), cookies set, an upstream that dies."""
    path = tmp_path / "runs.db"
    journal = open_journal(path)
    echo = f'{{"error":{{"message":"invalid key {KEY}, cookie {COOKIE}"}}}}'.encode()
    cookies = (
        "Set-Cookie: sid=sess-44332211; HttpOnly",
        f"X-Echo: {KEY} goog-77aa88bb99",
        "X-Note: HttpOnly",
    )
    answers = [
        [chunked(*cookies), b"3\r\n{}\n\r\n0\r\n\r\n"],
        [whole(echo, *cookies, status="401 Unauthorized")],
        [whole(gzip.compress(echo), "Content-Encoding: gzip", status="403 Forbidden")],
        [f"HTTP/1.1 200 {KEY}\x01\r\n{KEY}\r\n\r\n".encode()],
    ]
    kept = []
    with RawUpstream() as upstream, running(journal, upstream.url) as base:
        for number, answer in enumerate(answers):
            upstream.answers(*answer)
            url = f"{base}/k/run1/s{number}/v1/messages?beta=true&api_key=query-secret-1"
            response = httpx2.post(url, content=b"{}", headers=SECRET_LINES)
            kept.append(
                b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
            )
            line = upstream.requests[-1]
            got = headers_of(line.head)
            for name, value in SECRET_LINES.items():
                expected = None if name.startswith("proxy-") else value.encode()
                assert got.get(name.encode()) == expected
            assert b"api_key=query-secret-1" in line.head
            if number < 2:
                assert response.headers["set-cookie"] == "sid=sess-44332211; HttpOnly"
            if number in (1, 2):
                assert response.content == echo
    records = journal.sessions("run1")
    journal.close()
    kept.append(b"".join(each.read_bytes() for each in tmp_path.iterdir()))
    for content in kept:
        assert b"x-custom" in content  # the record is where we look
        assert [trace for trace in TRACES if trace.encode() in content] == []
    assert [trace for trace in TRACES if trace in repr(records)] == []  # blobs are compressed
    call = records[0].calls[0]
    assert set(call.sent.dropped) == set(SECRET_LINES) - {"x-custom"}
    assert call.sent.path == "/v1/messages?beta=true&api_key=(left out)"
    assert ("x-custom", "use (left out) please") in call.sent.headers
    assert call.answer is not None
    assert ("set-cookie", "(left out)") in call.answer.headers
    assert ("x-echo", "(left out) (left out)") in call.answer.headers
    assert ("x-note", "HttpOnly") in call.answer.headers
    masked, dropped, broken = (record.calls[0].answer for record in records[1:])
    assert masked is not None
    assert dropped is not None
    assert broken is not None
    assert len(masked.body) == len(echo)
    assert b"invalid key ****" in masked.body
    assert dropped.body == b""
    assert "credential" in masked.error
    assert "credential" in dropped.error
    assert broken.status is None
    assert "RemoteProtocolError" in broken.error


def test_a_body_that_came_well_is_never_touched(rig: Rig) -> None:
    """What a model says belongs to the conversation, even when it is shaped like a key."""
    body = b'{"text":"' + KEY.encode() + b'"}'
    rig.upstream.answers(whole(body))
    headers_sent = {"x-api-key": KEY}
    assert httpx2.post(rig.url(), content=body, headers=headers_sent).content == body
    assert one(rig.journal.answered()).body == body
    assert one(rig.journal.sent()).request == body


@pytest.mark.parametrize(
    "name",
    [
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-version",
        "anthropic-beta",
        "request-id",
        "retry-after",
        "x-claude-code-session-id",
        "x-keyed",
    ],
)
def test_names_that_people_look_for_stay(name: str) -> None:
    assert not credentials.is_credential(name.encode(), b"1")


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/v1/x", "/v1/x"),
        ("/v1/x?", "/v1/x?"),
        ("/v1/x?key=a1&b=2", "/v1/x?key=(left out)&b=2"),
        ("/v1/x?b=2&access_token=a1", "/v1/x?b=2&access_token=(left out)"),
        ("/v1/x?page_token=9&keyed=1", "/v1/x?page_token=9&keyed=1"),
        ("/v1/sk-proj-abcdefghijkl/x", "/v1/(left out)/x"),
    ],
)
def test_credentials_in_a_path_are_left_out(target: str, kept: str) -> None:
    assert credentials.scrubbed_target(target, ()) == kept


def test_a_length_beside_chunks_does_not_count() -> None:
    """RFC 9112, 6.3; passing it on would end the answer at a wrong place."""
    raw = [(b"Content-Length", b"3"), (b"Transfer-Encoding", b"chunked"), (b"ETag", b"x")]
    assert headers.outgoing(raw, ())[0] == [(b"etag", b"x")]
