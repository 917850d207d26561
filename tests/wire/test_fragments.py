"""Requests as frozen fragments."""

import json

from kernelsmith.model import CallAnswered
from kernelsmith.wire import answer_of, fragments, parse_answer
from tests.wire import streams


def assistant(*blocks: list[dict], **more: object) -> dict:
    answer = parse_answer(200, "text/event-stream", streams.message(*blocks, **more))
    return json.loads(fragments.assistant(answer))


def test_a_body_is_its_prefix_and_its_messages() -> None:
    prefix = fragments.prefix("m-1", 4000, "say é", b'[{"name":"check"}]', "adaptive", "high")
    body = fragments.body(prefix, [fragments.user_text("a\u2028"), b'{"role":"assistant"}'])
    assert json.loads(body) == {
        "model": "m-1",
        "max_tokens": 4000,
        "system": "say é",
        "tools": [{"name": "check"}],
        "cache_control": {"type": "ephemeral"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "stream": True,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a\u2028"}]},
            {"role": "assistant"},
        ],
    }


def test_thinking_and_effort_are_left_to_the_server_unless_named() -> None:
    plain = json.loads(fragments.prefix("m", 1, "", b"[]", None, None) + b"]}")
    assert not {"thinking", "output_config", "system"} & set(plain)
    counted = json.loads(fragments.prefix("m", 1, "", b"[]", "2048", None) + b"]}")
    assert counted["thinking"] == {"type": "enabled", "budget_tokens": 2048}


def test_results_stand_in_order_and_an_error_says_so() -> None:
    written = fragments.tool_results([("t1", "fine", False), ("t2", "bad\ud800", True)], "more")
    assert json.loads(written)["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": "fine"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "bad\ud800", "is_error": True},
        {"type": "text", "text": "more"},
    ]


def test_text_without_a_visible_character_is_not_sent_back() -> None:
    sent = assistant(streams.text("\n\n"), streams.text("so"), streams.text(""))
    assert sent["content"] == [{"type": "text", "text": "so"}]


def test_thinking_cut_before_its_signature_is_not_sent_back() -> None:
    cut = assistant(streams.text("so"), streams.thinking("hm", ""), stop="max_tokens")
    assert [block["type"] for block in cut["content"]] == ["text"]
    # A server that signs nothing gets its thinking back.
    whole = assistant(streams.thinking("hm", ""), streams.text("so"), stop="max_tokens")
    assert [block["type"] for block in whole["content"]] == ["thinking", "text"]


def test_a_message_is_never_without_content() -> None:
    assert assistant()["content"] == [{"type": "text", "text": "(no answer)"}]


def recorded(**changes: object) -> CallAnswered:
    facts: dict = {
        "call_id": "c",
        "status": 200,
        "headers": (("Content-Type", "text/event-stream"),),
        "body": streams.message(streams.text("so")),
        "complete": True,
        "delivered_bytes": 0,
        "error": "",
        "first_byte_s": None,
        "seconds": 0.0,
    }
    return CallAnswered(**{**facts, **changes})


def test_a_recorded_answer_counts_if_it_is_whole_and_no_error() -> None:
    import gzip

    whole = answer_of(recorded())
    assert whole is not None
    assert whole.text == "so"
    packed = recorded(
        body=gzip.compress(recorded().body),
        headers=(("CONTENT-ENCODING", "gzip"), ("content-type", "text/event-stream")),
    )
    assert answer_of(packed) == whole
    assert answer_of(recorded(complete=False)) is None
    assert answer_of(recorded(status=None)) is None
    assert answer_of(recorded(status=529)) is None
    assert answer_of(recorded(body=recorded().body[:-5])) is None
    assert answer_of(recorded(headers=(("content-encoding", "br"),))) is None
