"""The loop: choose, propose, judge, record; then time each winner against its seed.

A run is a function of what is on record: stopped anywhere, it goes on from there. A candidate is
recorded before it is judged and its verdict after, each in one transaction, so that a kill between
the two costs one judgement and nothing else.
"""

from typing import Any, Literal

from kernelsmith.errors import EvidenceError, KernelsmithError, StorageError
from kernelsmith.judging import (
    RETIMING_SESSIONS,
    has_room,
    judge,
    note_slowed,
    retime,
    wait_for_room,
)
from kernelsmith.lane import Lane, open_lane
from kernelsmith.lineage.past import PastCandidate, TaskBefore
from kernelsmith.model import Candidate, Task, Verdict
from kernelsmith.night import Budget, Happening, Setup, Tally, append, elapsed_s, tell
from kernelsmith.ports import OutlivesAgent

__all__ = ["Budget", "Happening", "Reason", "Setup", "run"]

DEFAULT_SESSION_S = 2.0
RESERVE = 1.3  # the final timing takes this much longer than confirm's sessions, to be safe
MAX_DUPLICATES_IN_A_ROW = 200
WAIT_S = 1.0  # how long to wait for a proposer before looking at stop and time again

Reason = Literal["time", "candidates", "exhausted", "stop"]


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
        tally = Tally(confirms=setup.before.confirms)
        reason = _explore(setup, lanes, tally)
        # The final timing has the machine to itself.
        setup.proposer.close({lane.task.name: lane.history for lane in lanes})
        tell(setup, lanes, "exploring_done", lanes[0], note=reason)
        for lane in lanes:
            _settle(setup, lanes, lane, tally)
    except KeyboardInterrupt:
        _note_cut(setup)
        raise
    except StorageError:
        raise  # the record itself cannot be written
    except KernelsmithError as error:
        facts = {"error": error.message, "exit_code": error.exit_code}
        append(setup, "failed", {**facts, "elapsed_s": elapsed_s(setup)})
        raise
    append(setup, "finished", {"reason": reason, "elapsed_s": elapsed_s(setup)})
    return reason


def _explore(setup: Setup, lanes: list[Lane], tally: Tally) -> Reason:
    while True:
        _note_agents_end(setup, lanes, tally)
        if setup.interrupts.requested:
            raise KeyboardInterrupt
        _rest(setup)
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
        if not has_room(setup, lanes, tally):
            wait_for_room(setup)
            continue
        lane = _choose(setup, lanes, fitting)
        if lane is None:
            continue
        began_s, waited_s = setup.clock(), tally.waited_s
        candidate = _next_candidate(setup, lanes, lane)
        if candidate is not None:
            verdict = judge(setup, lanes, lane, candidate, tally)
            if verdict is not None:
                seconds = setup.clock() - began_s - (tally.waited_s - waited_s)
                _record(setup, lanes, lane, candidate, verdict, seconds, tally)
        lane.used_s += setup.clock() - began_s


def _rest(setup: Setup) -> None:
    """Waits, between two judgements, while the run is paused."""
    with setup.interrupts.interruptible():
        setup.pauses.rest()


def _note_cut(setup: Setup) -> None:
    """Puts on record that a signal ended the run here: to be gone on with later, or for good."""
    facts: dict[str, Any] = {"elapsed_s": elapsed_s(setup)}
    if setup.interrupts.reason:
        facts |= {"level": "journal", "reason": setup.interrupts.reason}
    append(setup, "paused" if setup.interrupts.reason else "interrupted", facts)


def _note_agents_end(setup: Setup, lanes: list[Lane], tally: Tally) -> None:
    """Puts on record, once, that the run goes on without its agent."""
    if tally.agent_ended or not isinstance(setup.proposer, OutlivesAgent):
        return
    tally.agent_ended = setup.proposer.ended_early()
    if tally.agent_ended:
        payload = {"error": tally.agent_ended, "elapsed_s": elapsed_s(setup)}
        append(setup, "agent_ended", payload)
        tell(setup, lanes, "agent_ended", lanes[0], note=tally.agent_ended)


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
        tell(setup, lanes, "waiting", order[0])
    return next((lane for lane in order if lane.task.name == name), None)


