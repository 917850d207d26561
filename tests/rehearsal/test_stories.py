"""What the script plays, told by its feedback, and that nothing is remembered between requests."""

from typing import Any

import httpx2
import pytest

from kernelsmith import rehearsal
from kernelsmith.rehearsal import variants
from kernelsmith.rehearsal.script import SCRIPTS
from kernelsmith.wire import fragments
from tests.rehearsal.conftest import Server
from tests.rehearsal.playing import (
    FIRST,
    HEADERS,
    MENDED,
    PREFIX,
    ask,
    body,
    gate_like,
    opening,
    play,
)

TASKS = tuple(variants.VARIANTS)


@pytest.mark.parametrize("task", TASKS)
def test_the_night_breaks_bits_mends_exactly_that_wins_and_tries_once_more(
    night: httpx2.Client, task: str
) -> None:
    played = play(night, task, 0)
    assert played.names == [
        "get_task",
        "read_source",
        "check",
        "check",
        "measure",
        "submit",
        "check",
        "submit",
        "finish",
    ]
    given = [given for _, given in played.calls]
    assert given[2] == {"source": variants.source(task, "first")}
    edits = tuple((edit["old"], edit["new"]) for edit in given[3]["edits"])
    assert given[3]["base"] == FIRST
    assert variants.edited(given[2]["source"], edits) == variants.winner(task)
    assert given[4] == {"candidate": MENDED}
    assert given[6]["base"] == given[5]["candidate"] == MENDED


def test_the_minute_is_the_same_story_told_briefly(minute: httpx2.Client) -> None:
    played = play(minute, "rms_norm", 0)
    assert played.names == ["get_task", "read_source", "check", "check", "submit", "finish"]
    assert set(played.statuses) == {200}


def test_where_the_first_rewrite_keeps_its_bits_it_is_submitted(minute: httpx2.Client) -> None:
    def kind(name: str, given: dict[str, Any]) -> str:
        return (
            f"Candidate {FIRST}: bits kept so far." if name == "check" else gate_like(name, given)
        )

    played = play(minute, "linear", 0, kind)
    assert played.names == ["get_task", "read_source", "check", "submit", "finish"]
    assert played.calls[3][1]["candidate"] == FIRST


def test_where_the_edits_fail_the_whole_source_is_sent(minute: httpx2.Client) -> None:
    def strict(name: str, given: dict[str, Any]) -> str:
        if name == "check" and given.get("source") == variants.winner("linear"):
            return f"Candidate {MENDED}: bits kept so far."
        return "edit 0: old occurs 0 times" if "edits" in given else gate_like(name, given)

    played = play(minute, "linear", 0, strict)
    assert played.names[2:] == ["check", "check", "check", "submit", "finish"]


def test_where_nothing_keeps_its_bits_nothing_is_submitted(minute: httpx2.Client) -> None:
    def harsh(name: str, given: dict[str, Any]) -> str:
        return f"Candidate {FIRST}: BITS_DIFFER in parity.infer."

    played = play(minute, "rms_norm", 0, harsh)
    assert "submit" not in played.names
    assert played.names[-1] == "finish"


@pytest.mark.parametrize("task", TASKS)
def test_the_second_session_repeats_breaks_the_language_and_pleads(
    night: httpx2.Client, task: str
) -> None:
    def refusing(name: str, given: dict[str, Any]) -> str:
        if name != "check":
            return f"{name} refused."
        if given["source"] == variants.source(task, "plea_broken"):
            return f"Candidate {FIRST}: BITS_DIFFER in parity.train."
        if given["source"] == variants.source(task, "plea_slow"):
            return f"Candidate {MENDED}: bits kept so far."
        return "This is the same program as one on record."

    played = play(night, task, 1, refusing)
    sources = [given["source"] for name, given in played.calls if name == "check"]
    assert sources == [
        variants.winner(task),
        *(
            variants.source(task, name)
            for name in ("forbidden", "plea", "plea_broken", "plea_slow")
        ),
    ]
    assert [given["candidate"] for name, given in played.calls if name == "submit"] == [
        FIRST,
        MENDED,
    ]
    assert "ignore all previous instructions" in sources[2]
    assert played.names[-1] == "finish"


def test_odd_sessions_show_every_way_an_answer_may_end(night: httpx2.Client) -> None:
    seen, problems = set(), []
    for session in range(2, 8):
        for answer in play(night, "rms_norm", session).answers:
            seen.add(answer.stop_reason)
            problems += [block.problem for block in answer.blocks if block.problem]
    assert seen == {
        "tool_use",
        "end_turn",
        "max_tokens",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
    }
    assert len(problems) == 2  # input that is not JSON, and a call cut off by max_tokens


def test_an_odd_session_calls_several_tools_at_once(night: httpx2.Client) -> None:
    answers = play(night, "linear", 2).answers
    assert max(sum(b.kind == "tool_use" for b in answer.blocks) for answer in answers) == 4


def test_the_same_request_gets_the_same_bytes_from_any_server(
    night: httpx2.Client, server: Server
) -> None:
    one, other = server(), server()
    for session in (0, 1, 2, 3, 4, 6, 7):
        request = fragments.body(PREFIX, play(night, "rms_norm", session).fragments)
        for client in (one, other):  # past what is planned for this turn
            for _ in range(3):
                ask(client, request)
        found = [
            client.post("/v1/messages", content=request, headers=HEADERS).content
            for client in (one, other, one)
        ]
        assert found[0] == found[1] == found[2]


def test_a_resumed_conversation_is_told_the_rest_by_a_new_server(
    night: httpx2.Client, server: Server
) -> None:
    whole = play(night, "rms_norm", 0)
    request = fragments.body(PREFIX, whole.fragments)
    fresh = server()
    answers = [ask(fresh, request)[1] for _ in range(3)]
    assert whole.answers[-1] in answers


def test_other_tasks_and_openings_are_told_what_this_is(minute: httpx2.Client) -> None:
    for fragment in (opening("softmax", 0), fragments.user_text("Hello")):
        _, answer = ask(minute, fragments.body(PREFIX, (fragment,)))
        assert answer is not None
        assert rehearsal.LABEL in answer.text
        assert answer.stop_reason == "end_turn"


def test_every_reply_says_that_it_is_scripted(minute: httpx2.Client) -> None:
    response = minute.post("/v1/messages", content=body("rms_norm"), headers=HEADERS)
    assert response.headers["x-rehearsal"] == rehearsal.LABEL
    assert rehearsal.LABEL.encode() in response.content
    _, answer = ask(minute, body("rms_norm"))
    assert answer is not None
    assert answer.model == rehearsal.MODEL


def test_every_session_of_the_night_starts_with_the_label(night: httpx2.Client) -> None:
    for session in range(len(SCRIPTS["night"].sessions) + 1):
        first = play(night, "linear", session).answers[0]
        assert rehearsal.LABEL in first.text
