"""One timing session: a newly exec'ed process times incumbent and candidate on fresh inputs, and
the host checks the outputs of timed replays. A session gives one score a case, nothing else."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelsmith.errors import EvidenceError, TaskError
from kernelsmith.gate import plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.floor import floor_us
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import Ask, Outcome, Subject, draw_seed
from kernelsmith.model import Case, CaseTimes, Inputs, Task, TimedCase, TimeResult
from kernelsmith.numerics import statistics
from kernelsmith.ports import Reply

TIMED_CASES_MAX = 12
SIDES_OF_OCTET = "abbabaab"
LOG_GAIN_MAX = 50.0
"""No clock tells a factor of e^50; e^750 is no number."""
SLOWED_WHY_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Log gains (time of a / time of b) of one session, by case and weighted over all of them."""

    warm: Mapping[str, float]
    cold: Mapping[str, float]
    warm_gain: float
    cold_gain: float


def timed_cases(task: Task) -> list[Case]:
    """The cases with a weight.

    Raises:
        TaskError: none, or more than 12.
    """
    cases = [case for case in task.cases if case.weight > 0]
    if not 1 <= len(cases) <= TIMED_CASES_MAX:
        raise TaskError(
            f"task {task.name} times {len(cases)} cases; at least 1 and at most "
            f"{TIMED_CASES_MAX} may have a weight"
        )
    return cases


def unequal(bench: Bench, a: Subject, b: Subject, cases: Sequence[Case]) -> list[Case]:
    """The cases in which both sides do not execute the same machine code on the same plan."""
    return [
        case
        for case in cases
        if plans.fingerprint(a, case.id, bench.objects)
        != plans.fingerprint(b, case.id, bench.objects)
    ]


def run(
    bench: Bench, reference: Reference, a: Subject, b: Subject, cases: Sequence[Case], label: str
) -> Session | Outcome:
    """One session of ``b`` (judged) against ``a`` (to beat).

    Cases in which both are the same count with gain 0. The raw windows are kept in ``b.timing``.

    Args:
        cases: those to time, from :func:`unequal`.
        label: tells this session from all others; placement and inputs follow from it.

    Raises:
        EvidenceError: the answer is incomplete, or the incumbent failed or left the seed's bits.
    """
    inputs = {case.id: reference.inputs(case, "session", label) for case in cases}
    expected = reference.fresh(
        [Ask(key=case.id, case=case, inputs=inputs[case.id]) for case in cases]
    )
    timed = [_timed(bench, a, b, case, inputs[case.id]) for case in cases]
    before = bench.throttle.read()
    reply = bench.time(
        a,
        b,
        timed,
        placement=draw_seed(reference.secret, "placement", label),
        verify=draw_seed(reference.secret, "verify", label),
    )
    try:
        result = reply.result
        assert isinstance(result, TimeResult)  # bench.time has seen to it
        if result.failure is not None:
            return _failure(result, a)
        _require_complete(result, timed)
        slowed = bench.throttle.since(before, result.facts)
        b.timing.append({**_raw(result, a, label), **({"slowed": slowed} if slowed else {})})
        for case, times, done in zip(cases, result.cases, expected, strict=True):
            found = _replays(bench, reply, case, times, done.outputs, a)
            if found.status is None:
                found = _floor(case, times, next(t for t in timed if t.key == case.id), a)
            if found.status is not None:
                return found
    finally:
        reply.close()
    return _session(bench.task, result)


