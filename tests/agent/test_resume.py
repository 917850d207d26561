"""A conversation cut off anywhere goes on with the same bytes, pays nothing twice, and runs no
tool again that has a result on record."""

import gzip
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kernelsmith.errors import EvidenceError
from kernelsmith.model import CallAnswered, CallSent, SessionEnd, SessionRecord, ToolDone
from kernelsmith.proposers.agent.flow import steps
from kernelsmith.proposers.agent.rebuild import rebuild
from kernelsmith.wire import answer_of
from tests.agent.scripted import RUN, FakeJournal, FakeToolbox, Reply, Scripted, refuses, says
from tests.agent.test_talk import FINISH, START, check, talk
from tests.wire import streams

PACKED = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
ODD_INPUT = '{"b": 1e-5,  "a": 1.0, "u": "\\u00e9\\u2028", "e":1E3, "dup":1, "dup":2}'


def overloaded(whole: Reply) -> Reply:
    error = streams.event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    return Reply(body=whole.body.partition(b"event: message_stop")[0] + error)


THINKS = says(
    streams.thinking("bits é\u2028"),
    streams.text("Look:"),
    check(ODD_INPUT, "t1"),
    check('{"wrong": 1}', "t2"),
    check('{"broken', "t3"),
    check("{}", "t4"),
    stop="tool_use",
)
TURNS: Sequence[Reply | Sequence[Reply]] = (
    [refuses(429, "rate_limit_error", retry_after="1"), refuses(529, "overloaded_error"), THINKS],
    [
        replace(THINKS, cut_at=len(THINKS.body) // 2),
        Reply(body=gzip.compress(says(streams.text("Hm.")).body), headers=PACKED, chunk_bytes=3),
    ],
    says(streams.text("I go"), check('{"source": "x', "t5"), stop="max_tokens"),
    [overloaded(THINKS), replace(THINKS, chunk_bytes=11)],
    says(streams.text("Wait."), stop="pause_turn"),
    [refuses(500), says(check("{}", "t6"), stop="tool_use")],
    FINISH,
)


def test_a_conversation_cut_off_after_any_entry_goes_on_the_same(
    server: Scripted, address: str
) -> None:
    whole = talk(server, address, TURNS)
    assert whole.end is not None
    assert whole.end.reason == "finished"
    entries = whole.journal.entries
    assert len(entries) > 30
    for kept in range(1, len(entries) + 1):
        before = FakeJournal(entries[:kept])
        record = before.record(START.id)
        recorded = [done.tool_use_id for done in record.results if done.text[:3] != "Not"]
        answered = {
            call.sent.turn
            for call in record.calls
            if call.answer is not None and answer_of(call.answer) is not None
        }
        sent = {(call.sent.turn, call.sent.attempt) for call in record.calls}
        toolbox = FakeToolbox()
        again = talk(server, address, TURNS, journal=before, toolbox=toolbox)
        assert again.end == whole.end, kept
        if record.end is not None:
            assert not again.requests
            continue
        assert all(whole.bodies[turn] == body for turn, body in again.bodies.items()), kept
        assert not answered & set(again.bodies), kept
        assert not sent & set(again.requests), kept
        tried = {turn for turn, _ in sent}
        assert all((turn, 0) in again.requests for turn in set(again.bodies) - tried), kept
        assert toolbox.replayed == recorded, kept
        assert toolbox.replayed + toolbox.ran == whole.toolbox.ran, kept
        assert [(d.turn, d.ordinal, d.text) for d in again.done] == [
            (d.turn, d.ordinal, d.text) for d in whole.done
        ]


def recorded(server: Scripted, address: str, *turns: Reply) -> FakeJournal:
    journal = talk(server, address, turns).journal
    return FakeJournal([entry for entry in journal.entries if not isinstance(entry, SessionEnd)])


def changed(journal: FakeJournal, place: int, **changes: object) -> SessionRecord:
    entries = list(journal.entries)
    entries[place] = replace(entries[place], **changes)  # type: ignore[type-var]
    return FakeJournal(entries).record(START.id)


BUSY = says(check("{}", "t1"), stop="tool_use")
OTHER = says(check("{}", "t2"), stop="tool_use")


def test_a_record_of_other_bytes_is_not_gone_on_with(server: Scripted, address: str) -> None:
    journal = recorded(server, address, BUSY, FINISH)
    kinds = [type(entry) for entry in journal.entries[1:]]
    assert kinds == [CallSent, CallAnswered, ToolDone] * 2
    rebuild(START, journal.record(START.id))
    sent, answered, done = journal.entries[4], journal.entries[2], journal.entries[3]
    assert isinstance(sent, CallSent)
    assert isinstance(answered, CallAnswered)
    assert isinstance(done, ToolDone)
    for place, changes in (
        (4, {"request": sent.request.replace(b"check 0", b"check 9")}),
        (4, {"request": sent.request + b" "}),
        (2, {"body": answered.body.replace(b"check", b"chuck")}),
        (3, {"text": done.text + "."}),
        (3, {"tool_use_id": "t7"}),
    ):
        with pytest.raises(EvidenceError):
            rebuild(START, changed(journal, place, **changes))
    with pytest.raises(EvidenceError, match="differ from byte"):
        rebuild(
            replace(START, opening=START.opening.replace(b"Task", b"Tusk")),
            journal.record(START.id),
        )


def test_what_is_on_record_of_later_turns_needs_those_before(
    server: Scripted, address: str
) -> None:
    journal = recorded(server, address, BUSY, BUSY, FINISH)
    record = journal.record(START.id)
    unanswered = (replace(record.calls[0], answer=None), *record.calls[1:])
    with pytest.raises(EvidenceError, match="turn 0 is on record"):
        rebuild(START, replace(record, calls=unanswered))
    with pytest.raises(EvidenceError, match="turn 1 is on record"):
        rebuild(START, replace(record, calls=unanswered, results=()))
    with pytest.raises(EvidenceError, match="turn 1 is on record"):
        rebuild(START, replace(record, results=record.results[1:]))


def twice(record: SessionRecord, first: Reply) -> SessionRecord:
    """The first turn has two answers: another one (its client had given up) before its own."""
    late = record.calls[0]
    assert late.answer is not None
    early = replace(late, id="early", answer=replace(late.answer, body=first.body))
    late = replace(late, sent=replace(late.sent, attempt=1))
    return replace(record, calls=(early, late, *record.calls[1:]))


def test_of_two_answers_the_one_that_was_gone_on_from_counts(
    server: Scripted, address: str
) -> None:
    record = twice(recorded(server, address, BUSY, FINISH).record(START.id), OTHER)
    assert rebuild(START, record).state.end is not None  # the next request tells
    no_request = replace(record, calls=record.calls[:2], results=record.results[:1])
    past = rebuild(START, no_request)  # the results tell
    assert (past.state.turn, past.first_attempt) == (1, 0)
    past = rebuild(START, replace(no_request, results=()))  # nothing tells: the first
    assert past.answer is not None
    assert [step.block.tool_use_id for step in steps(past.answer)] == ["t2"]


def test_of_two_answers_without_tools_the_next_request_tells(
    server: Scripted, address: str
) -> None:
    idle, other = says(streams.text("Done.")), says(streams.text("Over."))
    record = twice(recorded(server, address, idle, FINISH).record(START.id), other)
    assert rebuild(START, record).state.end is not None
    past = rebuild(START, replace(record, calls=record.calls[:2], results=()))
    assert b"Over." in past.state.fragments[1]  # nothing tells: the first


def test_a_finished_conversation_is_over_even_if_more_was_asked_for(
    server: Scripted, address: str
) -> None:
    both = says(streams.tool("finish", "{}", "t1"), check("{}", "t2"), stop="tool_use")
    past = rebuild(START, recorded(server, address, both).record(START.id))
    assert past.answer is None
    assert past.state.end == ("finished", "finish 0: []")


def test_calls_of_other_clients_under_its_id_are_not_its_own(
    server: Scripted, address: str
) -> None:
    record = recorded(server, address, BUSY, FINISH).record(START.id)
    foreign = replace(record.calls[0], sent=replace(record.calls[0].sent, turn=None, request=b""))
    assert rebuild(START, replace(record, calls=(foreign, *record.calls))) == rebuild(START, record)


def test_through_the_real_proxy_too(server: Scripted, address: str) -> None:
    from kernelsmith.capture import app as capture

    direct = talk(server, address, TURNS)
    journal = FakeJournal([START])
    upstream = address.partition("/k/")[0]
    own = capture.OneRun(run_id=RUN, token="t0ken")
    with capture.running(journal, upstream, only=own, say=lambda line: None) as proxy:
        whole = talk(server, f"{proxy}/k/{RUN}", TURNS, journal=journal, proxy_token=own.token)
        assert whole.end == direct.end
        calls = journal.record(START.id).calls
        assert {call.sent.turn: call.sent.request for call in calls} == direct.bodies
        entries = list(journal.entries)
        for kept in (2, 7, 13, 20, len(entries) - 1):
            before = FakeJournal(entries[:kept])
            again = talk(server, address, TURNS, journal=before)
            assert again.end == direct.end
            assert all(direct.bodies[turn] == body for turn, body in again.bodies.items())
