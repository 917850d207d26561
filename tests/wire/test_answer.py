"""Answers from bytes: what they say, and the bytes that are sent back for them."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsmith.model import Usage
from kernelsmith.wire import Answer, Block, fragments, parse_answer
from tests.wire import streams

SSE = "text/event-stream; charset=utf-8"


def read(*blocks: list[dict], **more: object) -> Answer:
    return parse_answer(200, SSE, streams.message(*blocks, **more))


def only(*blocks: list[dict], **more: object) -> Block:
    answer = read(*blocks, **more)
    assert answer.received, answer.error
    (block,) = answer.blocks
    return block


def test_a_stream_gives_its_message() -> None:
    answer = read(
        streams.thinking("hm, bits"),
        streams.text("I check."),
        streams.tool("check", '{"source": "x = 1"}', caller={"type": "direct"}),
        stop="tool_use",
    )
    assert answer.received
    assert (answer.message_id, answer.model, answer.stop_reason) == ("msg_1", "m", "tool_use")
    assert [block.kind for block in answer.blocks] == ["thinking", "text", "tool_use"]
    assert answer.blocks[2].tool_input == {"source": "x = 1"}
    assert answer.text == "I check."
    assert fragments.assistant(answer) == (
        b'{"role":"assistant","content":['
        b'{"type":"thinking","thinking":"hm, bits","signature":"c2lnbmVk"},'
        b'{"type":"text","text":"I check."},'
        b'{"type":"tool_use","id":"toolu_1","name":"check","input":{"source": "x = 1"},'
        b'"caller":{"type": "direct"}}]}'
    )


VERBATIM = (
    '{"b": 1e-5,  "a": 1.0, "u": "\\u00e9\\u2028", "s": "x\\/y", "f": 0.10, "e":1E3, "dup":1,'
    ' "dup":2, "z":-0.0, "big": 123456789012345678901234567890, "lone": "\\ud800"}'
)


@pytest.mark.parametrize(
    "given",
    [VERBATIM, '\n {"raw": "é\u2028\U0001f600"}\n', '{"a":{"b":[1 , 2]}}', "{}", "{ }"],
)
def test_a_tools_input_goes_back_as_it_was_written(given: str) -> None:
    block = only(streams.tool("check", given))
    want = b'{"type":"tool_use","id":"toolu_1","name":"check","input":' + given.encode() + b"}"
    assert block.raw == want
    assert block.text == given
    assert block.tool_input == json.loads(given)
    assert block.problem == ""


@settings(max_examples=60, deadline=None)
@given(st.text(), st.integers(1, 9))
def test_text_survives_however_it_is_cut(said: str, pieces: int) -> None:
    halves = said.encode("utf-16-le", "surrogatepass")
    units = [chr(int.from_bytes(halves[i : i + 2], "little")) for i in range(0, len(halves), 2)]
    block = only(streams.text("".join(units), pieces))  # pairs may be cut over two deltas
    assert block.text == said
    assert json.loads(block.raw) == {"type": "text", "text": said}
    block.raw.decode("utf-8")


def test_a_lone_surrogate_stays_an_escape() -> None:
    block = only(streams.text("a\ud800b\u2028", 1))
    assert block.raw == b'{"type":"text","text":"a\\ud800b\xe2\x80\xa8"}'


@pytest.mark.parametrize(
    "given",
    [
        *('{"source": "x', "[1]", '"text"', "null", '{"a": NaN}', '{"a": "raw\nline"}', "{} {}"),
        *('{"a":' + "9" * 5000 + "}", '{"a":' + "[" * 100_000),
    ],
)
def test_an_input_that_is_no_object_is_quoted_and_named(given: str) -> None:
    block = only(streams.tool("check", given))
    assert block.tool_input is None
    assert "no JSON" in block.problem
    assert json.loads(block.raw)["input"] == {"unparsable": given}


@pytest.mark.parametrize("start", [{}, {"input": None}, {"input": {}}])
def test_no_input_is_an_empty_object(start: dict) -> None:
    first = {"type": "tool_use", "id": "t", "name": "finish", **start}
    block = only([first])
    assert block.tool_input == {}
    assert json.loads(block.raw) == {**first, "input": {}}


def test_an_input_given_whole_at_the_start_counts_if_no_delta_comes() -> None:
    block = only([{"type": "tool_use", "id": "t", "name": "check", "input": {"source": "1E3"}}])
    assert block.tool_input == {"source": "1E3"}


def test_a_tool_use_without_an_id_gets_the_same_one_each_time() -> None:
    first = {"type": "tool_use", "name": "finish", "input": {}}
    one, two = read([first], [first]).blocks
    assert one.tool_use_id.startswith("toolu_")
    assert one.tool_use_id != two.tool_use_id
    assert json.loads(one.raw)["id"] == one.tool_use_id
    assert read([first], [first]).blocks == (one, two)


def test_blocks_of_unknown_kinds_go_back_as_they_came() -> None:
    start = {"type": "compaction", "content": "so far", "weight": 1e3, "encrypted": "A=="}
    block = only([start])
    assert block.kind == "other"
    assert json.loads(block.raw) == start
    used = {"type": "server_tool_use", "id": "s", "name": "web", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"q":  1E3}'}
    assert b'"input":{"q":  1E3}' in only([used, delta]).raw
    hidden = only([{"type": "redacted_thinking", "data": "é=="}])
    assert hidden.kind == "redacted_thinking"
    assert hidden.raw == '{"type":"redacted_thinking","data":"é=="}'.encode()


def test_citations_are_kept_as_they_came() -> None:
    citation = {"type": "citations_delta", "citation": {"type": "page", "at": 1}}
    block = only([*streams.text("so"), citation, citation])
    assert block.raw == (
        b'{"type":"text","text":"so","citations":'
        b'[{"type": "page", "at": 1},{"type": "page", "at": 1}]}'
    )


@pytest.mark.parametrize(
    "blocks",
    [
        [[{"type": "text", "text": ""}, {"type": "novel_delta", "novel": 1}]],
        [[{"type": "text", "text": ""}, {"type": "input_json_delta", "partial_json": "{}"}]],
        [[{"type": "novel"}, {"type": "text_delta", "text": "lost"}]],
        [[{"type": "text", "text": ""}, {"type": "text_delta"}]],
        [[{"no": "type"}]],
    ],
)
def test_what_cannot_be_sent_back_makes_the_answer_unfinished(blocks: list) -> None:
    answer = read(*blocks)
    assert not answer.finished
    assert answer.error is not None
    assert answer.error.kind == "unreadable"
    assert answer.usage.input == 10


@pytest.mark.parametrize(
    "broken",
    [
        b"data: {nonsense\n\n",
        b"data: [1]\n\n",
        streams.event("content_block_delta", index=5, delta={"type": "text_delta", "text": "x"}),
        streams.event("content_block_start", index="0", content_block={"type": "text"}),
        streams.event("content_block_start", index=0),
        b'data: {"type":"ping","n":' + b"[" * 100_000 + b"\n\n",
    ],
)
def test_a_broken_event_makes_the_answer_unreadable(broken: bytes) -> None:
    whole = streams.message(streams.text("so"))
    answer = parse_answer(200, SSE, broken + whole)
    assert not answer.received
    assert answer.error is not None


def test_a_block_that_starts_twice_is_unreadable() -> None:
    start = streams.event("content_block_start", index=0, content_block={"type": "text"})
    answer = parse_answer(200, SSE, start + start)
    assert answer.error is not None
    assert "twice" in answer.error.message


def test_a_stream_is_finished_by_message_stop_alone() -> None:
    whole = streams.message(streams.text("so"))
    assert parse_answer(200, SSE, whole).finished
    for nbytes in range(len(whole)):
        cut = parse_answer(200, SSE, whole[:nbytes])
        assert not cut.finished, nbytes
        assert cut.error is None, nbytes
    assert not read(streams.text("so"), end=False).finished


@pytest.mark.parametrize(
    ("kind", "status"),
    [("overloaded_error", 529), ("rate_limit_error", 429), ("api_error", 500), ("novel", 500)],
)
def test_an_error_in_the_middle_of_a_stream_has_its_status(kind: str, status: int) -> None:
    head = streams.message(streams.text("so"), end=False)
    body = head + streams.event("error", error={"type": kind, "message": "Overloaded"})
    answer = parse_answer(200, SSE, body)
    assert not answer.finished
    assert answer.error is not None
    assert (answer.error.kind, answer.error.status) == (kind, status)
    assert answer.error.message == "Overloaded"
    assert answer.usage.output == 7


def test_nothing_counts_after_the_end_or_after_an_error() -> None:
    whole = streams.message(streams.text("so"))
    error = streams.event("error", error={"type": "api_error", "message": "late"})
    assert parse_answer(200, SSE, whole + error) == parse_answer(200, SSE, whole)
    answer = parse_answer(200, SSE, error + whole)
    assert answer.error is not None
    assert (answer.error.message, answer.finished, answer.blocks) == ("late", False, ())


def test_an_error_of_another_makers_stream_is_one() -> None:
    answer = parse_answer(200, SSE, b'data: {"error": {"message": "no", "type": "busy"}}\n\n')
    assert answer.error is not None
    assert answer.error.message == "no"


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (
            b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}',
            "rate_limit_error",
            "slow",
        ),
        (b'{"error":{"message":"bad","type":"BadRequest","code":400}}', "BadRequest", "bad"),
        (b'{"error":"plain"}', "rate_limit_error", "plain"),
        (b'{"detail":[{"loc":["body"]}]}', "rate_limit_error", '[{"loc": ["body"]}]'),
        (b"<html>busy</html>", "rate_limit_error", "<html>busy</html>"),
        (b"", "rate_limit_error", "HTTP status 429"),
        (b"\xff", "rate_limit_error", "\ufffd"),
    ],
)
def test_an_error_body_of_any_maker_is_read(body: bytes, kind: str, message: str) -> None:
    error = parse_answer(429, "application/json", body).error
    assert error is not None
    assert (error.kind, error.message, error.status) == (kind, message, 429)


def test_a_message_that_is_not_streamed_is_read_from_its_own_bytes() -> None:
    body = (
        b'{"id": "msg_2", "stop_reason": "tool_use", "model": "m", "content": ['
        b'{"type": "text", "text": "caf\\u00e9"}, {"name": "check", "type": "tool_use",'
        b' "input": {"n":  1E3, "n": 2}, "id": "t", "caller": null}],'
        b' "usage": {"input_tokens": 3, "output_tokens": 4}}'
    )
    answer = parse_answer(200, "application/json", body)
    assert answer.received
    assert fragments.assistant(answer) == (
        '{"role":"assistant","content":[{"type":"text","text":"café"},'.encode()
        + b'{"type":"tool_use","id":"t","name":"check","input":{"n":  1E3, "n": 2}}]}'
    )
    assert answer.usage == Usage(input=3, output=4)
    for nbytes in range(len(body)):
        assert not parse_answer(200, "application/json", body[:nbytes]).received


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"content": 1}', b'{"content": [1]}'])
def test_a_good_status_without_a_message_is_unreadable(body: bytes) -> None:
    answer = parse_answer(200, "text/html", body)
    assert not answer.received
    assert answer.error is not None


def test_servers_that_leave_out_types_are_understood() -> None:
    whole = streams.message(streams.text("so"))
    assert parse_answer(200, "", whole) == parse_answer(200, SSE, whole)
    named = b'event: message_stop\ndata: {"note": 1}\n\n'
    head = streams.message(streams.text("so"), end=False)
    assert parse_answer(200, SSE, head + b"data: [DONE]\n\n" + named).finished


@pytest.mark.parametrize(
    ("first", "last", "want"),
    [
        (
            {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1},
            {"output_tokens": 9},
            Usage(input=10, output=9, cache_read=5),
        ),
        (
            {"input_tokens": 10, "output_tokens": 3},
            {"input_tokens": 10, "output_tokens": 9, "cache_read_input_tokens": 2},
            Usage(input=10, output=9, cache_read=2),
        ),
        ({"cache_creation_input_tokens": 7}, {}, Usage(cache_write_5m=7)),
        (
            {
                "cache_creation_input_tokens": 7,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 3,
                    "ephemeral_1h_input_tokens": 4,
                },
            },
            {"cache_creation_input_tokens": 7},
            Usage(cache_write_5m=3, cache_write_1h=4),
        ),
        (
            {"cache_creation": {"ephemeral_1h_input_tokens": 4}},
            {"cache_creation_input_tokens": 6},
            Usage(cache_write_5m=2, cache_write_1h=4),
        ),
        (
            {"input_tokens": None, "output_tokens": True, "cache_read_input_tokens": "5"},
            {"output_tokens": -1},
            Usage(),
        ),
        (
            {"input_tokens": 10**30, "output_tokens": 12.0, "cache_read_input_tokens": 1.5},
            {"input_tokens": -(10**9), "cache_creation_input_tokens": math.inf},
            Usage(input=10**12, output=12),
        ),
    ],
)
def test_usage_is_what_the_largest_counts_say(first: dict, last: dict, want: Usage) -> None:
    assert read(streams.text("so"), usage=first, more=last).usage == want


@pytest.mark.parametrize("streamed", [True, False])
def test_a_count_of_thousands_of_digits_is_one_that_no_answer_takes(streamed: bool) -> None:
    digits = b"9" * 5000
    if streamed:
        stream = streams.message(streams.text("so"), usage={"input_tokens": 999, "x": 999})
        answer = parse_answer(200, "text/event-stream", stream.replace(b"999", digits))
    else:
        answer = parse_answer(
            200,
            "application/json",
            b'{"type":"message","id":"m","content":[{"type":"text","text":"so"}],"usage":'
            b'{"input_tokens":' + digits + b',"output_tokens":7}}',
        )
    assert answer.received
    assert answer.text == "so"
    assert answer.usage == Usage(input=10**12, output=7)
