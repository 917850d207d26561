"""One conversation: ask, run the tools, answer, until it ends. Its record is its state.

A tool's result is durable before the request that carries it. A conversation that is cut off at
any point goes on from its record: see ``rebuild``.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from kernelsmith.errors import InputError
from kernelsmith.model import (
    END_OF_BODY,
    AgentSettings,
    JournalEntry,
    SessionEnd,
    SessionRecord,
    SessionStart,
    ToolDone,
)
from kernelsmith.ports import Journal
from kernelsmith.proposers.agent.client import Caller
from kernelsmith.proposers.agent.flow import State, ToolStep, after, after_refusal, steps
from kernelsmith.proposers.agent.rebuild import Past, rebuild
from kernelsmith.proposers.agent.seams import Budget, Toolbox
from kernelsmith.wire import Answer, fragments

ShouldEnd = Callable[[], Awaitable[str]]


async def converse(
    start: SessionStart,
    record: SessionRecord | None,
    toolbox: Toolbox,
    caller: Caller,
    journal: Journal,
    budget: Budget,
    settings: AgentSettings,
    should_end: ShouldEnd | None = None,
) -> SessionEnd | None:
    """Holds the conversation that ``start`` began (it is on record) to its end; ``record``: what
    is on record of it, if it goes on. None: the budget is spent, and it goes on after a resume.

    ``should_end`` is asked before each turn: why to end now, or "". Reasons of an
    end: what a tool's reply or ``should_end`` says, "turns", "context", "refusal", "max_tokens",
    "end_turn", "rejected" (the server refuses the request).

    Raises:
        EvidenceError: the record is not of one conversation.
        KernelsmithError: whatever ends the whole agent (key, model, server, disk).
    """
    if record is not None and record.end is not None:
        return record.end
    past = rebuild(start, record)
    for replay in past.replays:
        toolbox.replay(replay.name, replay.tool_input, replay.done)
    state, attempt = past.state, past.first_attempt
    if past.answer is not None:
        done = await _run_tools(start, past, past.answer, toolbox, journal)
        state = after(state, past.answer, done)
    max_tokens = _max_tokens(start)
    while state.end is None:
        why = "turns" if state.turn >= settings.turns_max else ""
        if not why and should_end is not None:
            why = await should_end()
        if why:
            return await _end(journal, SessionEnd(session_id=start.id, reason=why))
        body = fragments.body(start.prefix, state.fragments)
        answer = await caller.call(start.id, state.turn, attempt, body, budget, max_tokens)
        if answer is None:
            return None
        attempt = 0
        if answer.error is not None:
            state = after_refusal(state, answer.error)
            _require_once_accepted(start, state)
            continue
        done = await _run_tools(start, Past(state=state), answer, toolbox, journal)
        state = after(state, answer, done)
    reason, message = state.end
    return await _end(journal, SessionEnd(session_id=start.id, reason=reason, message=message))


async def _run_tools(
    start: SessionStart, past: Past, answer: Answer, toolbox: Toolbox, journal: Journal
) -> tuple[ToolDone, ...]:
    """Runs those tools of an answer that have no result on record, one after the other in the
    model's order, up to one that finishes the session."""
    done = list(past.done)
    for step in steps(answer)[len(done) :]:
        result = await _run_tool(start.id, past.state.turn, step, toolbox)
        await _durable(journal, result)
        done.append(result)
        if result.facts.get("finished"):
            break
    return tuple(done)


async def _run_tool(session_id: str, turn: int, step: ToolStep, toolbox: Toolbox) -> ToolDone:
    block = step.block
    began_s = time.monotonic()
    text, is_error, facts = step.refusal, True, {}
    if not step.refusal and block.tool_input is not None:
        reply = await toolbox.run(block.tool_use_id, block.tool_name, block.tool_input)
        text, is_error, facts = reply.text, reply.is_error, dict(reply.facts)
        if reply.finished:
            facts["finished"] = reply.finished
    return ToolDone(
        session_id=session_id,
        turn=turn,
        ordinal=step.ordinal,
        tool_use_id=block.tool_use_id,
        name=block.tool_name,
        text=text,
        is_error=is_error,
        seconds=time.monotonic() - began_s,
        facts=facts,
    )


def _require_once_accepted(start: SessionStart, state: State) -> None:
    """Raises InputError if the server refused the very first request of a session for another
    reason than its length, or any of them as nothing is left to pay with: it would refuse every
    other session's too."""
    reason, message = state.end or ("", "")
    unpaid = "credit balance" in message.lower()
    if reason == "rejected" and (state.turn == 0 or unpaid):
        raise InputError(
            f"the server refuses the request of session {start.id}: {message}",
            hint="pay, and resume the run"
            if unpaid
            else "check the agent's model, thinking, effort and max_tokens",
        )


def _max_tokens(start: SessionStart) -> int:
    """What the session's requests ask for; on a resume the settings may say otherwise."""
    return int(json.loads(start.prefix + END_OF_BODY)["max_tokens"])


async def _end(journal: Journal, end: SessionEnd) -> SessionEnd:
    await _durable(journal, end)
    return end


async def _durable(journal: Journal, entry: JournalEntry) -> None:
    # A conversation that is cancelled here must not take back an entry on its way to the disk.
    await asyncio.shield(asyncio.wrap_future(journal.append(entry)))
