"""Two binaries of the same work, timed by the gate's own code: one trial of the null sessions."""

import random
import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from null_variants import planted, variant

from kernelsmith import catalog, devices
from kernelsmith.errors import EvidenceError
from kernelsmith.gate import confirm
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Limits, Subject
from kernelsmith.model import Candidate, Case, Task
from kernelsmith.ports import Sandbox

# Call forms whose timed cases are kept: short enough for a session of about a second.
KEPT = {
    "rms_norm": ("residual_train", "infer"),
    "linear": ("train", "bias_infer"),
    "swiglu": ("train", "infer"),
    "logprob": ("train", "infer"),
}
VARIANTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One task with the variants of its seed, traced and compiled."""

    task: Task
    bench: Bench
    reference: Reference
    cases: list[Case]
    subjects: list[Subject]


def small(task: Task) -> Task:
    """The task with only the first timed case of each call form of KEPT, at equal weights."""
    first: dict[str, Case] = {}
    for case in task.cases:
        if case.weight > 0 and case.call in KEPT[task.name]:
            first.setdefault(case.call, replace(case, weight=1.0))
    if len(first) != len(KEPT[task.name]):
        raise SystemExit(f"task {task.name} has timed cases of {list(first)} alone")
    return replace(task, cases=tuple(first.values()))


def open_lab(name: str, sandbox: Sandbox, stack: ExitStack) -> Lab:
    """Traces and compiles the seed and its variants."""
    task = small(catalog.load_task(name, "cpu"))
    bench = stack.enter_context(Bench(task, devices.get("cpu"), sandbox, Limits()))
    seed = Subject(candidate=_candidate(task, task.seed_source, "seed"), role="seed")
    reference = Reference(bench, seed, secrets.randbits(255))
    cases = list(task.cases)
    reference.prepare(cases)
    subjects = []
    for number in range(1, VARIANTS + 1):
        source = variant(task.seed_source, number)
        subject = Subject(candidate=_candidate(task, source, f"v{number}"), role="launcher")
        found = bench.prepare(subject, cases)
        if found.status is not None:
            raise SystemExit(f"{name} v{number}: {found.status}: {found.message}")
        subjects.append(subject)
    _require_distinct(bench, subjects)
    return Lab(task=task, bench=bench, reference=reference, cases=cases, subjects=subjects)


def _candidate(task: Task, source: str, name: str) -> Candidate:
    return Candidate(id=name, task=task.name, source=source, parents=(), author="seed")


def _require_distinct(bench: Bench, subjects: list[Subject]) -> None:
    codes = [
        sorted(bench.objects[oid][0].code_hash for oid in set(subject.object_of.values()))
        for subject in subjects
    ]
    if any(one == other for i, one in enumerate(codes) for other in codes[:i]):
        raise SystemExit("two variants compiled to the same machine code: nothing to time")


def run_trial(lab: Lab, number: int, percent: float, alpha: float) -> dict[str, Any]:
    """One end-to-end trial: sessions until the rule accepts or gives up."""
    a, b = random.Random(number).sample(lab.subjects, 2)
    shares: dict[str, float] = {}
    if percent:
        a, shares = planted(a, lab.cases, percent)
    b.timing.clear()
    begun = time.monotonic()
    label = f"{secrets.token_hex(8)} {number}"
    outcome, rule = confirm.run_rule(lab.bench, lab.reference, b, a, alpha=alpha, label=label)
    if rule is None:
        raise EvidenceError(f"trial {number} ended without a decision: {outcome.message}")
    scores = zip(rule.warm_gains, rule.cold_gains, b.timing, strict=True)
    return {
        "trial": number,
        "task": lab.task.name,
        "a": a.candidate.id,
        "b": b.candidate.id,
        "planted_percent": percent,
        "planted": shares,
        "accepted": outcome.status is None,
        "status": outcome.status or "ACCEPTED",
        "seconds": time.monotonic() - begun,
        "sessions": [
            {
                "warm": warm,
                "cold": cold,
                "cases": {case: gains[i] for case, gains in rule.case_gains.items()},
                "seconds": raw["seconds"],
                "processor_share": raw["facts"]["processor_share"] if "facts" in raw else None,
            }
            for i, (warm, cold, raw) in enumerate(scores)
        ],
    }
