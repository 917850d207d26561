"""Conversations over real HTTP: what is said, in which bytes, and how they end."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kernelsmith.errors import InputError, StorageError
from kernelsmith.model import AgentSettings, SessionEnd, SessionStart, ToolDone
from kernelsmith.proposers.agent.client import Caller
from kernelsmith.proposers.agent.flow import CUT_TEXT, CUT_TOOL, GATE_CALLS_MAX, NUDGE, TOO_MANY
from kernelsmith.proposers.agent.talk import converse
from kernelsmith.wire import fragments
from tests.agent.scripted import (
    FakeBudget,
    FakeJournal,
    FakeToolbox,
    Reply,
    Scripted,
    refuses,
    says,
    start_of,
)
from tests.wire import streams

START = start_of()
SETTINGS = AgentSettings(model="m", turns_max=12)


async def no_sleep(seconds: float) -> None:
    """The waits themselves are tested with the client."""


@dataclass
class Talked:
    """What a conversation came to. Bodies of requests, one a turn."""

    end: SessionEnd | None
    journal: FakeJournal
    toolbox: FakeToolbox
    bodies: dict[int, bytes] = field(default_factory=dict)
    requests: list[tuple[int, int]] = field(default_factory=list)

    @property
    def done(self) -> list[ToolDone]:
        return [entry for entry in self.journal.entries if isinstance(entry, ToolDone)]

    def said_last(self) -> bytes:
        """The last message of the last request."""
        return self.bodies[max(self.bodies)][-400:]


def talk(
    server: Scripted,
    address: str,
    turns: Sequence[Reply | Sequence[Reply]],
    *,
    journal: FakeJournal | None = None,
    toolbox: FakeToolbox | None = None,
    budget: FakeBudget | None = None,
    settings: AgentSettings = SETTINGS,
    start: SessionStart = START,
    proxy_token: str = "",
    **more: Any,
) -> Talked:
    """Holds (or goes on with) a conversation and checks what holds for every one: each body
    begins with the bytes of the one before, and every try of a turn has the same."""
    resumed = journal is not None
    journal, toolbox = journal or FakeJournal([start]), toolbox or FakeToolbox()
    budget = budget or FakeBudget()
    server.play(*turns, journal=journal)

    async def run() -> SessionEnd | None:
        caller = Caller(address, "key", proxy_token=proxy_token, sleep=no_sleep)
        record = journal.record(start.id) if resumed else None
        try:
            return await converse(start, record, toolbox, caller, journal, budget, settings, **more)
        finally:
            await caller.close()

    talked = Talked(end=asyncio.run(run()), journal=journal, toolbox=toolbox)
    for got in server.received:
        assert talked.bodies.setdefault(got.turn, got.body) == got.body
        talked.requests.append((got.turn, got.attempt))
    assert not budget.open
    require_prefixes(journal)
    ends = [entry for entry in journal.entries if isinstance(entry, SessionEnd)]
    assert ends == ([talked.end] if talked.end else [])
    return talked


def require_prefixes(journal: FakeJournal) -> None:
    sent = [call.sent.request for call in journal.record(START.id).calls]
    for before, after in itertools.pairwise(sent):
        assert after == before or after.startswith(before[:-2] + b",")


def check(given: str = '{"source":  "x"}', tool_use_id: str = "t1") -> list[dict[str, Any]]:
    return streams.tool("check", given, tool_use_id)


FINISH = says(streams.tool("finish", '{"reason":"done"}', "t9"), stop="tool_use")
LONG = "prompt is too long: 210000 tokens > 200000 maximum"


def test_tools_run_in_the_models_order_and_answer_in_one_message(
    server: Scripted, address: str
) -> None:
    parallel = says(
        streams.thinking("which first?"),
        streams.text("Both."),
        check('{"source": 1E3}', "t1"),
        check('{"wrong":  1}', "t2"),
        check("{}", "t3"),
        stop="tool_use",
    )
    talked = talk(server, address, [parallel, FINISH])
    assert talked.toolbox.ran == ["t1", "t2", "t3", "t9"]
    assert [done.ordinal for done in talked.done] == [0, 1, 2, 0]
    assert talked.end == SessionEnd(
        session_id=START.id, reason="finished", message="finish 3: ['reason']"
    )
    first = fragments.body(START.prefix, [START.opening])
    assert talked.bodies[0] == first
    assert talked.bodies[1] == first[:-2] + (
        b',{"role":"assistant","content":['
        b'{"type":"thinking","thinking":"which first?","signature":"c2lnbmVk"},'
        b'{"type":"text","text":"Both."},'
        b'{"type":"tool_use","id":"t1","name":"check","input":{"source": 1E3}},'
        b'{"type":"tool_use","id":"t2","name":"check","input":{"wrong":  1}},'
        b'{"type":"tool_use","id":"t3","name":"check","input":{}}]},'
        b'{"role":"user","content":['
        b'{"type":"tool_result","tool_use_id":"t1","content":"check 0: [\'source\']"},'
        b'{"type":"tool_result","tool_use_id":"t2","content":"check 1: [\'wrong\']",'
        b'"is_error":true},'
        b'{"type":"tool_result","tool_use_id":"t3","content":"check 2: []"}]}]}'
    )


def test_what_comes_after_finish_is_not_run(server: Scripted, address: str) -> None:
    both = says(streams.tool("finish", "{}", "t1"), check("{}", "t2"), stop="tool_use")
    talked = talk(server, address, [both])
    assert talked.toolbox.ran == ["t1"]
    assert talked.end is not None
    assert talked.end.reason == "finished"


def test_an_answer_has_so_many_calls_run_that_cost_the_gate_and_all_others(
    server: Scripted, address: str
) -> None:
    many = [check(tool_use_id=f"c{number}") for number in range(GATE_CALLS_MAX + 1)]
    last = [
        streams.tool("submit", '{"candidate":"x","note":"n"}', "s"),
        streams.tool("lineage", "{}", "l"),
    ]
    answer = says(*many, *last, stop="tool_use")
    ran = [f"c{number}" for number in range(GATE_CALLS_MAX)] + ["l"]
    talked = talk(server, address, [answer, FINISH])
    assert talked.toolbox.ran == [*ran, "t9"]
    refused = [done for done in talked.done if done.text == TOO_MANY]
    assert [(done.tool_use_id, done.is_error) for done in refused] == [
        (f"c{GATE_CALLS_MAX}", True),
        ("s", True),
    ]
    cut_off = [*talked.journal.entries[:-7]]  # in the midst of the tools
    assert isinstance(cut_off[-1], ToolDone)
    again = talk(server, address, [FINISH], journal=FakeJournal(cut_off))
    assert again.bodies[1] == talked.bodies[1]


def test_a_result_is_on_record_before_the_request_that_carries_it(
    server: Scripted, address: str
) -> None:
    talked = talk(server, address, [says(check(), stop="tool_use"), FINISH])
    kinds = [type(entry).__name__ for entry in talked.journal.entries]
    call = ["CallSent", "CallAnswered", "ToolDone"]
    assert kinds == ["SessionStart", *call, *call, "SessionEnd"]


def test_malformed_arguments_are_answered_and_not_run(server: Scripted, address: str) -> None:
    broken = says(check('{"source": "x', "t1"), check("{}", "t2"), stop="tool_use")
    talked = talk(server, address, [broken, FINISH])
    assert talked.toolbox.ran == ["t2", "t9"]
    assert talked.done[0].is_error
    assert "no JSON" in talked.done[0].text
    assert b'"input":{"unparsable":"{\\"source\\": \\"x"}' in talked.bodies[1]


def test_a_tool_call_cut_off_is_told_so_and_whole_ones_run(server: Scripted, address: str) -> None:
    cut = says(check("{}", "t1"), check('{"source": "x = ', "t2"), stop="max_tokens")
    bare = says([{"type": "tool_use", "id": "t3", "name": "check", "input": {}}], stop="max_tokens")
    talked = talk(server, address, [cut, bare, FINISH])
    assert talked.toolbox.ran == ["t1", "t9"]
    assert [done.text for done in talked.done[1:3]] == [CUT_TOOL, CUT_TOOL]
    assert CUT_TEXT.encode() not in talked.said_last()


def test_a_text_cut_off_is_told_so_three_times_in_a_row_at_most(
    server: Scripted, address: str
) -> None:
    cut = says(streams.text("I will"), stop="max_tokens")
    whole = says(check(), stop="tool_use")
    talked = talk(server, address, [cut, cut, whole, cut, cut, cut, FINISH])
    assert len(talked.bodies) == 6
    assert talked.end is not None
    assert talked.end.reason == "max_tokens"
    assert CUT_TEXT.encode() in talked.bodies[1]
    # A call that was whole before the cut has run, and the model learns of the cut all the same.
    after_call = says(check(), streams.text("and"), stop="max_tokens")
    talked = talk(server, address, [after_call, FINISH])
    assert CUT_TEXT.encode() in talked.said_last()


def test_an_answer_without_a_tool_is_nudged_once_in_a_row(server: Scripted, address: str) -> None:
    idle, busy = says(streams.text("All done.")), says(check(), stop="tool_use")
    talked = talk(server, address, [idle, busy, idle, idle])
    assert len(talked.bodies) == 4
    assert NUDGE.encode() in talked.bodies[1]
    assert talked.end == SessionEnd(session_id=START.id, reason="end_turn", message="All done.")


def test_an_empty_answer_is_nudged_too(server: Scripted, address: str) -> None:
    talked = talk(server, address, [says(stop=None), FINISH])
    assert b'"(no answer)"' in talked.bodies[1]
    assert NUDGE.encode() in talked.bodies[1]


def test_tools_run_whatever_the_stop_reason_is_called(server: Scripted, address: str) -> None:
    odd = says(check(), stop="end_turn")
    assert talk(server, address, [odd, FINISH]).toolbox.ran == ["t1", "t9"]


def test_a_paused_turn_is_sent_on_as_it_is(server: Scripted, address: str) -> None:
    paused = says(streams.text("Wait."), stop="pause_turn")
    talked = talk(server, address, [paused, FINISH])
    said = b',{"role":"assistant","content":[{"type":"text","text":"Wait."}]}'
    assert talked.bodies[1] == talked.bodies[0][:-2] + said + b"]}"


ENDS = {
    "refusal": ("refusal", says(streams.text("I cannot"), check(), stop="refusal")),
    "window": ("context", says(check(), stop="model_context_window_exceeded")),
    "too long": ("context", refuses(400, "invalid_request_error", LONG)),
    "too large": ("context", refuses(413, "request_too_large")),
    "vllm": ("context", refuses(400, "BadRequestError", "maximum context length is 8192 tokens")),
    "llama.cpp": ("context", refuses(400, "x", "exceeds the available context size")),
    "no good": ("rejected", refuses(400, "invalid_request_error", "messages.3: odd")),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_conversation_ends_where_it_cannot_go_on(
    server: Scripted, address: str, name: str
) -> None:
    reason, last = ENDS[name]
    talked = talk(server, address, [says(check(), stop="tool_use"), last])
    assert talked.toolbox.ran == ["t1"]
    assert talked.requests == [(0, 0), (1, 0)]
    assert talked.end is not None
    assert talked.end.reason == reason
    assert talked.end.message


def test_a_refused_first_request_ends_the_agent(server: Scripted, address: str) -> None:
    bad = refuses(400, "invalid_request_error", "thinking: no such type")
    with pytest.raises(InputError, match="no such type"):
        talk(server, address, [bad])
    poor = refuses(400, "invalid_request_error", "Your credit balance is too low")
    for turns in ([poor], [says(check(), stop="tool_use"), poor]):
        with pytest.raises(InputError, match="credit balance") as caught:
            talk(server, address, turns)
        assert caught.value.hint == "pay, and resume the run"


def test_turns_are_counted(server: Scripted, address: str) -> None:
    busy = says(check(), stop="tool_use")
    few = AgentSettings(model="m", turns_max=3)
    talked = talk(server, address, [busy] * 5, settings=few)
    assert talked.requests == [(0, 0), (1, 0), (2, 0)]
    assert talked.end == SessionEnd(session_id=START.id, reason="turns")


def test_others_may_end_it_between_turns(server: Scripted, address: str) -> None:
    asked: list[str] = []

    async def should_end() -> str:
        asked.append("")
        return "stale" if len(asked) == 3 else ""

    busy = says(check(), stop="tool_use")
    talked = talk(server, address, [busy] * 5, should_end=should_end)
    assert len(talked.bodies) == 2
    assert talked.end == SessionEnd(session_id=START.id, reason="stale")


def test_a_spent_budget_pauses_it(server: Scripted, address: str) -> None:
    turns = [says(check(), stop="tool_use"), [refuses(529), FINISH]]
    budget = FakeBudget(calls=2)
    talked = talk(server, address, turns, budget=budget)
    assert talked.end is None
    assert talked.requests == [(0, 0), (1, 0)]
    assert budget.asked == [(len(talked.bodies[turn]), 4000) for turn in (0, 1)]
    again = talk(server, address, turns, journal=talked.journal)
    assert again.requests == [(1, 1)]
    assert again.end is not None


def test_what_a_tool_raises_ends_the_run(server: Scripted, address: str) -> None:
    class Broken(FakeToolbox):
        async def run(self, *args: Any) -> Any:
            raise StorageError("disk full")

    with pytest.raises(StorageError):
        talk(server, address, [says(check(), stop="tool_use")], toolbox=Broken())
