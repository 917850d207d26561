"""The loop on fakes with the real store: what it records, in which order, and when it ends."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelsmith import loop
from kernelsmith.errors import EvidenceError, InfrastructureError, SandboxError
from kernelsmith.interrupts import Interrupts, listening
from kernelsmith.lineage import standings
from kernelsmith.lineage.past import Before
from kernelsmith.lineage.store import LineageStore, open_store
from kernelsmith.lineage.verify import verify
from kernelsmith.model import Candidate
from tests.loop import fakes

Run = Callable[..., loop.Reason]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LineageStore]:
    opened = open_store(tmp_path / "runs.db")
    yield opened
    opened.close()


def setup_for(store: LineageStore, judge: fakes.FakeJudge, **changes: Any) -> loop.Setup:
    tasks = changes.pop("tasks", (fakes.make_task(),))
    run_id = changes.pop("run_id", None) or store.append("", "run", fakes.run_payload(tasks))
    with store.database.reading() as connection:
        before = standings.before(connection, run_id)
    values: dict[str, Any] = {
        "run_id": run_id,
        "tasks": tasks,
        "seeds": {task.name: fakes.seed_of(task) for task in tasks},
        "proposer": fakes.FakeProposer(),
        "judges": {task.name: judge for task in tasks},
        "store": store,
        "normal_hash": fakes.normal_hash,
        "budget": loop.Budget(time_limit_s=1000.0, max_candidates=10),
        "before": before,
        "interrupts": Interrupts(),
        "report": lambda happening: None,
        "started_s": 0.0,
        "clock": lambda: judge.clock[0],
    }
    return loop.Setup(**{**values, **changes})


def standing(store: LineageStore, run_id: str) -> standings.RunStanding:
    with store.database.reading() as connection:
        return standings.run_standing(connection, run_id)


def always(status: str) -> Callable[[Candidate], str]:
    return lambda candidate: status


def test_each_candidate_is_on_record_before_its_verdict(store: LineageStore) -> None:
    judge = fakes.FakeJudge()
    kinds: list[str] = []
    setup = setup_for(store, judge, report=lambda happening: kinds.append(happening.kind))
    assert loop.run(setup) == "candidates"
    assert [kind for kind in kinds if kind in ("proposed", "judged")] == ["proposed", "judged"] * 10
    done = standing(store, setup.run_id)
    assert (done.last, done.last_payload["reason"]) == ("finished", "candidates")
    assert done.tasks[0].judged == 10
    assert done.tasks[0].waiting == 0
    with store.database.reading() as connection:
        assert verify(connection).findings == ()


def test_incumbent_is_the_last_accepted_and_confirms_are_counted(store: LineageStore) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"))
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=3))
    loop.run(setup)
    ids = [candidate for candidate, _, _ in judge.judged]
    seed = setup.seeds["toy"].id
    assert [against for _, against, _ in judge.judged] == [seed, *ids[:2]]
    assert [confirms for _, _, confirms in judge.judged] == [0, 1, 2]


def test_the_reported_gain_is_the_final_timing_alone(store: LineageStore) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"))
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=3))
    loop.run(setup)
    task = standing(store, setup.run_id).tasks[0]
    assert task.incumbent == judge.judged[-1][0]
    assert judge.retimed == [task.incumbent]
    assert task.gain is not None
    assert (task.gain.geomean, task.gain.sessions) == (1.2, 20)


def test_where_the_final_timing_fails_the_nearest_passing_ancestor_stands(
    store: LineageStore,
) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"))
    judge.holds = lambda candidate: candidate.id == judge.judged[0][0]
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=3))
    loop.run(setup)
    ids = [candidate for candidate, _, _ in judge.judged]
    task = standing(store, setup.run_id).tasks[0]
    assert judge.retimed == ids[::-1]
    assert judge.timings == [0, 1, 2]  # each has its own chance of an error
    assert task.incumbent == ids[0]
    assert set(task.unsupported) == set(ids[1:])


def test_where_no_final_timing_holds_the_seed_stands_without_a_gain(store: LineageStore) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"), holds=lambda candidate: False)
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=2))
    loop.run(setup)
    task = standing(store, setup.run_id).tasks[0]
    assert (task.incumbent, task.gain) == (setup.seeds["toy"].id, None)


def test_time_goes_to_the_task_that_had_least(store: LineageStore) -> None:
    tasks = (fakes.make_task("slow"), fakes.make_task("quick"))
    clock = [0.0]
    slow = fakes.FakeJudge(status=always("POLICY"), clock=clock, cost_s=4.0)
    quick = fakes.FakeJudge(status=always("POLICY"), clock=clock, cost_s=1.0)
    setup = setup_for(
        store,
        slow,
        tasks=tasks,
        judges={"slow": slow, "quick": quick},
        budget=loop.Budget(time_limit_s=80.0 + 52.0),  # 52 s are kept for a final timing
    )
    assert loop.run(setup) == "time"
    assert (len(slow.judged), len(quick.judged)) == (10, 39)


def test_the_time_limit_keeps_what_the_final_timing_needs(store: LineageStore) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"), cost_s=2.0, session_s=1.5 / 8)
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=20.0))
    assert loop.run(setup) == "time"
    assert len(judge.judged) == 7  # 14 s, and 1.3 times 20 sessions of 0.1875 s
    assert judge.clock[0] == pytest.approx(14.0 + 3.75)


def test_the_same_program_again_is_dropped_before_any_work(store: LineageStore) -> None:
    judge = fakes.FakeJudge(status=always("POLICY"))
    setup = setup_for(store, judge, proposer=fakes.FakeProposer(repeat=3, limit=9))
    assert loop.run(setup) == "exhausted"
    assert len(judge.judged) == 6
    task = standing(store, setup.run_id).tasks[0]
    assert (task.judged, task.duplicates) == (6, 3)


def test_a_proposer_that_only_repeats_itself_ends_the_run(store: LineageStore) -> None:
    judge = fakes.FakeJudge()
    setup = setup_for(store, judge, proposer=fakes.Parrot())
    assert loop.run(setup) == "exhausted"
    assert judge.judged == []
    assert standing(store, setup.run_id).tasks[0].duplicates == loop.MAX_DUPLICATES_IN_A_ROW


def test_the_machine_failing_once_is_tried_again(store: LineageStore) -> None:
    failures = iter([True] + [False] * 99)
    judge = fakes.FakeJudge(status=always("POLICY"), fails=lambda candidate: next(failures))
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=2))
    loop.run(setup)
    ids = [candidate for candidate, _, _ in judge.judged]
    assert ids[0] == ids[1] != ids[2]
    assert standing(store, setup.run_id).tasks[0].set_aside == 0
    # What broke off may have been inside confirm: it counts, and after a resume it still does.
    assert [confirms for _, _, confirms in judge.judged] == [0, 1, 1]
    with store.database.reading() as connection:
        assert standings.before(connection, setup.run_id).confirms == 1


def test_a_candidate_on_which_the_machine_fails_twice_is_set_aside_not_blamed(
    store: LineageStore,
) -> None:
    bad: list[str] = []
    judge = fakes.FakeJudge(status=always("POLICY"))
    judge.fails = lambda candidate: candidate.id == (bad or bad.append(candidate.id) or bad)[0]
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=3))
    loop.run(setup)
    task = standing(store, setup.run_id).tasks[0]
    assert (task.judged, task.set_aside, task.waiting) == (3, 1, 0)
    assert [confirms for _, _, confirms in judge.judged] == [0, 1, 2, 2, 2]
    with store.database.reading() as connection:
        assert standings.before(connection, setup.run_id).confirms == 2
    first = store.history(setup.run_id, "toy")[0]
    assert (first.status, first.message) == ("UNJUDGED", "the template died")


def test_the_machine_failing_on_everything_ends_the_run_on_record(store: LineageStore) -> None:
    """Not even the seed runs: nothing is set aside, and one line says what is broken."""
    judge = fakes.FakeJudge(fails=lambda candidate: True, fault=lambda: "no worker starts")
    waits: list[float] = []
    setup = setup_for(store, judge, sleep=waits.append)
    with pytest.raises(InfrastructureError, match="no longer runs the seed, 3 times in a row"):
        loop.run(setup)
    done = standing(store, setup.run_id)
    assert (done.last, done.tasks[0].judged, done.tasks[0].set_aside) == ("failed", 0, 0)
    assert done.tasks[0].waiting == 1  # judged again after resume
    assert waits == [10.0, 60.0]


def test_an_acceptance_without_a_gain_is_no_evidence(store: LineageStore) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"), gainless=True)
    setup = setup_for(store, judge)
    with pytest.raises(EvidenceError, match="accepted without a gain"):
        loop.run(setup)
    done = standing(store, setup.run_id)
    assert (done.last, done.tasks[0].judged) == ("failed", 0)


def test_a_stop_request_ends_the_run_at_the_next_boundary_with_its_final_timing(
    store: LineageStore,
) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"))

    def report(happening: loop.Happening) -> None:
        if happening.kind == "judged" and len(judge.judged) == 2:
            store.append(setup.run_id, "stop_requested", {})

    setup = setup_for(store, judge, report=report)
    assert loop.run(setup) == "stop"
    assert len(judge.judged) == 2
    assert standing(store, setup.run_id).tasks[0].gain is not None


def interrupted_run(store: LineageStore, after: int, proposer: fakes.FakeProposer) -> str:
    judge = fakes.FakeJudge()

    def cut(candidate: Candidate) -> bool:
        if len(judge.judged) > after:
            raise KeyboardInterrupt
        return False

    judge.fails = cut
    setup = setup_for(store, judge, proposer=proposer)
    with pytest.raises(KeyboardInterrupt):
        loop.run(setup)
    assert standing(store, setup.run_id).last == "interrupted"
    assert standing(store, setup.run_id).tasks[0].waiting == 1
    return setup.run_id


@pytest.mark.parametrize("after", [0, 3, 7])
def test_a_resumed_run_proposes_and_decides_what_an_unbroken_one_does(
    tmp_path: Path, after: int
) -> None:
    histories = []
    for name, broken in (("whole", False), ("broken", True)):
        store = open_store(tmp_path / f"{name}.db")
        proposer = fakes.FakeProposer(repeat=4)
        run_id = interrupted_run(store, after, proposer) if broken else None
        setup = setup_for(store, fakes.FakeJudge(), proposer=proposer, run_id=run_id)
        loop.run(setup)
        past = store.history(setup.run_id, "toy")
        histories.append([(p.candidate, p.status, p.gain_vs_seed) for p in past])
        assert standing(store, setup.run_id).tasks[0].judged == 10
        store.close()
    assert histories[0] == histories[1]


def test_a_judgement_cut_short_counts_as_one_that_reached_confirm(store: LineageStore) -> None:
    run_id = interrupted_run(store, 0, fakes.FakeProposer())
    judge = fakes.FakeJudge()
    loop.run(setup_for(store, judge, run_id=run_id))
    assert judge.judged[0][2] == 1


def test_each_time_that_a_judgement_is_cut_short_counts(store: LineageStore) -> None:
    """A losing candidate that is cut off again and again would else be tried at one alpha."""
    run_id, seen = "", []
    for _ in range(3):
        judge = fakes.FakeJudge()
        setup = setup_for(store, judge, run_id=run_id, proposer=fakes.FakeProposer())
        if run_id:
            store.append(run_id, "resumed", {"process": {}})

        def cut(candidate: Candidate) -> bool:
            raise KeyboardInterrupt

        judge.fails = cut
        with pytest.raises(KeyboardInterrupt):
            loop.run(setup)
        seen.append(judge.judged[0][2])
        run_id = setup.run_id
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SandboxError("the template died")])
def test_a_timing_against_the_seed_that_is_cut_short_counts(
    store: LineageStore, error: BaseException
) -> None:
    judge = fakes.FakeJudge(status=always("ACCEPTED"), cut_retiming=[error])
    setup = setup_for(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=1))
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            loop.run(setup)
        setup = setup_for(store, judge, run_id=setup.run_id, budget=setup.budget)
    loop.run(setup)
    assert judge.timings == [0, 1]


def test_a_signal_waits_for_the_record_and_ends_judging_at_once() -> None:
    interrupts = Interrupts()
    interrupts.on_signal(15, None)  # between records: only noted
    with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        raise AssertionError("never entered")
    fresh = Interrupts()
    with pytest.raises(KeyboardInterrupt), fresh.interruptible():
        fresh.on_signal(2, None)
    assert not fresh.open


def test_a_signal_that_is_ignored_stays_ignored_as_nohup_wants() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nothing_before_leaves_nothing_to_start_from() -> None:
    assert Before() == Before(elapsed_s=0.0, confirms=0, tasks={})


def test_what_a_run_begins_with_was_begun_by_no_one_and_is_judged_as_the_first(
    store: LineageStore,
) -> None:
    judge = fakes.FakeJudge(status=always("NOT_FASTER"))
    first = fakes.make_candidate("# brought along\n")
    setup = setup_for(
        store,
        judge,
        first={"toy": first},
        budget=loop.Budget(time_limit_s=1e3, max_candidates=1),
    )
    loop.run(setup)
    assert [(name, confirms) for name, _, confirms in judge.judged] == [(first.id, 0)]