def slowed(timing: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Evidence, under "slowed", where some of these raw sessions were slowed from outside: how
    many, of how many, and why. Nothing hangs on it."""
    found = [one["slowed"] for one in timing if "slowed" in one]
    if not found:
        return {}
    why = list(dict.fromkeys(reason for reasons in found for reason in reasons))
    return {"slowed": {"sessions": len(found), "of": len(timing), "why": why[:SLOWED_WHY_MAX]}}


def _timed(bench: Bench, a: Subject, b: Subject, case: Case, inputs: Inputs) -> TimedCase:
    return TimedCase(
        key=case.id,
        a=a.plans[case.id],
        b=b.plans[case.id],
        inputs=inputs,
        floor_us=floor_us(bench.task, case, inputs),
        cold=True,
        octets=bench.limits.octets,
        window_ms=bench.limits.window_ms,
    )


def _session(task: Task, result: TimeResult) -> Session:
    weights = {case.id: case.weight for case in timed_cases(task)}
    warm = {times.key: statistics.median(times.warm) for times in result.cases}
    cold = {times.key: statistics.median(times.cold) for times in result.cases}
    same = dict.fromkeys(set(weights) - set(warm), 0.0)
    return Session(
        warm=warm,
        cold=cold,
        warm_gain=statistics.session_gain({**same, **warm}, weights),
        cold_gain=statistics.session_gain({**same, **cold}, weights),
    )


def _failure(result: TimeResult, a: Subject) -> Outcome:
    failure = result.failure
    assert failure is not None
    if failure.where.startswith("b:"):
        return Outcome(
            status=failure.status, message=f"timing session, {failure.where}: {failure.message}"
        )
    raise EvidenceError(
        f"a timing session failed outside the candidate ({failure.where or 'no case'}; "
        f"incumbent {a.candidate.id}): {failure.status}: {failure.message}"
    )


def _require_complete(result: TimeResult, timed: Sequence[TimedCase]) -> None:
    if [times.key for times in result.cases] != [case.key for case in timed]:
        raise EvidenceError(
            f"asked for {len(timed)} timed cases, the session answered {len(result.cases)}"
        )
    for times, case in zip(result.cases, timed, strict=True):
        octets = (*times.warm, *times.cold)
        if len(times.warm) != case.octets or len(times.cold) != case.octets:
            raise EvidenceError(f"case {case.key}: a session without all its octets")
        if not all(abs(score) <= LOG_GAIN_MAX for score in octets):
            raise EvidenceError(f"case {case.key}: an octet whose score is no finite gain")
        windows = times.windows_ns
        if len(windows) != len(octets) or {len(w) for w in windows} != {len(SIDES_OF_OCTET)}:
            raise EvidenceError(f"case {case.key}: a session without all its windows")
        if not all(math.isfinite(ns) and ns > 0.0 for octet in windows for ns in octet):
            raise EvidenceError(f"case {case.key}: a window that took no time")
        if {replay.side for replay in times.replays} != {"a", "b"}:
            raise EvidenceError(f"case {case.key}: no outputs of timed replays came back")


def _replays(
    bench: Bench,
    reply: Reply,
    case: Case,
    times: CaseTimes,
    expected: tuple[bytes, ...],
    a: Subject,
) -> Outcome:
    for replay in times.replays:
        actual = tuple(
            reply.read("out.bin", out.offset_bytes, out.nbytes) for out in replay.outputs
        )
        found = compare(
            bench.task,
            case,
            expected,
            actual,
            status="UNCONFIRMED",
            how=", in a timed replay on fresh inputs",
        )
        if found.status is None:
            continue
        if replay.side == "a":
            raise EvidenceError(
                f"incumbent {a.candidate.id} no longer has the seed's bits: {found.message}"
            )
        return found
    return Outcome()


def _floor(case: Case, times: CaseTimes, timed: TimedCase, a: Subject) -> Outcome:
    """A side is too fast if its fastest window is; which side follows from the octet's order."""
    fastest = {"a": math.inf, "b": math.inf}
    for octet in times.windows_ns:
        for side, window_ns in zip(SIDES_OF_OCTET, octet, strict=True):
            fastest[side] = min(fastest[side], window_ns / 1e3)
    if fastest["a"] < timed.floor_us:
        raise EvidenceError(
            f"case {case.id}: incumbent {a.candidate.id} took {fastest['a']:.3f} us, less than "
            f"the {timed.floor_us:.3f} us that moving its tensors takes: the clock is wrong"
        )
    if fastest["b"] < timed.floor_us or times.below_floor:
        return Outcome(
            status="UNCONFIRMED",
            message=f"case {case.id}: measured {fastest['b']:.3f} us, less than the "
            f"{timed.floor_us:.3f} us that moving its tensors takes: the measurement fails",
            evidence={"case": case.id, "us": fastest["b"], "floor_us": timed.floor_us},
        )
    return Outcome()


def _raw(result: TimeResult, a: Subject, label: str) -> dict[str, Any]:
    return {
        "session": label,
        "against": a.candidate.id,
        "seconds": result.seconds,
        "facts": result.facts,
        "cases": [
            {
                "case": times.key,
                "warm": list(times.warm),
                "cold": list(times.cold),
                "windows_ns": [list(octet) for octet in times.windows_ns],
                "replays_per_window": list(times.replays_per_window),
            }
            for times in result.cases
        ],
    }
