"""The agent as the loop sees it: it fills the gate, ends, pauses, and goes on from its record."""

import asyncio
import json
import re
import threading
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from kernelsmith.catalog import load_task
from kernelsmith.errors import InputError, KernelsmithError, MissingError, StorageError
from kernelsmith.model import CallAnswered, Usage, seed_candidate
from kernelsmith.proposers.agent import Budget, CountingJournal
from kernelsmith.proposers.agent.agent import SWEEP
from kernelsmith.proposers.agent.crew import MAX_BARREN_IN_A_ROW
from kernelsmith.proposers.agent.desk import Desk
from kernelsmith.proposers.agent.fittings import Origin, real
from kernelsmith.proposers.agent.population import Choice
from kernelsmith.proposers.search import normalised_hash
from kernelsmith.wire import fragments, parse_answer
from tests.agent.night import (
    RUN,
    Gate,
    MemoryJournal,
    Night,
    NoCaller,
    Script,
    candidate,
    judged,
    machine_failure,
    settings,
)
from tests.loop.fakes import make_task

WIN = Gate(statuses={"a": "BITS_DIFFER", "b": "ACCEPTED"})


def test_a_session_breaks_bits_mends_them_and_wins() -> None:
    night = Night(Script([[("submit", "a"), ("bits", "b"), ("submit", "b"), ("time", "c")]]))
    night.gate.statuses = WIN.statuses
    assert night.run() == ["toy"]
    assert night.statuses() == [("a", "BITS_DIFFER"), ("b", "ACCEPTED")]
    seed = night.seeds["toy"]
    assert night.journal.answers == [
        "BITS_DIFFER",
        f"look None against {seed.source.strip()}",
        "ACCEPTED",
        "look None against b",
    ]
    assert night.journal.ends == ["end_turn"]
    first = night.histories["toy"][0].candidate
    assert first.origin == f"{night.journal.starts[0].id}/tool0"
    assert first.parents == (seed.id,)


def test_the_gate_runs_on_the_loops_thread_only() -> None:
    night = Night(Script([[("bits", "a"), ("time", "a"), ("code", "a")]]))
    night.run()
    assert night.gate.threads == {threading.current_thread().name}
    assert [kind for _, _, kind in night.gate.looks] == ["bits", "time", "code"]


def test_nothing_begins_before_the_first_choice() -> None:
    night = Night(Script([[("submit", "a")]]))
    night.agent.close()
    assert night.journal.entries == []
    assert night.agent.standing() == "agent: 0 of 0 sessions under way, 0 calls, $0.00, 0 tokens"


def test_so_many_sessions_run_at_once_and_in_all() -> None:
    script = Script([[("submit", f"{number}")] for number in range(9)])
    night = Night(script, settings=settings(concurrency=3, sessions_max=7))
    assert night.run() == ["toy"]
    assert script.at_once_most == 3
    assert len(night.journal.starts) == 7
    assert sorted(source for source, _ in night.statuses()) == list("0123456")
    assert [start.ordinal for start in night.journal.starts] == list(range(7))


def test_two_tasks_share_the_sessions() -> None:
    script = Script([[("submit", f"{number}")] for number in range(6)])
    tasks = (make_task("one"), make_task("two"))
    night = Night(script, tasks=tasks, settings=settings(concurrency=2, sessions_max=6))
    assert night.run() == ["one", "two"]
    assert len(night.histories["one"]) == len(night.histories["two"]) == 3


def test_a_repeat_never_reaches_the_loop() -> None:
    night = Night(Script([[("submit", "a"), ("submit", "a  "), ("submit", "b")]]))
    night.run()
    assert night.statuses() == [("a", "NOT_FASTER"), ("b", "NOT_FASTER")]
    assert night.journal.answers[1].startswith("DUPLICATE the same program as ")


def test_a_session_that_goes_nowhere_is_ended() -> None:
    steps = [("submit", f"{number}") for number in range(9)]
    night = Night(Script([steps]), settings=settings(stale_submissions=3))
    night.run()
    assert len(night.histories["toy"]) == 3
    assert night.journal.ends == ["stale"]


