"""The server as the real client library and a plain one see it."""

import gzip
import itertools
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from kernelsmith.rehearsal.delivery import Delivery
from kernelsmith.wire import fragments, read_response
from tests.rehearsal.conftest import Library, Server
from tests.rehearsal.playing import HEADERS, PREFIX, ask, body, events, gate_like, play

OPENING = "Task: {task}. Session: {session}. Parent: 0123456789abcdef.\nGo on."


def said(content: list[Any]) -> list[dict[str, Any]]:
    keep = {"type", "text", "thinking", "signature", "id", "name", "input"}
    return [{k: v for k, v in block.to_dict().items() if k in keep} for block in content]


def talk(client: anthropic.Anthropic, task: str, session: int) -> list[Any]:
    """A session through the client's own accumulation; broken tries are made again."""
    first = OPENING.format(task=task, session=session)
    messages: list[Any] = [{"role": "user", "content": first}]
    found = []
    for _ in range(30):
        try:
            with client.messages.stream(
                model="any",
                max_tokens=16_000,
                messages=messages,
                thinking={"type": "adaptive"},
            ) as stream:
                message = stream.get_final_message()
        except (anthropic.APIError, httpx2.TransportError):
            continue
        found.append(message)
        messages.append({"role": "assistant", "content": said(message.content)})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls or any(call.name == "finish" for call in calls):
            break
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": gate_like(call.name, dict(call.input)),
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    return found


@pytest.mark.parametrize("session", [0, 1, 3, 4])
def test_the_client_library_takes_every_stream(
    night: httpx2.Client, library: Library, session: int
) -> None:
    messages = talk(library(night), "rms_norm", session)
    assert len(messages) >= 2
    assert all(message.usage.output_tokens > 0 for message in messages)
    kinds = {block.type for message in messages for block in message.content}
    assert {"text", "tool_use"} <= kinds
    if session == 0:
        assert "thinking" in kinds


def test_thinking_is_signed_and_only_given_if_asked_for(minute: httpx2.Client) -> None:
    thinking = [b for a in play(minute, "rms_norm", 0).answers for b in a.blocks]
    signed = [json.loads(block.raw) for block in thinking if block.kind == "thinking"]
    assert signed
    assert all(block["signature"] and block["thinking"] for block in signed)
    silent = body("rms_norm").replace(b'"type":"adaptive"', b'"type":"disabled"')
    assert silent != body("rms_norm")
    _, answer = ask(minute, silent)
    assert answer is not None
    assert "thinking" not in {block.kind for block in answer.blocks}


def test_one_document_says_what_the_stream_says(minute: httpx2.Client, library: Library) -> None:
    client = library(minute)
    first = OPENING.format(task="linear", session=0)
    asked: Any = {
        "model": "any",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": first}],
    }
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    assert [b["type"] for b in said(whole.content)] == [b["type"] for b in said(streamed.content)]
    assert whole.stop_reason == streamed.stop_reason == "tool_use"


def test_a_stream_has_the_events_of_the_api_in_their_order(minute: httpx2.Client) -> None:
    response = minute.post("/v1/messages", content=body("linear"), headers=HEADERS)
    kinds = [event["type"] for event in events(response.content)]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["request-id"].startswith("req_")
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_tool_input_is_torn_inside_an_escape(minute: httpx2.Client) -> None:
    request = fragments.body(PREFIX, play(minute, "rms_norm", 0).fragments[:3])
    response = minute.post("/v1/messages", content=request, headers=HEADERS)
    deltas = [e["delta"] for e in events(response.content) if e["type"] == "content_block_delta"]
    pieces = [d["partial_json"] for d in deltas if d["type"] == "input_json_delta"]
    torn = [p for p in pieces if (len(p) - len(p.rstrip("\\"))) % 2]
    assert torn
    assert pieces[0] == ""
    assert json.loads("".join(pieces))["source"]


def test_usage_grows_out_of_the_cache(minute: httpx2.Client) -> None:
    usages = [answer.usage for answer in play(minute, "rms_norm", 0).answers]
    assert usages[0].cache_read == 0
    for before, now in itertools.pairwise(usages):
        assert now.input == 3
        assert abs(now.cache_read - before.prompt_tokens) <= 40
        assert now.cache_write_5m > 0


def test_without_caching_all_of_the_prompt_is_input(minute: httpx2.Client) -> None:
    plain = json.loads(body("rms_norm"))
    del plain["cache_control"]
    _, answer = ask(minute, json.dumps(plain).encode())
    assert answer is not None
    assert (answer.usage.cache_read, answer.usage.cache_write_5m) == (0, 0)
    assert answer.usage.input > 20


def test_an_hour_of_caching_is_counted_apart(minute: httpx2.Client) -> None:
    long = json.loads(body("rms_norm"))
    long["cache_control"]["ttl"] = "1h"
    _, answer = ask(minute, json.dumps(long).encode())
    assert answer is not None
    assert answer.usage.cache_write_1h > 0
    assert answer.usage.cache_write_5m == 0


