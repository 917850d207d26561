"""A conversation from its record: the same bytes, no answered turn asked again, no tool run again.

The opening, every answer's recorded bytes and every recorded tool result give the fragments once
more; each request on record must be what they give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelsmith.errors import EvidenceError
from kernelsmith.model import END_OF_BODY, CallRecord, SessionRecord, SessionStart, ToolDone
from kernelsmith.proposers.agent.flow import State, after, steps
from kernelsmith.wire import Answer, answer_of, fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A recorded tool result and the call it answers."""

    name: str
    tool_input: Mapping[str, Any]
    done: ToolDone


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Where a conversation stands. ``first_attempt``: number of the next try of this turn;
    ``answer``: of this turn, if its tools still have to run (all but the ``done`` ones);
    ``replays``: every recorded result of a tool that ran, in order."""

    state: State
    first_attempt: int = 0
    answer: Answer | None = None
    done: tuple[ToolDone, ...] = ()
    replays: tuple[Replay, ...] = ()


def rebuild(start: SessionStart, record: SessionRecord | None) -> Past:
    """The conversation that this record tells of; None: of one that has only begun.

    Raises:
        EvidenceError: a recorded request is not what the record gives; results without a call.
    """
    past = Past(state=State(fragments=(start.opening,)))
    if record is None:
        return past
    calls, results = _by_turn(record)
    while past.state.end is None and past.answer is None:
        turn = past.state.turn
        here = calls.get(turn, ())
        _require_same_bytes(start, turn, past.state, here)
        answer = _chosen(start, past.state, calls, results)
        if answer is None:
            attempts = [call.sent.attempt or 0 for call in here]
            past = replace(past, first_attempt=max(attempts, default=-1) + 1)
            break
        past = _through(past, answer, results.get(turn, ()))
    _require_nothing_later(start, past, calls, results)
    return past


def _through(past: Past, answer: Answer, done: tuple[ToolDone, ...]) -> Past:
    """Past one answered turn, or up to the first of its tools that has no result."""
    calls = steps(answer)
    for call, result in zip(calls, done, strict=False):
        if (call.ordinal, call.block.tool_use_id) != (result.ordinal, result.tool_use_id):
            raise EvidenceError(
                f"session {result.session_id}, turn {result.turn}: result {result.ordinal} is of "
                f"{result.tool_use_id}, the call is {call.block.tool_use_id}"
            )
    replays = tuple(
        Replay(name=result.name, tool_input=call.block.tool_input or {}, done=result)
        for call, result in zip(calls, done, strict=False)
        # Its own text tells whether it ran: an earlier version may have refused less.
        if not call.refusal or result.text != call.refusal
    )
    finished = any(result.facts.get("finished") for result in done)
    if len(done) < len(calls) and not finished:
        return replace(past, answer=answer, done=done, replays=past.replays + replays)
    return replace(past, state=after(past.state, answer, done), replays=past.replays + replays)


def _chosen(
    start: SessionStart,
    state: State,
    calls: Mapping[int, Sequence[CallRecord]],
    results: Mapping[int, Sequence[ToolDone]],
) -> Answer | None:
    """The answer that the conversation went on from. A turn may have several: one that the client
    gave up waiting for and the proxy still received, and the one of a later try."""
    answers = [
        answer
        for call in calls.get(state.turn, ())
        if call.answer is not None and (answer := answer_of(call.answer)) is not None
    ]
    if len(answers) < 2:
        return answers[0] if answers else None
    following = calls.get(state.turn + 1, ())
    if following:
        for answer in answers:
            said = fragments.body(start.prefix, (*state.fragments, fragments.assistant(answer)))
            if following[0].sent.request.startswith(said[: -len(END_OF_BODY)]):
                return answer
    ids = {done.tool_use_id for done in results.get(state.turn, ())}
    for answer in answers:
        if ids <= {block.tool_use_id for block in answer.blocks}:
            return answer
    return answers[0]


def _by_turn(
    record: SessionRecord,
) -> tuple[dict[int, tuple[CallRecord, ...]], dict[int, tuple[ToolDone, ...]]]:
    """Calls and results by turn; calls without a turn are not this conversation's."""
    calls: dict[int, tuple[CallRecord, ...]] = {}
    for call in record.calls:
        if call.sent.turn is not None:
            calls[call.sent.turn] = (*calls.get(call.sent.turn, ()), call)
    results: dict[int, tuple[ToolDone, ...]] = {}
    for done in record.results:
        results[done.turn] = (*results.get(done.turn, ()), done)
    in_order = {
        turn: tuple(sorted(dones, key=lambda done: done.ordinal)) for turn, dones in results.items()
    }
    return calls, in_order


def _require_same_bytes(
    start: SessionStart, turn: int, state: State, calls: Sequence[CallRecord]
) -> None:
    rebuilt = fragments.body(start.prefix, state.fragments)
    for call in calls:
        sent = call.sent.request
        if sent == rebuilt:
            continue
        pairs = zip(sent, rebuilt, strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(sent), len(rebuilt)))
        raise EvidenceError(
            f"session {start.id}, turn {turn}: the request on record ({len(sent)} bytes) is not "
            f"what the record gives ({len(rebuilt)} bytes); they differ from byte {same} on",
            hint="another version of kernelsmith wrote it? start a new run",
        )


def _require_nothing_later(
    start: SessionStart,
    past: Past,
    calls: Mapping[int, Sequence[CallRecord]],
    results: Mapping[int, Sequence[ToolDone]],
) -> None:
    """Nothing may be on record of turns that the conversation has not reached."""
    turn = past.state.turn
    ended = past.state.end is not None
    late = [each for each in calls if each > turn or (ended and each == turn)]
    late += [each for each in results if each > turn or (each == turn and past.answer is None)]
    if late:
        raise EvidenceError(
            f"session {start.id}: turn {min(late)} is on record, but the conversation stands at "
            f"turn {turn}{' and is over' if ended else ''}"
        )