def test_a_spent_budget_ends_the_lane_and_pauses_the_session() -> None:
    night = Night(
        Script([[("submit", f"{number}") for number in range(9)]], usage=Usage(output=1000)),
        settings=settings(budget_usd=Decimal("0.031"), sessions_max=None, stale_submissions=99),
    )
    assert night.run() == ["toy"]
    assert len(night.histories["toy"]) == 3
    assert night.journal.ends == []
    standing = (
        "agent: 0 of 1 sessions under way, 3 calls, $0.04 of $0.031, 3.0k tokens, budget spent"
    )
    assert night.agent.standing() == standing
    spent = [Usage(output=1000)] * 3
    more = Night(
        Script([[("submit", f"{number}") for number in range(9)]]),
        settings=settings(budget_usd=Decimal("0.0452"), sessions_max=None, stale_submissions=99),
        journal=night.journal,
        histories=night.histories,
        spent=spent,
    )
    more.run()
    assert len(more.journal.starts) == 1
    assert [source for source, _ in more.statuses()] == ["0", "1", "2", "3", "4"]


def test_an_error_of_a_session_ends_the_others_and_reaches_the_loop() -> None:
    error = MissingError("the key is wrong", hint="export it")
    script = Script([[("bits", "x")] * 500, [("raise", "key")]], errors={"key": error})
    night = Night(script, settings=settings(concurrency=2, sessions_max=2))
    with pytest.raises(MissingError, match="the key is wrong"):
        night.run()
    assert script.at_once == 0


def test_a_bug_reaches_the_loop_as_it_is() -> None:
    night = Night(Script([[("raise", "bug")]], errors={"bug": ZeroDivisionError("a bug")}))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        night.run()


def test_a_look_that_fails_once_is_told_and_tried_again() -> None:
    gate = Gate(fail=lambda number: machine_failure() if number % 2 else None)
    night = Night(Script([[("bits", "a"), ("bits", "a"), ("bits", "b"), ("bits", "b")]]), gate)
    night.run()
    assert night.journal.answers[::2] == ["the template died"] * 2
    assert night.journal.answers[1].startswith("look None")


def test_a_look_that_fails_twice_in_a_row_ends_the_run() -> None:
    gate = Gate(fail=lambda number: machine_failure())
    night = Night(Script([[("bits", "a")] * 4]), gate)
    with pytest.raises(KernelsmithError, match="template died"):
        night.run()
    assert len(gate.looks) == 2


def test_a_full_disk_in_a_look_ends_the_run_at_once() -> None:
    gate = Gate(fail=lambda number: StorageError("disk full"))
    night = Night(Script([[("bits", "a")] * 4]), gate)
    with pytest.raises(StorageError):
        night.run()
    assert len(gate.looks) == 1


def test_an_interrupted_look_is_not_answered_and_is_asked_again_on_resume() -> None:
    gate = Gate(fail=lambda number: KeyboardInterrupt() if number == 2 else None)
    steps = [("bits", "a"), ("time", "a"), ("submit", "a")]
    night = Night(Script([steps]), gate)
    with pytest.raises(KeyboardInterrupt):
        night.run()
    assert len(night.journal.answers) == 1
    again = Night(Script([steps]), journal=night.journal, histories=night.histories)
    again.run()
    assert [kind for _, _, kind in again.gate.looks] == ["time"]
    assert again.statuses() == [("a", "NOT_FASTER")]
    assert again.journal.ends == ["end_turn"]


def cut_off(steps: list[tuple[str, str]]) -> tuple[MemoryJournal, str]:
    """A journal of a session that was cut off while it waited for the verdict on its first."""
    night = Night(Script([steps]))
    agent = night.agent
    assert agent.choose({"toy": []}, 60.0) == "toy"
    wanted = agent.propose(night.tasks[0], [])
    assert wanted is not None
    agent.close()
    assert night.journal.answers == []
    return night.journal, wanted.origin


def test_a_verdict_that_came_while_no_one_waited_is_given_on_resume() -> None:
    steps = [("submit", "a"), ("submit", "b")]
    journal, origin = cut_off(steps)
    history: list[Any] = [judged(candidate("a", origin), "ACCEPTED", 1.25)]
    night = Night(Script([steps]), journal=journal, histories={"toy": history})
    night.run()
    assert night.statuses() == [("a", "ACCEPTED"), ("b", "NOT_FASTER")]
    assert journal.answers == ["ACCEPTED", "NOT_FASTER"]
    assert len(journal.starts) == 1