@pytest.mark.parametrize("script", ["night", "zero"])
def test_gzip_and_odd_pieces_carry_the_same_bytes(server: Server, script: str) -> None:
    request = body("rms_norm", 7)
    plain = server(script).post("/v1/messages", content=request, headers=HEADERS)
    odd = server(script, Delivery(gzip=True, odd_chunks=5))
    with odd.stream("POST", "/v1/messages", content=request, headers=HEADERS) as response:
        raw = b"".join(response.iter_raw())
    assert response.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == plain.content
    headers = {**HEADERS, "accept-encoding": "identity"}
    unzipped = odd.post("/v1/messages", content=request, headers=headers)
    assert "content-encoding" not in unzipped.headers
    assert unzipped.content == plain.content


def test_the_client_library_reads_gzip_in_odd_pieces(server: Server, library: Library) -> None:
    client = library(server("minute", Delivery(gzip=True, odd_chunks=1)))
    assert [b.name for m in talk(client, "linear", 0) for b in m.content if b.type == "tool_use"]


def refused(client: httpx2.Client, request: dict[str, Any]) -> str:
    status, answer = ask(client, json.dumps(request).encode())
    assert answer is not None
    assert answer.error is not None
    return f"{status} {answer.error.kind}: {answer.error.message}"


def test_what_the_api_refuses_is_refused(minute: httpx2.Client) -> None:
    user = {"role": "user", "content": "Hello"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_task", "input": {}}
    good = {"model": "any", "max_tokens": 1, "messages": [user]}
    assert refused(minute, {}).startswith("400 invalid_request_error: model")
    assert "max_tokens" in refused(minute, {**good, "max_tokens": 0})
    assert "at least one" in refused(minute, {**good, "messages": []})
    assert "404 not_found_error" in refused(minute, {**good, "model": "no-such-model"})
    unanswered = [user, {"role": "assistant", "content": [call]}, user]
    assert "toolu_1" in refused(minute, {**good, "messages": unanswered})
    text = [user, {"role": "assistant", "content": [{**call, "input": "{"}]}]
    assert "should be an object" in refused(minute, {**good, "messages": text})
    empty = [user, {"role": "assistant", "content": []}]
    assert "content" in refused(minute, {**good, "messages": empty})
    response = minute.post("/v1/messages", content=b"{", headers=HEADERS)
    assert response.status_code == 400
    assert response.json()["request_id"] == response.headers["request-id"]


def test_the_client_library_raises_its_own_errors(minute: httpx2.Client, library: Library) -> None:
    asked: Any = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    wrong = library(minute, "wrong-key")
    with pytest.raises(anthropic.AuthenticationError):
        wrong.messages.create(**asked)
    with pytest.raises(anthropic.NotFoundError):
        library(minute).messages.create(**{**asked, "model": "no-such-model"})
    assert [model.id for model in library(minute).models.list().data] == ["scripted-replies"]
    counted = library(minute).messages.count_tokens(model="any", messages=asked["messages"])
    assert counted.input_tokens > 0


def test_troubles_come_in_their_order_and_once(night: httpx2.Client, server: Server) -> None:
    fragment = play(night, "rms_norm", 1).fragments
    request = fragments.body(PREFIX, fragment[:9])  # before turn 4
    fresh = server()
    tries = [ask(fresh, request) for _ in range(4)]
    assert [status for status, _ in tries] == [0, 429, 200, 200]
    assert tries[2][1] == tries[3][1]


def test_a_limit_says_when_to_come_back(night: httpx2.Client, server: Server) -> None:
    request = fragments.body(PREFIX, play(night, "linear", 0).fragments[:5])  # before turn 2
    limited = server().post("/v1/messages", content=request, headers=HEADERS)
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "1")


def test_an_error_may_come_inside_a_stream_that_began_well(
    night: httpx2.Client, server: Server
) -> None:
    request = fragments.body(PREFIX, play(night, "rms_norm", 1).fragments[:5])  # before turn 2
    response = server().post("/v1/messages", content=request, headers=HEADERS)
    answer = read_response(200, list(response.headers.multi_items()), response.content)
    assert answer.error is not None
    assert answer.error.kind == "overloaded_error"
    assert not answer.finished


def test_every_byte_may_come_without_a_clean_end(night: httpx2.Client, server: Server) -> None:
    request = fragments.body(PREFIX, play(night, "linear", 0).fragments[:13])  # before turn 6
    fresh = server()
    got = bytearray()

    def take(parts: Iterator[bytes]) -> None:
        for part in parts:
            got.extend(part)

    with (
        fresh.stream("POST", "/v1/messages", content=request, headers=HEADERS) as response,
        pytest.raises(httpx2.RemoteProtocolError),
    ):
        take(response.iter_raw())
    whole = fresh.post("/v1/messages", content=request, headers=HEADERS)
    assert got == whole.content


def test_a_prompt_that_is_too_long_stays_too_long(night: httpx2.Client) -> None:
    assert play(night, "rms_norm", 5).statuses[-1] == 400
    request = fragments.body(PREFIX, play(night, "rms_norm", 5).fragments)
    status, answer = ask(night, request)
    assert status == 400
    assert answer is not None
    assert answer.error is not None
    assert "prompt is too long" in answer.error.message
