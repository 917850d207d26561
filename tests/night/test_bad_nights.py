"""The loop when the machine is short of room, broken for a while, or slowed from outside."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelsmith import loop
from kernelsmith.interrupts import Interrupts
from kernelsmith.lineage import queries, standings
from kernelsmith.lineage.models import Event
from kernelsmith.lineage.store import LineageStore, open_store
from kernelsmith.model import Candidate, Verdict
from kernelsmith.pauses import Pauses
from kernelsmith.watch.patience import WAITS_S
from tests.loop import fakes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LineageStore]:
    opened = open_store(tmp_path / "runs.db")
    yield opened
    opened.close()


class Night:
    """A run on fakes whose clock is moved by sleeping too."""

    def __init__(self, store: LineageStore, judge: fakes.FakeJudge, **changes: Any) -> None:
        self.store, self.judge, self.slept, self.notes = store, judge, [], []
        task = fakes.make_task()
        run_id = store.append("", "run", fakes.run_payload((task,)))
        values: dict[str, Any] = {
            "run_id": run_id,
            "tasks": (task,),
            "seeds": {task.name: fakes.seed_of(task)},
            "proposer": fakes.FakeProposer(),
            "judges": {task.name: judge},
            "store": store,
            "normal_hash": fakes.normal_hash,
            "budget": loop.Budget(time_limit_s=1000.0, max_candidates=5),
            "before": standings.Before(),
            "interrupts": Interrupts(),
            "report": self.report,
            "started_s": 0.0,
            "clock": lambda: judge.clock[0],
            "sleep": self.sleep,
        }
        self.setup = loop.Setup(**{**values, **changes})

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.judge.clock[0] += seconds

    def report(self, happening: loop.Happening) -> None:
        if happening.kind == "notice":
            self.notes.append(happening.note)

    def standing(self) -> standings.RunStanding:
        with self.store.database.reading() as connection:
            return standings.run_standing(connection, self.setup.run_id)

    def events(self, *kinds: str) -> list[str]:
        query = queries.select(Event.kind).where(Event.run_id == self.setup.run_id)
        with self.store.database.reading() as connection:
            found = connection.execute(query.order_by(Event.step)).scalars()
            return [kind for kind in found if kind in kinds]


def policy(candidate: Candidate) -> str:
    return "POLICY"


def first_ones(count: int) -> Callable[[Candidate], bool]:
    """Whether a candidate is among the first that were asked about."""
    seen: list[str] = []

    def fails(candidate: Candidate) -> bool:
        if candidate.id not in seen:
            seen.append(candidate.id)
        return seen.index(candidate.id) < count

    return fails


def test_many_in_a_row_that_fail_while_the_seed_runs_do_not_end_a_night(
    store: LineageStore,
) -> None:
    night = Night(store, fakes.FakeJudge(status=policy, fails=first_ones(12)))
    assert loop.run(night.setup) == "candidates"
    task = night.standing().tasks[0]
    assert (task.judged, task.set_aside, task.waiting) == (5, 12, 0)
    assert night.slept == []


def test_a_machine_that_recovers_costs_a_wait_and_no_candidate(store: LineageStore) -> None:
    faults = iter(["out of memory", "out of memory"])
    judge = fakes.FakeJudge(status=policy, fault=lambda: next(faults, ""))
    judge.fails = lambda candidate: len(judge.judged) <= 2
    night = Night(store, judge)
    assert loop.run(night.setup) == "candidates"
    assert (night.standing().tasks[0].judged, night.standing().tasks[0].set_aside) == (5, 0)
    assert night.slept == list(WAITS_S)
    assert night.events("machine_fault", "retry") == ["machine_fault", "retry"] * 2
    assert "does not run the seed: out of memory; trying again in 10 s" in night.notes[0]
    # Three tries of a second each: what it waited is not the candidate's.
    with store.database.reading() as connection:
        longest = connection.exec_driver_sql("SELECT max(seconds) FROM verdicts").scalar()
    assert longest == 3.0


def test_a_wait_that_a_pause_makes_longer_is_not_taken_off_the_judgement(
    store: LineageStore,
) -> None:
    """Its seconds would be less than none: the run's clock stood still meanwhile."""
    faults = iter(["a driver restarts"])
    judge = fakes.FakeJudge(status=policy, fault=lambda: next(faults, ""))
    judge.fails = lambda candidate: len(judge.judged) <= 1
    night = Night(store, judge, sleep=lambda seconds: None)
    assert loop.run(night.setup) == "candidates"
    with store.database.reading() as connection:
        longest = connection.exec_driver_sql("SELECT max(seconds) FROM verdicts").scalar()
    assert longest == 2.0