def test_a_resumed_session_keeps_its_recorded_start() -> None:
    steps = [("submit", "a")]
    journal, _ = cut_off(steps)
    script = Script([steps])
    night = Night(script, journal=journal, settings=settings(sessions_max=2))
    night.run()
    assert [record.start for record in script.resumed] == journal.starts[:1]
    assert [start.ordinal for start in journal.starts] == [0, 1]


def test_sessions_that_never_have_a_tool_call_answered_stop_the_agent() -> None:
    script = Script([[("end", "refusal")]] * 20)
    night = Night(script, settings=settings(concurrency=2, sessions_max=None))
    with pytest.raises(InputError, match=r"6 sessions in a row .*model.*refusal") as caught:
        night.run()
    assert "kernelsmith show s" in (caught.value.hint or "")
    assert MAX_BARREN_IN_A_ROW <= len(night.journal.ends) <= MAX_BARREN_IN_A_ROW + 1


def test_an_answered_tool_call_between_them_starts_the_count_again() -> None:
    barren = [[("end", "context")]] * (MAX_BARREN_IN_A_ROW - 1)
    script = Script([*barren, [("bits", "a")], *barren])
    night = Night(script, settings=settings(sessions_max=2 * MAX_BARREN_IN_A_ROW - 1))
    assert night.run() == ["toy"]


def test_a_choice_that_is_not_to_wait_serves_a_sweep_of_looks_at_most() -> None:
    sessions = SWEEP + 4
    script = Script([[("bits", "a"), ("submit", f"{number}")] for number in range(sessions)])
    gate = Gate()
    night = Night(script, gate, settings(concurrency=sessions, sessions_max=sessions))

    def until_all_wait(number: int) -> None:
        while number == 1 and night.agent.queued() < sessions:
            time.sleep(0.001)

    gate.fail = until_all_wait
    try:
        while not gate.looks:
            assert night.agent.choose({"toy": []}, 0.0) is None
        assert len(gate.looks) == SWEEP
        assert night.agent.choose({"toy": []}, 60.0) == "toy"
        assert len(gate.looks) == sessions
    finally:
        night.agent.close()
        night.agent.close()


def test_a_lane_ends_while_another_waits_for_its_verdict() -> None:
    script = Script([[("bits", "a")] * 2, [("submit", "b")]], usage=Usage(output=100))
    tasks = (make_task("one"), make_task("two"))
    night = Night(
        script, tasks=tasks, settings=settings(concurrency=2, sessions_max=9, budget_tokens=200)
    )
    agent, open_ = night.agent, {"one": [], "two": []}
    try:
        assert agent.choose(open_, 60.0) == "two"
        assert agent.propose(tasks[1], []) is not None
        assert agent.choose(open_, 60.0) == "one"
        assert agent.propose(tasks[0], []) is None
        assert agent.choose({"two": []}, 0.0) is None
    finally:
        agent.close()


def test_sessions_that_had_answers_before_a_resume_are_not_barren() -> None:
    count = MAX_BARREN_IN_A_ROW
    many = settings(concurrency=count, sessions_max=count)
    night = Night(Script([[("bits", "a")] * 99] * count), settings=many)
    while len({each.session_id for each in night.journal.results}) < count:
        assert night.agent.choose({"toy": []}, 0.0) is None
    night.agent.close()
    again = Night(Script([[]] * count), journal=night.journal, settings=many)
    assert again.run() == ["toy"]
    assert night.journal.ends == ["end_turn"] * count
    last = Script([])
    assert Night(last, journal=night.journal, settings=many).run() == ["toy"]
    assert last.resumed == []


def test_a_withdrawn_task_lets_the_others_have_its_sessions() -> None:
    script = Script([[("submit", "a")], [("submit", "b")]])
    tasks = (make_task("one"), make_task("two"))
    night = Night(script, tasks=tasks, settings=settings(sessions_max=2))
    agent = night.agent
    try:
        assert agent.choose({"one": [], "two": []}, 60.0) == "one"
        assert agent.choose({"two": []}, 60.0) == "two"
        wanted = agent.propose(tasks[1], [])
        assert wanted is not None
        assert wanted.source == "b"
    finally:
        agent.close()
    assert night.journal.ends == []


MESSAGE = (
    b'{"type":"message","id":"m","model":"model","role":"assistant","stop_reason":"tool_use",'
    b'"content":[{"type":"tool_use","id":"tool%d","name":"submit","input":{"source":"%s"}}],'
    b'"usage":{"input_tokens":10,"output_tokens":5}}'
)


