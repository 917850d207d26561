"""A quick look at a candidate, for whoever is still writing it.

The gate's own checks in the gate's own order, as far as the look goes: bits are those of parity,
time is the screen of ``latency``. It decides nothing: what it times is pooled nowhere, and what is
hidden (drawn shapes, other compositions of a batch) is not touched.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelsmith.gate import latency, sessions
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.model import (
    CaseGain,
    CheckResult,
    KernelCode,
    Look,
    LookKind,
    Status,
    Verdict,
)
from kernelsmith.numerics import statistics

CODE = ("policy", "trace", "compile")
BITS = (*CODE, "witness", "parity.train", "parity.infer")
SIDES_OF_OCTET = sessions.SIDES_OF_OCTET
COUNTED: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "vector_loads",
        re.compile(r"^\tv(?:mov|pmovzx|broadcast|gather)\S*\t[^#\n]*\(.*\), ?%[xyz]mm", re.M),
    ),
    ("vector_stores", re.compile(r"^\tv(?:mov|pmov)\S*\t[^#\n]*%[xyz]mm\d+, ?[^%\s]*\(", re.M)),
    ("fmas", re.compile(r"^\tvfn?m(?:add|sub)", re.M)),
    ("spills", re.compile(r"^[^\n]*-byte (?:Folded )?Spill", re.M)),
    ("reloads", re.compile(r"^[^\n]*-byte (?:Folded )?Reload", re.M)),
)
"""What is counted in the CPU's assembly (AT&T syntax, LLVM's own comments)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One look: ``walk`` runs the named checks of the gate on ``subject``, ``reference`` and
    ``incumbent`` make ready what the later ones need; ``label`` tells its session from others."""

    subject: Subject
    against: str
    label: str
    walk: Callable[[Sequence[str]], Verdict]
    reference: Callable[[], Reference]
    incumbent: Callable[[], Subject]


Known = dict[str, tuple[Subject, tuple[CheckResult, ...]]]
"""Subjects whose bits a look found right, and the checks that showed it, by candidate id."""
KNOWN_MAX = 32


def look(bench: Bench, asked: Asked, kind: LookKind, known: Known) -> Look:
    """Looks at a candidate.

    Args:
        known: what earlier looks of this gate found right; grows, the oldest are dropped.

    Raises:
        EvidenceError, TaskError, InfrastructureError: as the gate's checks.
    """
    begun = time.monotonic()
    candidate = asked.subject.candidate.id
    subject, checks = known.get(candidate, (None, ()))
    if subject is None:
        verdict = asked.walk(CODE if kind == "code" else BITS)
        subject, checks = asked.subject, verdict.checks
        if not verdict.accepted:
            return _look(asked, kind, begun, verdict.status, checks)
        if kind != "code":
            known[candidate] = (subject, checks)
            while len(known) > KNOWN_MAX:
                del known[next(iter(known))]
    if kind == "code":
        return _look(asked, kind, begun, None, checks, kernels=kernels(bench, subject))
    if kind == "bits":
        return _look(asked, kind, begun, None, checks)
    screened = time.monotonic()
    incumbent = asked.incumbent()
    subject.timing.clear()
    found = latency.check(bench, asked.reference(), subject, incumbent, asked.label)
    raw = subject.timing[-1] if subject.timing else None
    subject.timing.clear()  # pooled nowhere
    checks = (*checks, _latency(found, time.monotonic() - screened))
    return _look(asked, kind, begun, found.status, checks, **_times(bench, found, raw))


def _look(
    asked: Asked,
    kind: LookKind,
    begun: float,
    status: Status | None,
    checks: tuple[CheckResult, ...],
    **found: Any,
) -> Look:
    return Look(
        kind=kind,
        candidate=asked.subject.candidate.id,
        status=status,
        checks=checks,
        seconds=time.monotonic() - begun,
        against=asked.against if kind == "time" else "",
        **found,
    )


def _latency(found: Outcome, seconds: float) -> CheckResult:
    return CheckResult(
        name="latency",
        status="pass" if found.status is None else "fail",
        seconds=seconds,
        message=found.message,
        evidence=found.evidence,
    )


# ------------------------------------------------------------------------------------------- time


def _times(bench: Bench, found: Outcome, raw: Mapping[str, Any] | None) -> dict[str, Any]:
    """Gains and times of a session, by case; 1.0 where both sides run the same code."""
    if raw is None and "same_code" not in found.evidence:
        return {}  # the session failed; the check says how
    cases = sessions.timed_cases(bench.task)
    timed = {} if raw is None else {one["case"]: one for one in raw["cases"]}
    warm = {name: statistics.median(one["warm"]) for name, one in timed.items()}
    cold = {name: statistics.median(one["cold"]) for name, one in timed.items()}
    weights = {case.id: case.weight for case in cases}
    same = dict.fromkeys(weights, 0.0)

    def gains(scores: Mapping[str, float]) -> tuple[CaseGain, ...]:
        return tuple(
            CaseGain(
                case=case.id,
                path=bench.task.call(case.call).path,
                gain=math.exp(scores.get(case.id, 0.0)),
            )
            for case in cases
        )

    return {
        "gains": gains(warm),
        "gains_cold": gains(cold),
        "gain_warm": math.exp(statistics.session_gain({**same, **warm}, weights)),
        "gain_cold": math.exp(statistics.session_gain({**same, **cold}, weights)),
        "against_us": {name: _us(one, "a") for name, one in timed.items()},
        "candidate_us": {name: _us(one, "b") for name, one in timed.items()},
    }


def _us(one: Mapping[str, Any], side: str) -> float:
    """Median warm window of one side, in microseconds a launch sequence."""
    octets = one["windows_ns"][: len(one["warm"])]
    windows = [
        ns
        for octet in octets
        for name, ns in zip(SIDES_OF_OCTET, octet, strict=True)
        if name == side
    ]
    return statistics.median(windows) / 1e3


# ------------------------------------------------------------------------------------------- code


def kernels(bench: Bench, subject: Subject) -> tuple[KernelCode, ...]:
    """What the compiler made of each kernel: one entry for each object, whatever plan classes
    share it, in order of their first launch.

    Assembly is made for what timed cases launch (for all, if nothing is timed). Where there is
    none, the stats say why.
    """
    cases: dict[str, dict[str, None]] = {}
    first: dict[str, str] = {}
    for case_id, plan in subject.plans.items():
        for launch in plan.launches:
            for class_id in (launch.plan_class, launch.plan_class_unaligned):
                object_id = subject.object_of[class_id]
                first.setdefault(object_id, class_id)
                cases.setdefault(object_id, {})[case_id] = None
    timed = {case.id for case in bench.task.cases if case.weight > 0}
    wanted = [oid for oid in first if timed & cases[oid].keys()] or list(first)
    made = bench.assembly(subject, {oid: subject.classes[first[oid]].ttir for oid in wanted})
    found = []
    for object_id, class_id in first.items():
        plan_class = subject.classes[class_id]
        info, code = bench.objects[object_id]
        assembly = "" if isinstance(made, Outcome) else made.get(object_id, "")
        facts: dict[str, Any] = {"arena_bytes": info.arena_bytes, "object_bytes": len(code)}
        if "cpu" in info.stats:
            facts["vector_level"] = info.stats["cpu"]
        if isinstance(made, Outcome):
            facts["assembly"] = f"not there: {made.message}"
        elif not assembly:
            facts["assembly"] = "not made: no timed case launches it"
        found.append(
            KernelCode(
                kernel=plan_class.kernel,
                cases=tuple(cases[object_id]),
                options=dict(plan_class.options),
                ttir=plan_class.ttir,
                assembly=assembly,
                stats={**facts, **(counts(assembly) if assembly else {})},
            )
        )
    return tuple(found)


def counts(assembly: str) -> dict[str, int]:
    """Instructions of a kind, counted in the text; not weighted by how often they run."""
    found = {name: len(pattern.findall(assembly)) for name, pattern in COUNTED}
    found["instructions"] = len(re.findall(r"^\t[a-z]", assembly, re.M))
    return found
