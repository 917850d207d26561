"""The agent as the loop sees it: it fills the gate, ends, and goes on after a pause."""

import threading
import time
from decimal import Decimal

import pytest

from kernelsmith.errors import InputError, MissingError
from kernelsmith.model import Usage
from kernelsmith.proposers.agent.agent import SWEEP
from kernelsmith.proposers.agent.crew import MAX_BARREN_IN_A_ROW
from tests.agent.night import (
    Gate,
    Night,
    Script,
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
