"""Whose fault a dead worker is: the candidate's that kills twice while the seed passes, or nobody's
but the machine's."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kernelsmith.active_clock import ActiveClock
from kernelsmith.errors import InfrastructureError, TaskError, WorkerDeathError
from kernelsmith.gate.judge import Gate
from kernelsmith.gate.subject import Limits
from kernelsmith.model import CompileJob, Job, RunJob, TimeJob, TraceJob, WorkerFailure, failed_job
from kernelsmith.pauses import Pauses
from kernelsmith.sandbox.answers import Ending, result_of
from tests.gate.conftest import Kit, make_task
from tests.gate.fake_workers import FakeDevice
from tests.night.deadly import Deadly, DeadlySandbox

KINDS: dict[str, type] = {
    "trace": TraceJob,
    "compile": CompileJob,
    "parity.train": RunJob,
    "latency": TimeJob,
}


def kit_with(deadly: Deadly, **limits: Any) -> Kit:
    task, sandbox = make_task(), DeadlySandbox(deadly)
    gate = Gate(task, FakeDevice(), sandbox, 7, Limits(hidden_per_call=2, **limits))
    return Kit(task, sandbox, gate)  # type: ignore[arg-type]


def killed_by(kind: type, times: int | None = None) -> Deadly:
    """Jobs of a kind kill their worker if they hold the candidate that says "deadly"."""
    left = itertools.count() if times is None else iter(range(times))

    def deadly(role: str, job: Job, text: str) -> bool:
        return (
            isinstance(job, kind)
            and '"deadly"' in text
            and not getattr(job, "observed", False)
            and next(left, None) is not None
        )

    return deadly


@pytest.mark.parametrize("check", KINDS)
def test_a_candidate_that_kills_its_worker_twice_is_judged_and_the_next_one_is_well(
    check: str,
) -> None:
    kit = kit_with(killed_by(KINDS[check]))
    verdict = kit.judge(gain=1.05, deadly=1)
    last = verdict.checks[-1]
    assert (verdict.status, last.name, last.status) == ("CRASH", check, "fail")
    assert "twice, while the seed passed in between and after: " in last.message
    assert [kind for _, kind in kit.sandbox.deaths] == [KINDS[check].__name__] * 2
    assert kit.judge(gain=1.05).accepted


@pytest.mark.parametrize("check", KINDS)
def test_one_death_is_nobodys_fault_and_stays_in_the_evidence(check: str) -> None:
    kit = kit_with(killed_by(KINDS[check], times=1))
    verdict = kit.judge(gain=1.05, deadly=1)
    assert verdict.accepted
    told = [c.evidence["workers_died"] for c in verdict.checks if "workers_died" in c.evidence]
    role = "frontend" if check == "trace" else "launcher"
    assert told == [[f"the {role} worker died at job 7"]]
    assert len(verdict.samples) == 9  # a session that died is no session


def test_where_the_seed_dies_too_the_machine_is_blamed_and_no_candidate() -> None:
    broken: list[bool] = []

    def deadly(role: str, job: Job, text: str) -> bool:
        if '"deadly"' in text and isinstance(job, CompileJob):
            broken.append(True)
        return role != "seed" and bool(broken)

    kit = kit_with(deadly)
    with pytest.raises(InfrastructureError, match="the candidate is not to blame"):
        kit.judge(gain=1.05, deadly=1)
    assert "died at job" in kit.gate.machine_fault()
    broken.clear()  # it is mended
    assert kit.gate.machine_fault() == ""
    assert kit.judge(gain=1.05).accepted


def test_the_seeds_own_worker_is_never_a_candidates_fault() -> None:
    kit = kit_with(lambda role, job, text: role == "seed")
    with pytest.raises(WorkerDeathError):
        kit.judge(gain=1.05)


def test_a_session_in_which_the_incumbent_alone_dies_too_blames_no_candidate() -> None:
    kit = kit_with(lambda role, job, text: isinstance(job, TimeJob))
    with pytest.raises(InfrastructureError, match="the candidate is not to blame"):
        kit.judge(gain=1.05)


@pytest.mark.parametrize("where", ["a:train-40", "", "b:train-40"])
def test_a_session_that_fails_on_the_other_side_is_settled_against_the_incumbent_alone(
    where: str,
) -> None:
    """Both sides' machine code lies in one process: what one breaks may show in the other."""
    kit = kit_with(lambda role, job, text: False)
    send = kit.gate.bench.workers.send

    def failing(role: Any, job: Job, files: Any = None) -> Any:
        reply = send(role, job, files)
        if isinstance(job, TimeJob) and any(case.a != case.b for case in job.cases):
            failure = WorkerFailure(status="CRASH", message="died of SIGSEGV", where=where)
            reply.result = failed_job(job, failure)
        return reply

    kit.gate.bench.workers.send = failing  # type: ignore[method-assign]
    verdict = kit.judge(gain=1.05)
    assert (verdict.status, verdict.checks[-1].name) == ("CRASH", "latency")
    assert "SIGSEGV" in verdict.checks[-1].message