def test_faults_with_good_work_in_between_are_not_counted_together(store: LineageStore) -> None:
    """Five nights' worth of single faults: patience is for those that follow one another."""
    judge = fakes.FakeJudge(status=policy)
    judge.fails = lambda candidate: [each[0] for each in judge.judged].count(candidate.id) == 1
    judge.fault = lambda: "a fault"
    night = Night(store, judge)
    assert loop.run(night.setup) == "candidates"
    assert night.slept == [WAITS_S[0]] * 5


def test_a_final_timing_waits_for_a_machine_that_recovers(store: LineageStore) -> None:
    faults = iter(["a driver restarts"])
    judge = fakes.FakeJudge(status=lambda candidate: "ACCEPTED", fault=lambda: next(faults, ""))
    judge.cut_retiming = [fakes.SandboxError("died"), fakes.SandboxError("died")]
    night = Night(store, judge, budget=loop.Budget(time_limit_s=1e3, max_candidates=1))
    loop.run(night.setup)
    assert night.standing().tasks[0].gain is not None
    assert (judge.timings, night.slept) == ([0, 1, 2], [WAITS_S[0]])


def test_short_of_room_it_waits_with_one_line_and_goes_on(store: LineageStore) -> None:
    shortages = iter(["", *["12 MiB left for the database"] * 3])
    night = Night(store, fakes.FakeJudge(status=policy), shortage=lambda: next(shortages, ""))
    assert loop.run(night.setup) == "candidates"
    assert night.slept == [5.0] * 3
    assert night.notes == [
        "waiting for room: 12 MiB left for the database",
        "there is room again",
    ]
    assert night.events("room_short", "room_again") == ["room_short", "room_again"]
    assert night.standing().tasks[0].judged == 5


def test_without_room_for_long_it_ends_at_its_time_limit_with_all_on_record(
    store: LineageStore,
) -> None:
    judge = fakes.FakeJudge(status=lambda candidate: "ACCEPTED")
    night = Night(
        store,
        judge,
        shortage=lambda: "too little" if len(judge.judged) == 2 else "",
        budget=loop.Budget(time_limit_s=300.0),
    )
    assert loop.run(night.setup) == "time"
    done = night.standing()
    assert (done.last, done.tasks[0].judged, done.tasks[0].waiting) == ("finished", 2, 0)
    assert done.tasks[0].gain is not None  # its final timing was made
    assert judge.clock[0] <= 300.0
    assert len(night.notes) == 1


@pytest.mark.parametrize("begun", [0, 1])
def test_a_stop_request_ends_the_wait_for_room(store: LineageStore, begun: int) -> None:
    """Before a candidate and in the middle of a judgement that the machine failed."""
    shortages = iter([""] * begun)
    judge = fakes.FakeJudge(fails=lambda candidate: True)
    night = Night(store, judge, shortage=lambda: next(shortages, "too little"))
    sleep = night.setup.sleep

    def asked(seconds: float) -> None:
        sleep(seconds)
        store.append(night.setup.run_id, "stop_requested", {})

    assert loop.run(dataclasses.replace(night.setup, sleep=asked)) == "stop"
    assert night.slept == [5.0]


def test_a_resident_pause_holds_while_it_waits_for_room_in_the_middle_of_a_judgement(
    store: LineageStore,
) -> None:
    pauses, begun, thawed = Pauses(), iter([""]), threading.Event()
    judge = fakes.FakeJudge(status=policy, fails=first_ones(1))
    night = Night(
        store,
        judge,
        pauses=pauses,
        shortage=lambda: "" if thawed.is_set() else next(begun, "too little"),
    )
    sleep = night.setup.sleep

    def thaw() -> None:
        while not pauses.resting:
            time.sleep(0.001)
        thawed.set()
        pauses.open()

    keeper = threading.Thread(target=thaw)

    def asked(seconds: float) -> None:
        sleep(seconds)
        if not keeper.ident:
            pauses.close("resident")
            keeper.start()

    assert loop.run(dataclasses.replace(night.setup, sleep=asked)) == "candidates"
    keeper.join()
    assert night.slept == [5.0, 5.0]  # it was paused at the second


class SlowedJudge(fakes.FakeJudge):
    """Its sessions overlap throttling."""

    def judge(self, *asked: Any) -> Verdict:
        verdict = super().judge(*asked)
        slowed = {"sessions": 1, "of": 9, "why": ["the host took 12 % of the processors' time"]}
        last = dataclasses.replace(verdict.checks[-1], evidence={"slowed": slowed})
        return dataclasses.replace(verdict, checks=(*verdict.checks[:-1], last))


def test_slowed_sessions_are_told_once_and_change_no_verdict(store: LineageStore) -> None:
    night = Night(store, SlowedJudge(status=lambda candidate: "NOT_FASTER"))
    loop.run(night.setup)
    assert night.standing().tasks[0].statuses == {"NOT_FASTER": 5}
    assert night.events("slowed") == ["slowed"]
    assert len(night.notes) == 1
    assert "the host took 12 %" in night.notes[0]