def _fits(setup: Setup, lanes: list[Lane], lane: Lane) -> bool:
    """Whether another judgement, as long as the longest so far, still leaves the time that the
    final timing needs if it ends in a winner. The first judgement of a task always fits."""
    gone_s = elapsed_s(setup)
    if lane.judged == 0:
        return gone_s < setup.budget.time_limit_s
    due = [each for each in lanes if each is lane or each.is_due]
    known = [each.session_s for each in lanes if each.session_s is not None]
    session_s = max(known, default=DEFAULT_SESSION_S)
    reserve_s = RESERVE * RETIMING_SESSIONS * session_s * len(due)
    return gone_s + lane.longest_s + reserve_s < setup.budget.time_limit_s


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
    append(setup, "candidate", {"candidate": candidate, "normal_hash": normal_hash})
    tell(setup, lanes, "proposed", lane, candidate=candidate)
    return candidate


def _drop(setup: Setup, lanes: list[Lane], lane: Lane, candidate: Candidate, of: str) -> None:
    lane.duplicates += 1
    lane.duplicates_in_a_row += 1
    lane.exhausted = lane.duplicates_in_a_row >= MAX_DUPLICATES_IN_A_ROW
    payload = {"candidate": candidate, "of": of, "elapsed_s": elapsed_s(setup)}
    append(setup, "duplicate", payload)
    message = f"the same program as {of}"
    lane.history.append(
        PastCandidate(candidate=candidate, status="DUPLICATE", gain_vs_seed=None, message=message)
    )
    tell(setup, lanes, "duplicate", lane, candidate=candidate, note=message)


def _record(
    setup: Setup,
    lanes: list[Lane],
    lane: Lane,
    candidate: Candidate,
    verdict: Verdict,
    seconds: float,
    tally: Tally,
) -> None:
    tally.patience.sound()
    slowed = (check.evidence["slowed"] for check in verdict.checks if "slowed" in check.evidence)
    note_slowed(setup, lanes, lane, tally, next(slowed, None))
    gain_vs_seed = None if verdict.gain is None else lane.chain[-1][1] * verdict.gain.geomean
    if verdict.accepted and gain_vs_seed is None:
        raise EvidenceError(f"{candidate.id} of {lane.task.name} was accepted without a gain")
    append(
        setup,
        "verdict",
        {
            "verdict": verdict,
            "seconds": seconds,
            "elapsed_s": elapsed_s(setup),
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
    tell(setup, lanes, "judged", lane, candidate=candidate, verdict=verdict)


def _settle(setup: Setup, lanes: list[Lane], lane: Lane, tally: Tally) -> None:
    """Times the incumbent against the seed; where that fails, its nearest ancestor that passes
    stands, at last the seed."""
    while len(lane.chain) > 1:
        _rest(setup)
        candidate, _ = lane.chain[-1]
        if candidate.id not in lane.retimed:
            tell(setup, lanes, "retiming", lane, candidate=candidate)
            holds, gain, evidence = retime(setup, lanes, lane, candidate, tally)
            note_slowed(setup, lanes, lane, tally, evidence.get("slowed"))
            payload = {"task": lane.task.name, "candidate": candidate.id, "holds": holds}
            facts = {"gain": gain, "evidence": evidence, "elapsed_s": elapsed_s(setup)}
            append(setup, "retiming", {**payload, **facts})
            lane.retimed[candidate.id] = (holds, gain)
            tell(setup, lanes, "retimed", lane, candidate=candidate)
        holds, gain = lane.retimed[candidate.id]
        if holds:
            lane.chain[-1] = (candidate, gain.geomean)
            return
        lane.chain.pop()


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
        append(setup, "candidate", {"candidate": first, "normal_hash": normal_hash})
        lane.waiting.append(first)
    return lane
