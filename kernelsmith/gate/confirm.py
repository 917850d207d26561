"""confirm: faster than the incumbent and no timed case slower by more than is allowed, by the
latency rule; the bits hold on hidden shapes and, for a winner, at every declared row count; the
entry run for real makes the traced launches."""

import math
from dataclasses import replace
from typing import Any

from kernelsmith.gate import every, hidden, sessions
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.latency_rule import LatencyRule, latency_rule
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.gate.witness import check as witness
from kernelsmith.model import Gain
from kernelsmith.numerics import statistics


def check(
    bench: Bench,
    reference: Reference,
    subject: Subject,
    incumbent: Subject,
    *,
    k: int,
    label: str,
) -> tuple[Outcome, Gain | None]:
    """Confirms the k-th candidate of a run that came this far.

    Returns:
        The outcome, and the gain if it passed.
    """
    seed = hidden.hidden_seed(reference.secret, f"{subject.candidate.id} {label}")
    drawn = hidden.draw_cases(bench.task, bench.limits.hidden_per_call, seed)
    drawn += hidden.draw_beyond(subject, seed)
    bits = hidden.check_bits(bench, reference, subject, drawn)
    if bits.status is None:
        bits = _witnessed(bench, reference, subject, bits)
    if bits.status is not None:
        return bits, None
    found = hidden.check_real(bench, subject, [*bench.task.cases, *drawn])
    if found.status is not None:
        return found, None
    alpha = statistics.alpha_k(k)
    timed, rule = run_rule(bench, reference, subject, incumbent, alpha=alpha, label=label)
    evidence = {
        **found.evidence,
        **bits.evidence,
        **timed.evidence,
        "k": k,
        "alpha": alpha,
    }
    outcome = Outcome(status=timed.status, message=timed.message, evidence=evidence)
    if rule is None or outcome.status is not None:
        return outcome, None
    # The dearest look at bits is for those that are otherwise accepted.
    walked = every.check(bench, reference, subject, seed)
    if walked.status is None:
        walked = _witnessed(bench, reference, subject, walked)
    if walked.status is not None:
        return walked, None
    outcome = replace(outcome, evidence={**evidence, **walked.evidence})
    return outcome, report(bench, subject, incumbent, rule)


def _witnessed(bench: Bench, reference: Reference, subject: Subject, found: Outcome) -> Outcome:
    """What the IR of the classes says that only hidden shapes take; else what was ``found``."""
    met = witness.again(bench, reference, subject)
    return found if met.status is None else met


def run_rule(
    bench: Bench,
    reference: Reference,
    subject: Subject,
    incumbent: Subject,
    *,
    alpha: float,
    label: str,
    sessions_min: int = 0,
    sessions_max: int | None = None,
) -> tuple[Outcome, LatencyRule | None]:
    """Sessions until the rule is won, lost, or has had its number.

    Args:
        sessions_min: go on up to here even when won or lost (the end-of-run timing).
        sessions_max: default: the limits' (60).
    """
    task = bench.task
    cases = sessions.timed_cases(task)
    different = sessions.unequal(bench, incumbent, subject, cases)
    if not different:
        return Outcome(
            status="NOT_FASTER", message=f"runs the same code as {incumbent.candidate.id}"
        ), None
    rule = latency_rule(
        [case.id for case in different],
        min_gain=task.min_gain,
        max_regress=task.max_regress,
        alpha=alpha,
    )
    most = bench.limits.sessions_max if sessions_max is None else sessions_max
    for number in range(most):
        session = sessions.run(
            bench, reference, incumbent, subject, different, f"{label} session {number}"
        )
        if isinstance(session, Outcome):
            return session, None
        rule.see(session.warm_gain, session.cold_gain, session.warm)
        if number + 1 < sessions_min:
            continue
        if not rule.open or rule.lost(bench.limits.give_up_lead):
            break
    return _decide(rule, incumbent.candidate.id, task.min_gain, task.max_regress), rule


def report(bench: Bench, subject: Subject, incumbent: Subject, rule: LatencyRule) -> Gain:
    """The gain of a subject that won the rule."""
    cases = sessions.timed_cases(bench.task)
    different = {case.id for case in sessions.unequal(bench, incumbent, subject, cases)}
    return rule.gain(
        same=[case.id for case in cases if case.id not in different],
        paths={case.id: bench.task.call(case.call).path for case in cases},
        against=incumbent.candidate.id,
    )


def _decide(rule: LatencyRule, against: str, min_gain: float, max_regress: float) -> Outcome:
    evidence: dict[str, Any] = rule.evidence()
    if not rule.open:
        return Outcome(evidence=evidence)
    count = len(rule.warm_gains)
    still = {process.name: process for process in rule.open}
    overall = [process for process in rule.overall if process.name in still]
    cases = [process for process in rule.cases if process.name in still]
    slow = "; ".join(
        f"case {p.name} not cleared of being slower by more than {max_regress:.0%} "
        f"({p.successes} of {count} sessions)"
        for p in cases
    )
    if overall:
        shown = ", ".join(f"{p.name} {p.successes} of {count}" for p in overall)
        gain = math.exp(statistics.median(rule.warm_gains)) if rule.warm_gains else math.nan
        text = (
            f"a gain above {min_gain:.0%} against {against} is not shown in {count} sessions "
            f"(sessions above it: {shown}; median gain {gain:.4f})"
        )
        return Outcome(
            status="NOT_FASTER", message=f"{text}; {slow}" if slow else text, evidence=evidence
        )
    return Outcome(status="REGRESSES", message=f"against {against}: {slow}", evidence=evidence)