def test_a_seed_that_was_well_and_runs_out_of_time_blames_the_machine_not_the_task() -> None:
    """On a machine that something else keeps busy."""
    kit = kit_with(lambda role, job, text: False)
    assert kit.judge(gain=1.05).accepted
    send, slow = kit.gate.bench.workers.send, [True]

    def timed(role: Any, job: Job, files: Any = None) -> Any:
        reply = send(role, job, files)
        if slow and role == "seed" and isinstance(job, RunJob):
            failure = WorkerFailure(status="TIMEOUT", message="did not end within 30 s")
            reply.result = failed_job(job, failure)
        return reply

    kit.gate.bench.workers.send = timed  # type: ignore[method-assign]
    with pytest.raises(InfrastructureError, match="the seed of task toy fails: did not end"):
        kit.judge(gain=1.06)
    fresh = kit_with(lambda role, job, text: False)
    send = fresh.gate.bench.workers.send
    fresh.gate.bench.workers.send = timed  # type: ignore[method-assign]
    with pytest.raises(TaskError, match="did not end"):
        fresh.judge(gain=1.05)


@pytest.fixture
def job() -> RunJob:
    return RunJob(runs=(), objects={}, object_of={}, device="cpu")


@pytest.mark.parametrize(
    ("ending", "answer"),
    [
        (Ending(exit=None, signal=9, timed_out=False, seconds=1.0), None),
        (Ending(exit=3, signal=None, timed_out=False, seconds=1.0), None),
        (
            Ending(exit=70, signal=None, timed_out=False, seconds=1.0),
            b'{"error": {"kind": "MemoryError", "message": "no 9 GiB", "hint": null}}',
        ),
    ],
)
def test_endings_that_do_not_tell_whose_fault_they_are_are_deaths(
    job: RunJob, ending: Ending, answer: bytes | None
) -> None:
    with pytest.raises(WorkerDeathError) as caught:
        result_of(job, ending, answer, "case 5")
    assert caught.value.where == "case 5"


class Ticks:
    """A clock that a worker's jobs move."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def slow(kit: Kit, cost: Callable[[str, Job], float]) -> list[tuple[str, float]]:
    """Jobs take this long by the gate's clock. Gives each job's role and time limit."""
    ticks, asked = Ticks(), []
    workers = kit.gate.bench.workers
    workers.pauses = Pauses(clock=ActiveClock(base=ticks))
    send = workers.send

    def timed(role: Any, job: Job, files: Any = None) -> Any:
        asked.append((role, job.timeout_s))
        ticks.now_s += cost(role, job)
        return send(role, job, files)

    workers.send = timed  # type: ignore[method-assign]
    return asked


def test_all_checks_of_one_candidate_together_have_a_limit() -> None:
    kit = kit_with(lambda role, job, text: False, candidate_s=100.0)
    assert kit.judge(gain=1.05).accepted  # the reference is ready
    asked = slow(kit, lambda role, job: 0.0 if role == "seed" else 30.0)
    verdict = kit.judge(gain=1.06)
    assert verdict.status == "TIMEOUT"
    assert "used up the 100 s that one candidate may take" in verdict.checks[-1].message
    ours = [limit_s for role, limit_s in asked if role != "seed"]
    assert (ours[1], ours[3:]) == (70.0, [10.0])  # never more than what is left


def test_what_the_seed_takes_and_the_incumbents_second_start_do_not_count() -> None:
    kit = kit_with(lambda role, job, text: False, candidate_s=100.0)
    slow(kit, lambda role, job: 90.0 if role == "seed" else 0.1)
    assert kit.judge(gain=1.05).accepted


def test_a_session_is_not_cut_short_so_that_no_side_is_blamed_for_it() -> None:
    kit = kit_with(lambda role, job, text: False, candidate_s=100.0)
    assert kit.judge(gain=1.05).accepted
    asked = slow(kit, lambda role, job: 15.0 if isinstance(job, TimeJob) else 0.0)
    verdict = kit.judge(gain=1.06)
    assert (verdict.status, verdict.checks[-1].name) == ("TIMEOUT", "confirm")
    assert "timing session, b:all checks" in verdict.checks[-1].message
    assert all(limit_s in (30.0, 60.0, 120.0) or role == "seed" for role, limit_s in asked[-3:])


def test_what_the_machine_takes_to_be_tried_after_a_death_does_not_count() -> None:
    kit = kit_with(killed_by(CompileJob, times=1), candidate_s=100.0)
    assert kit.judge(gain=1.05).accepted
    slow(kit, lambda role, job: 0.0)
    workers = kit.gate.bench.workers
    ticks = workers.pauses.clock.base

    def sound() -> str:
        ticks.now_s += 200.0  # type: ignore[attr-defined]
        return ""

    workers.fault = sound
    assert kit.judge(gain=1.06, deadly=1).accepted
