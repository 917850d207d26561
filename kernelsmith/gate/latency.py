"""latency: one session as a screen. It rejects what is plainly not faster and accepts nothing;
its numbers are not used again."""

import math

from kernelsmith.gate import sessions
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject

SCREEN_SLACK = 0.01
"""How far below ``min_gain`` one session may lie before a candidate is plainly not faster: two
standard deviations of a quiet machine's sessions."""


def check(
    bench: Bench, reference: Reference, subject: Subject, incumbent: Subject, label: str
) -> Outcome:
    """Times the candidate once against the incumbent, over the task's weighted cases."""
    cases = sessions.timed_cases(bench.task)
    different = sessions.unequal(bench, incumbent, subject, cases)
    same = [case.id for case in cases if case not in different]
    if not different:
        return Outcome(
            status="NOT_FASTER",
            message=f"all {len(cases)} timed cases run the same machine code on the same plan as "
            f"{incumbent.candidate.id}",
            evidence={"same_code": same},
        )
    session = sessions.run(bench, reference, incumbent, subject, different, f"{label} screen")
    if isinstance(session, Outcome):
        return session
    evidence = {
        "gain_warm": math.exp(session.warm_gain),
        "gain_cold": math.exp(session.cold_gain),
        "cases": {case: math.exp(score) for case, score in session.warm.items()},
        "same_code": same,
    }
    if session.warm_gain <= math.log1p(bench.task.min_gain) - SCREEN_SLACK:
        return Outcome(
            status="NOT_FASTER",
            message=f"gain {math.exp(session.warm_gain):.4f} in one session against "
            f"{incumbent.candidate.id}; {1 + bench.task.min_gain:.4f} is asked for",
            evidence=evidence,
        )
    return Outcome(evidence=evidence)
