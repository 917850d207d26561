"""The desk: verdicts find who waits for them, repeats cost nothing, looks keep their turn."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.model import Look, seed_candidate
from kernelsmith.ports import Judged
from kernelsmith.proposers.agent.budget import Budget
from kernelsmith.proposers.agent.desk import Desk, View
from kernelsmith.proposers.agent.guards import Purse
from tests.agent.night import Night, Script, candidate, judged, machine_failure, settings
from tests.loop.fakes import make_task, normal_hash

TOY, OTHER = make_task(), make_task("other")
SEEDS = {task.name: seed_candidate(task) for task in (TOY, OTHER)}


def new_desk(**told: Any) -> Desk:
    desk = Desk([TOY, OTHER], SEEDS, normal_hash, **told)
    desk.publish({"toy": [], "other": []})
    return desk


async def begun(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    return task


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def head(desk: Desk) -> Any:
    return desk.next(time.monotonic(), lambda: True)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_a_submission_is_taken_once_and_gets_its_verdict() -> None:
    async def night() -> Judged:
        desk = new_desk()
        wanted = candidate("a", "s1/t1")
        waiting = await begun(desk.submit(wanted))
        assert head(desk).task == "toy"
        assert desk.take("other") is None
        assert desk.take("toy") == wanted
        assert desk.take("toy") is None
        desk.publish({"toy": [judged(wanted, "ACCEPTED", 1.2)], "other": []})
        answer: Judged = await waiting
        assert desk.view("toy").incumbent == wanted
        return answer

    assert run(night()).status == "ACCEPTED"


@pytest.mark.parametrize("source", [TOY.seed_source + "  ", "judged  ", "queued \n"])
def test_the_same_program_again_is_refused_at_once(source: str) -> None:
    async def night() -> None:
        told: list[tuple[str, str]] = []
        desk = new_desk(told=lambda session, verdict: told.append((session, verdict.status)))
        past = judged(candidate("judged"), "NOT_FASTER")
        desk.publish({"toy": [past], "other": []})
        queued = await begun(desk.submit(candidate("queued", "s1/t1")))
        before = desk.queued()
        refused = await asyncio.wait_for(desk.submit(candidate(source, "s2/t1")), 1)
        assert refused.status == "DUPLICATE"
        assert refused.message.startswith("the same program as ")
        assert desk.queued() == before
        assert told == [("s2", "DUPLICATE")]
        queued.cancel()

    run(night())


def test_a_submission_on_record_with_its_origin_is_answered_from_the_record() -> None:
    async def night() -> None:
        desk = new_desk()
        first = candidate("a", "s1/t1")
        desk.publish({"toy": [judged(first, "ACCEPTED", 1.3)], "other": []})
        again = await asyncio.wait_for(desk.submit(first), 1)
        assert (again.status, again.gain_vs_seed) == ("ACCEPTED", 1.3)
        other = await asyncio.wait_for(desk.submit(candidate("a", "s1/t2")), 1)
        assert other.status == "DUPLICATE"

    run(night())


def test_a_tool_id_used_twice_does_not_get_the_earlier_verdict() -> None:
    async def night() -> None:
        desk = new_desk()
        desk.publish({"toy": [judged(candidate("a", "s1/t1"), "ACCEPTED", 1.3)], "other": []})
        await begun(desk.submit(candidate("b", "s1/t1")))
        assert desk.take("toy") is not None

    run(night())


def test_what_the_search_proposed_meanwhile_ends_the_wait_for_the_same_program() -> None:
    async def night() -> list[Judged]:
        desk = new_desk()
        same_text = await begun(desk.submit(candidate("a", "s1/t1")))
        same_program = await begun(desk.submit(candidate("b  ", "s2/t1")))
        history = [judged(candidate("a"), "BITS_DIFFER"), judged(candidate("b"), "ACCEPTED", 1.1)]
        desk.publish({"toy": history, "other": []})
        assert desk.take("toy") is None
        return [await same_text, await same_program]

    first, second = run(night())
    assert first.status == "BITS_DIFFER"
    assert second.status == "DUPLICATE"
    assert second.message == f"the same program as {candidate('b').id}"


def test_a_duplicate_found_by_the_loop_comes_back_too() -> None:
    async def night() -> Judged:
        desk = new_desk()
        wanted = candidate("a", "s1/t1")
        waiting = await begun(desk.submit(wanted))
        desk.take("toy")
        desk.publish({"toy": [judged(wanted, "DUPLICATE", message="as b")], "other": []})
        answer: Judged = await waiting
        return answer

    assert run(night()).message == "as b"


def test_the_gate_serves_in_the_order_of_asking() -> None:
    async def night() -> list[Any]:
        desk = new_desk()
        look = await begun(desk.look(candidate("a"), "bits"))
        verdict = await begun(desk.submit(candidate("b", "s1/t1")))
        other = await begun(desk.submit(candidate("c", "s2/t1", "other")))
        kinds = []
        for _ in range(3):
            waiting = head(desk)
            kinds.append((waiting.kind, waiting.task))
            if waiting.kind is None:
                desk.take(waiting.task)
            else:
                found = Look(kind="bits", candidate="x", status=None, checks=(), seconds=0.1)
                desk.answer(waiting, found)
        assert (await look).candidate == "x"
        verdict.cancel()
        other.cancel()
        return kinds

    assert run(night()) == [("bits", "toy"), (None, "toy"), (None, "other")]


def test_a_failed_look_is_raised_where_it_was_asked_for() -> None:
    async def night() -> None:
        desk = new_desk()
        look = await begun(desk.look(candidate("a"), "time"))
        desk.answer(head(desk), machine_failure())
        with pytest.raises(InfrastructureError, match="template died"):
            await look

    run(night())


def test_who_waits_for_a_withdrawn_task_is_cancelled_and_may_submit_again() -> None:
    async def night() -> None:
        desk = new_desk()
        queued = await begun(desk.submit(candidate("a", "s1/t1")))
        taken = await begun(desk.submit(candidate("b", "s2/t1")))
        desk.take("toy")
        looks = await begun(desk.look(candidate("c"), "bits"))
        desk.publish({"other": []})
        await settle()
        assert queued.cancelled()
        assert taken.cancelled()
        assert looks.cancelled()
        late = await begun(desk.submit(candidate("d", "s1/t2")))
        await settle()
        assert late.cancelled()
        assert desk.queued() == 0
        assert list(desk.offered()) == ["other"]
        desk.publish({"toy": [], "other": []})
        again = await begun(desk.submit(candidate("b", "s2/t1")))
        assert desk.take("toy") == candidate("b", "s2/t1")
        again.cancel()

    run(night())


def test_who_gives_up_leaves_nothing_behind() -> None:
    async def night() -> None:
        desk = new_desk()
        waiting = await begun(desk.submit(candidate("a", "s1/t1")))
        waiting.cancel()
        await settle()
        assert head(desk) is None
        assert desk.seen("toy", normal_hash("a")) is None

    run(night())


def test_the_view_holds_the_history_and_the_last_accepted() -> None:
    desk = new_desk()
    assert desk.view("toy").incumbent == SEEDS["toy"]
    history = [judged(candidate("a"), "ACCEPTED", 1.5), judged(candidate("b"), "ACCEPTED", 1.2)]
    desk.publish({"toy": history, "other": []})
    desk.publish({"toy": [*history, judged(candidate("c"), "NOT_FASTER")], "other": []})
    view = desk.view("toy")
    assert [each.candidate.source for each in view.history] == ["a", "b", "c"]
    assert view.incumbent.source == "b"
    assert desk.seen("toy", normal_hash("a \n")) == candidate("a").id
    assert desk.seen("other", normal_hash("a")) is None


def test_no_call_begins_for_a_withdrawn_task() -> None:
    async def night() -> None:
        desk, budget = new_desk(), Budget(settings())
        purse = Purse(budget=budget, desk=desk, task="toy")
        assert await purse.admit(1, 1) is not None
        desk.publish({"other": []})
        assert await purse.admit(1, 1) is None
        assert await Purse(budget=budget, desk=desk, task="other").admit(1, 1) is not None

    run(night())


def test_who_begins_sessions_holds_no_lock_while_asking_the_desk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The desk asks for work under its own lock: two locks taken crosswise end a night for good."""
    night = Night(Script([[("bits", "a")], [("bits", "b")]]), settings=settings(sessions_max=2))
    lock, offered, held = night.agent._crew._lock, night.agent._desk.offered, []

    def watched() -> dict[str, View]:
        held.append(lock.locked())
        return offered()

    monkeypatch.setattr(night.agent._desk, "offered", watched)
    night.run()
    assert held
    assert not any(held)