class Played(NoCaller):
    """A model that submits a, then b, then only talks; it asks the budget as the real one."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def call(
        self, session_id: str, turn: int, attempt: int, body: bytes, budget: Any, max_tokens: int
    ) -> Any:
        ticket = await budget.admit(len(body), max_tokens)
        if ticket is None:
            return None
        self.bodies.append(body)
        said = MESSAGE % (turn, b"ab"[turn : turn + 1]) if turn < 2 else WORDS
        answer = parse_answer(200, "application/json", said)
        budget.budget.count(answer.usage)
        budget.settle(ticket, answer.usage)
        return answer


WORDS = MESSAGE.replace(b"tool_use", b"end_turn", 1).split(b'"content":')[0] + (
    b'"content":[{"type":"text","text":"done"}],"usage":{"input_tokens":1,"output_tokens":1}}'
)


def test_the_real_conversation_runs_on_desk_budget_and_population() -> None:
    from kernelsmith.proposers.agent.talk import converse

    caller = Played()
    night = Night(
        None,
        WIN,
        converse=converse,
        caller=lambda: caller,
        settings=settings(max_tokens=100),
    )
    assert night.run() == ["toy"]
    assert night.statuses() == [("a", "BITS_DIFFER"), ("b", "ACCEPTED")]
    assert night.journal.answers == ["BITS_DIFFER", "ACCEPTED"]
    assert night.journal.ends == ["end_turn"]
    assert len(caller.bodies) == 4
    for before, after in zip(caller.bodies, caller.bodies[1:], strict=False):
        assert after.startswith(before[:-2])
    assert caller.closed


def test_a_real_session_begins_with_its_prompts_frozen() -> None:
    task = load_task("rms_norm", "cpu")
    seed = seed_candidate(task)
    desk = Desk([task], {task.name: seed}, normalised_hash)
    origin = Origin(
        settings=settings(effort="high", thinking="adaptive"),
        run_id=RUN,
        base_url="http://127.0.0.1:9",
        api_key="secret",
        device_facts={"level": "avx2"},
        normal_hash=normalised_hash,
    )
    made = real(origin, desk)
    start = made.begin(Choice(task=task.name, ordinal=3, parent=seed), desk.view(task.name))
    assert re.fullmatch("s[0-9a-f]{11}", start.id)
    body = json.loads(fragments.body(start.prefix, (start.opening,)))
    assert (body["model"], body["max_tokens"], body["stream"]) == ("model", 100, True)
    assert body["output_config"] == {"effort": "high"}
    assert [tool["name"] for tool in body["tools"]][:3] == ["get_task", "read_source", "check"]
    (message,) = body["messages"]
    first = message["content"][0]["text"].splitlines()[0]
    assert first == f"Task: rms_norm. Session: 3. Parent: {seed.id}."
    assert len(start.prompt) == 64
    assert b"secret" not in start.prefix + start.opening
    assert asyncio.run(made.toolbox(task, start.id, seed).run("t", "lineage", {})).is_error is False


def test_the_last_verdict_reaches_its_session_and_no_call_follows_it() -> None:
    night = Night(Script([[("submit", "a"), ("submit", "b")]]))
    task = night.tasks[0]
    while night.agent.choose(night.histories, 1.0) is None:
        pass
    wanted = night.agent.propose(task, night.histories[task.name])
    assert wanted is not None
    night.histories["toy"].append(night.gate.verdict(wanted))
    night.agent.close(night.histories)
    assert night.journal.answers == ["NOT_FASTER"]
    assert night.journal.ends == []
    assert " 1 calls" in night.agent.standing()


def test_an_answer_counts_when_it_is_on_record_whoever_still_waits_for_it() -> None:
    budget = Budget(settings(budget_tokens=100))
    night = Night(Script([]))
    counting = CountingJournal(journal=night.journal, count=budget.count)
    given_up = CallAnswered(
        call_id="c",
        status=200,
        headers=(),
        body=b"",
        complete=True,
        delivered_bytes=0,
        error="the client left",
        first_byte_s=None,
        seconds=1.0,
        usage=Usage(output=60),
    )
    counting.append(given_up).result()
    assert (budget.spend.tokens, budget.spent) == (60, False)
    counting.append(replace(given_up, usage=Usage(output=40))).result()
    assert budget.spent
