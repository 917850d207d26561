"""The loop: choose, propose, judge, record; then time each winner against its seed.

A run is a function of what is on record: stopped anywhere, it goes on from there. A candidate is
recorded before it is judged and its verdict after, each in one transaction, so that a kill between
the two costs one judgement and nothing else.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kernelsmith.errors import EvidenceError, InfrastructureError, KernelsmithError, StorageError
from kernelsmith.interrupts import Interrupts
from kernelsmith.lane import Lane, Progress, open_lane
from kernelsmith.lineage.past import Before, PastCandidate, TaskBefore
from kernelsmith.model import Candidate, Gain, Task, Verdict
from kernelsmith.ports import Judge, OutlivesAgent, Proposer, Store

RETIMING_SESSIONS = 20
DEFAULT_SESSION_S = 2.0
RESERVE = 1.3  # the final timing takes this much longer than confirm's sessions, to be safe
TRIES = 2
MAX_SET_ASIDE_IN_A_ROW = 3
MAX_DUPLICATES_IN_A_ROW = 200
WAIT_S = 1.0  # how long to wait for a proposer before looking at stop and time again

Reason = Literal["time", "candidates", "exhausted", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When to stop: active seconds of the run, the final timing included; judged candidates."""

    time_limit_s: float
    max_candidates: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event for display. ``kind``: "waiting", "proposed", "judged", "duplicate", "set_aside",
    "agent_ended", "retiming", "retimed", "exploring_done". ``standing``: the proposer's own
    line."""

    kind: str
    task: str
    elapsed_s: float
    left_s: float
    tasks: tuple[Progress, ...]
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    note: str = ""
    standing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that a run needs. ``seeds``: each task's seed as a candidate; ``first``: candidates to
    judge before any proposal (``--from``); ``started_s``: the clock when the command began."""

    run_id: str
    tasks: tuple[Task, ...]
    seeds: Mapping[str, Candidate]
    proposer: Proposer
    judges: Mapping[str, Judge]
    store: Store
    normal_hash: Callable[[str], str]
    budget: Budget
    before: Before
    interrupts: Interrupts
    started_s: float
    report: Callable[[Happening], None] = lambda happening: None
    first: Mapping[str, Candidate] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Counts over all tasks of the run."""

    confirms: int
    set_aside_in_a_row: int = 0
    agent_ended: str = ""


def run(setup: Setup) -> Reason:
    """Runs until a budget is spent, nothing is left to try or someone asks to stop.

    Returns:
        Why exploring ended; the run's end is on record.

    Raises:
        KeyboardInterrupt: on a signal, after the interruption is on record.
        KernelsmithError: what ended the run, after it is on record where that is possible.
    """
    try:
        lanes = [_lane(setup, task) for task in setup.tasks]
        reason = _explore(setup, lanes)
        # The final timing has the machine to itself.
        setup.proposer.close({lane.task.name: lane.history for lane in lanes})
        _tell(setup, lanes, "exploring_done", lanes[0], note=reason)
        for lane in lanes:
            _settle(setup, lanes, lane)
    except KeyboardInterrupt:
        _append(setup, "interrupted", {"elapsed_s": _elapsed_s(setup)})
        raise
    except StorageError:
        raise  # the record itself cannot be written
    except KernelsmithError as error:
        _append(setup, "failed", {"error": error.message, "elapsed_s": _elapsed_s(setup)})
        raise
    _append(setup, "finished", {"reason": reason, "elapsed_s": _elapsed_s(setup)})
    return reason


def _explore(setup: Setup, lanes: list[Lane]) -> Reason:
    tally = _Tally(confirms=setup.before.confirms)
    while True:
        _note_agents_end(setup, lanes, tally)
        if setup.interrupts.requested:
            raise KeyboardInterrupt
        if setup.store.stop_requested(setup.run_id):
            return "stop"
        limit = setup.budget.max_candidates
        if limit is not None and sum(lane.judged for lane in lanes) >= limit:
            return "candidates"
        open_lanes = [lane for lane in lanes if not lane.exhausted]
        if not open_lanes:
            return "exhausted"
        fitting = [lane for lane in open_lanes if _fits(setup, lanes, lane)]
        if not fitting:
            return "time"
        lane = _choose(setup, lanes, fitting)
        if lane is None:
            continue
        began_s = setup.clock()
        candidate = _next_candidate(setup, lanes, lane)
        if candidate is not None:
            verdict = _judge(setup, lanes, lane, candidate, tally)
            if verdict is not None:
                _record(setup, lanes, lane, candidate, verdict, setup.clock() - began_s, tally)
        lane.used_s += setup.clock() - began_s


def _note_agents_end(setup: Setup, lanes: list[Lane], tally: _Tally) -> None:
    """Puts on record, once, that the run goes on without its agent."""
    if tally.agent_ended or not isinstance(setup.proposer, OutlivesAgent):
        return
    tally.agent_ended = setup.proposer.ended_early()
    if tally.agent_ended:
        payload = {"error": tally.agent_ended, "elapsed_s": _elapsed_s(setup)}
        _append(setup, "agent_ended", payload)
        _tell(setup, lanes, "agent_ended", lanes[0], note=tally.agent_ended)


def _choose(setup: Setup, lanes: list[Lane], fitting: list[Lane]) -> Lane | None:
    """The lane to go on with: one with a candidate that waits, else the proposer's choice, which
    is offered the one with the least time so far first. None: not yet."""
    order = sorted(fitting, key=lambda lane: lane.used_s)
    for lane in order:
        if lane.waiting:
            return lane
    with setup.interrupts.interruptible():
        name = setup.proposer.choose({lane.task.name: lane.history for lane in order}, WAIT_S)
    if name is None:
        _tell(setup, lanes, "waiting", order[0])
    return next((lane for lane in order if lane.task.name == name), None)


def _fits(setup: Setup, lanes: list[Lane], lane: Lane) -> bool:
    """Whether another judgement, as long as the longest so far, still leaves the time that the
    final timing needs if it ends in a winner. The first judgement of a task always fits."""
    elapsed_s = _elapsed_s(setup)
    if lane.judged == 0:
        return elapsed_s < setup.budget.time_limit_s
    due = [each for each in lanes if each is lane or each.is_due]
    known = [each.session_s for each in lanes if each.session_s is not None]
    session_s = max(known, default=DEFAULT_SESSION_S)
    reserve_s = RESERVE * RETIMING_SESSIONS * session_s * len(due)
    return elapsed_s + lane.longest_s + reserve_s < setup.budget.time_limit_s


def _next_candidate(setup: Setup, lanes: list[Lane], lane: Lane) -> Candidate | None:
    """What waits from before, else a new proposal, on record; None: none this time."""
    if lane.waiting:
        return lane.waiting.pop(0)
    with setup.interrupts.interruptible():
        candidate = setup.proposer.propose(lane.task, lane.history)
    if candidate is None:
        lane.exhausted = True
        return None
    normal_hash = setup.normal_hash(candidate.source)
    if normal_hash in lane.seen:
        _drop(setup, lanes, lane, candidate, lane.seen[normal_hash])
        return None
    lane.seen[normal_hash] = candidate.id
    lane.duplicates_in_a_row = 0
    _append(setup, "candidate", {"candidate": candidate, "normal_hash": normal_hash})
    _tell(setup, lanes, "proposed", lane, candidate=candidate)
    return candidate


def _drop(setup: Setup, lanes: list[Lane], lane: Lane, candidate: Candidate, of: str) -> None:
    lane.duplicates += 1
    lane.duplicates_in_a_row += 1
    lane.exhausted = lane.duplicates_in_a_row >= MAX_DUPLICATES_IN_A_ROW
    payload = {"candidate": candidate, "of": of, "elapsed_s": _elapsed_s(setup)}
    _append(setup, "duplicate", payload)
    message = f"the same program as {of}"
    lane.history.append(
        PastCandidate(candidate=candidate, status="DUPLICATE", gain_vs_seed=None, message=message)
    )
    _tell(setup, lanes, "duplicate", lane, candidate=candidate, note=message)


def _judge(
    setup: Setup, lanes: list[Lane], lane: Lane, candidate: Candidate, tally: _Tally
) -> Verdict | None:
    """The verdict; None when the machine failed on it twice, which is never its fault.

    Raises:
        InfrastructureError: when the machine failed on several candidates in a row.
    """
    incumbent = lane.incumbent
    for last in [False] * (TRIES - 1) + [True]:
        try:
            with setup.interrupts.interruptible():
                return lane.judge.judge(candidate, incumbent, tally.confirms)
        except StorageError:
            raise
        except EvidenceError as error:
            message = f"judging {candidate.id} of {lane.task.name}: {error.message}"
            raise EvidenceError(message, hint=error.hint) from error
        except InfrastructureError as error:
            tally.confirms += 1  # it may have broken off inside confirm
            payload = {"task": lane.task.name, "candidate": candidate.id, "error": error.message}
            if not last:
                _append(setup, "retry", {**payload, "elapsed_s": _elapsed_s(setup)})
                continue
            tally.set_aside_in_a_row += 1
            if tally.set_aside_in_a_row >= MAX_SET_ASIDE_IN_A_ROW:
                raise  # it stays without a verdict, and is judged again after resume
            _append(setup, "set_aside", {**payload, "elapsed_s": _elapsed_s(setup)})
            past = PastCandidate(
                candidate=candidate, status="UNJUDGED", gain_vs_seed=None, message=error.message
            )
            lane.history.append(past)
            _tell(setup, lanes, "set_aside", lane, candidate=candidate, note=error.message)
    return None


def _record(
    setup: Setup,
    lanes: list[Lane],
    lane: Lane,
    candidate: Candidate,
    verdict: Verdict,
    seconds: float,
    tally: _Tally,
) -> None:
    tally.set_aside_in_a_row = 0
    gain_vs_seed = None if verdict.gain is None else lane.chain[-1][1] * verdict.gain.geomean
    if verdict.accepted and gain_vs_seed is None:
        raise EvidenceError(f"{candidate.id} of {lane.task.name} was accepted without a gain")
    _append(
        setup,
        "verdict",
        {
            "verdict": verdict,
            "seconds": seconds,
            "elapsed_s": _elapsed_s(setup),
            "gain_vs_seed": gain_vs_seed,
        },
    )
    tally.confirms += lane.note_verdict(verdict, seconds)
    failing = next((check for check in verdict.checks if check.status == "fail"), None)
    lane.history.append(
        PastCandidate(
            candidate=candidate,
            status=verdict.status,
            gain_vs_seed=gain_vs_seed,
            message=failing.message if failing else "",
            check=failing.name if failing else "",
            gain=verdict.gain,
        )
    )
    if verdict.accepted and gain_vs_seed is not None:
        lane.accepted += 1
        lane.chain.append((candidate, gain_vs_seed))
    _tell(setup, lanes, "judged", lane, candidate=candidate, verdict=verdict)


def _settle(setup: Setup, lanes: list[Lane], lane: Lane) -> None:
    """Times the incumbent against the seed; where that fails, its nearest ancestor that passes
    stands, at last the seed."""
    while len(lane.chain) > 1:
        candidate, _ = lane.chain[-1]
        if candidate.id not in lane.retimed:
            _tell(setup, lanes, "retiming", lane, candidate=candidate)
            holds, gain, evidence = _retime(setup, lane, candidate)
            payload = {"task": lane.task.name, "candidate": candidate.id, "holds": holds}
            facts = {"gain": gain, "evidence": evidence, "elapsed_s": _elapsed_s(setup)}
            _append(setup, "retiming", {**payload, **facts})
            lane.retimed[candidate.id] = (holds, gain)
            _tell(setup, lanes, "retimed", lane, candidate=candidate)
        holds, gain = lane.retimed[candidate.id]
        if holds:
            lane.chain[-1] = (candidate, gain.geomean)
            return
        lane.chain.pop()


def _retime(setup: Setup, lane: Lane, candidate: Candidate) -> tuple[bool, Gain, dict[str, Any]]:
    tries = 0
    while True:
        # On record before it begins: one that is cut off has had its chance of an error too.
        begun = {"task": lane.task.name, "candidate": candidate.id}
        _append(setup, "retiming_begun", {**begun, "elapsed_s": _elapsed_s(setup)})
        lane.timings += 1
        try:
            with setup.interrupts.interruptible():
                return lane.judge.retime(candidate, RETIMING_SESSIONS, lane.timings - 1)
        except StorageError:
            raise
        except InfrastructureError:
            tries += 1
            if tries == TRIES:
                raise


def _lane(setup: Setup, task: Task) -> Lane:
    """The task as it stands on record; what the run begins with is recorded and waits."""
    lane = open_lane(
        task,
        setup.judges[task.name],
        setup.seeds[task.name],
        setup.before.tasks.get(task.name, TaskBefore()),
        setup.store.history(setup.run_id, task.name),
        setup.store.pending(setup.run_id, task.name),
        setup.normal_hash,
    )
    first = setup.first.get(task.name)
    if first is not None and setup.normal_hash(first.source) not in lane.seen:
        normal_hash = setup.normal_hash(first.source)
        lane.seen[normal_hash] = first.id
        _append(setup, "candidate", {"candidate": first, "normal_hash": normal_hash})
        lane.waiting.append(first)
    return lane


def _elapsed_s(setup: Setup) -> float:
    return setup.before.elapsed_s + setup.clock() - setup.started_s


def _append(setup: Setup, kind: str, payload: Mapping[str, Any]) -> None:
    setup.store.append(setup.run_id, kind, payload)


def _tell(setup: Setup, lanes: list[Lane], kind: str, lane: Lane, **rest: Any) -> None:
    elapsed_s = _elapsed_s(setup)
    happening = Happening(
        kind=kind,
        task=lane.task.name,
        elapsed_s=elapsed_s,
        left_s=max(0.0, setup.budget.time_limit_s - elapsed_s),
        tasks=tuple(each.progress() for each in lanes),
        standing=setup.proposer.standing(),
    )
    setup.report(replace(happening, **rest))
