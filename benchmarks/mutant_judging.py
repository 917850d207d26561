"""Judges one mutant: by the gate's checks about bits, and beside them by tolerance.

What the gate accepts is looked into further. It is *equivalent* only if the canonical TTIR (values
numbered, constants where they are used), the options and the launches of every plan class are its
parent's, at all declared cases, at those with padded rows and at every row count of the range.
Otherwise it is *missed*, even where the machine code is the parent's everywhere, which is told
beside it.
"""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mutant_items import Item
from mutant_tolerance import Tolerance

from kernelsmith.devices.canonical import canonical
from kernelsmith.gate import declared_range, determinism, every, hidden
from kernelsmith.gate.judge import BITS, Gate
from kernelsmith.gate.reference import chunks
from kernelsmith.gate.subject import Outcome, Subject, draw_seed
from kernelsmith.model import Candidate, Case, CheckResult, Plan, Verdict, new_candidate

PARITY = ("policy", "trace", "compile", "parity.train", "parity.infer")
_CONSTANT = re.compile(r"\s*(%\d+) = (arith\.constant .*)")
_VALUE = re.compile(r"%\d+")
NOT_BUILT = ("POLICY", "TRACE", "COMPILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prints:
    """What a source launches, by case id: as text, and as machine code."""

    texts: Mapping[str, str]
    codes: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class Desk:
    """One gate and what was learned of the parents so far. Not frozen: it fills as it is asked."""

    gate: Gate
    parents: Mapping[str, str]
    tolerance: Tolerance
    cases: Sequence[Case]
    known: dict[tuple[str, bool], Prints] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


def desk(gate: Gate, parents: Mapping[str, str]) -> Desk:
    """Makes the parents ready: both must have the seed's bits in all declared cases.

    Raises:
        SystemExit: a parent fails.
    """
    for name, source in parents.items():
        verdict = gate.judge_bits(_candidate(gate, source, name), PARITY)
        if not verdict.accepted:
            raise SystemExit(f"the {name} of {gate.task.name} fails: {verdict.checks[-1].message}")
    task = gate.task
    padded = [one.case for one in determinism.padded(task, sorted(task.cases, key=lambda c: c.id))]
    return Desk(
        gate=gate,
        parents=parents,
        tolerance=Tolerance(bench=gate.bench, reference=gate.reference),
        cases=(*task.cases, *padded),
    )


def judge(room: Desk, item: Item) -> dict[str, Any]:
    """The record of one mutant: JSON-able."""
    candidate = _candidate(room.gate, item.source, item.name)
    begun = time.monotonic()
    found = _by_bits(room, item, candidate)
    found["seconds"] = round(time.monotonic() - begun, 3)
    subject = Subject(candidate=candidate, role="launcher")
    return {
        "id": item.id,
        "task": item.task,
        "parent": item.parent,
        "origin": item.origin,
        "kind": item.kind,
        "operator": item.operator,
        "name": item.name,
        "line": item.line,
        "old": item.old,
        "new": item.new,
        "reason": item.reason,
        "expected": [item.status, item.check] if item.status else None,
        **found,
        "tolerance": _by_tolerance(room, subject, found),
    }


def as_expected(record: Mapping[str, Any]) -> bool:
    """Whether a mutant by hand met the check and status of its table. Drawn ones have none."""
    if record["expected"] is None:
        return True
    status, check = record["expected"]
    if status == "ACCEPTED":
        return record["outcome"] in ("missed", "equivalent")
    met = str(record["check"])
    return bool(status == record["status"] and check in (met, met.partition(".")[0]))


# ------------------------------------------------------------------------------------ by bits


def _by_bits(room: Desk, item: Item, candidate: Candidate) -> dict[str, Any]:
    """outcome, check, status, message, case, output, element."""
    gate = room.gate
    verdict = gate.judge_bits(candidate, PARITY)
    if not verdict.accepted:
        return _caught(verdict, expected=item.status)
    subject = Subject(candidate=candidate, role="launcher")
    same = _sameness(room, item, subject)
    if same == "text":
        return _found("equivalent", message="canonical TTIR and launches are the parent's")
    if same == "code":
        return _found("missed", message="machine code and launches are the parent's everywhere")
    verdict = gate.judge_bits(candidate, [name for name in BITS if name not in PARITY[3:]])
    if not verdict.accepted:
        return _caught(verdict, expected=item.status)
    return _confirmed(room, subject)


def _caught(verdict: Verdict, *, expected: str) -> dict[str, Any]:
    last: CheckResult = verdict.checks[-1]
    built = verdict.status not in NOT_BUILT or verdict.status == expected
    return _found(
        "caught" if built else "not built",
        check=last.name,
        status=verdict.status,
        message=last.message,
        evidence=last.evidence,
    )


def _found(
    outcome: str,
    *,
    check: str = "",
    status: str = "ACCEPTED",
    message: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    facts = evidence or {}
    return {
        "outcome": outcome,
        "check": check,
        "status": status,
        "message": message[:400],
        "case": facts.get("case"),
        "output": facts.get("output"),
        "element": list(facts["first_index"]) if "first_index" in facts else None,
    }


def _confirmed(room: Desk, subject: Subject) -> dict[str, Any]:
    """What ``declared_range`` and ``confirm`` have to say about bits; nothing is timed."""
    gate, bench, reference = room.gate, room.gate.bench, room.gate.reference
    subject = Subject(candidate=subject.candidate, role="launcher")
    seed = draw_seed(reference.secret, "planted", subject.candidate.id)

    def drawn() -> Outcome:
        cases = hidden.draw_cases(gate.task, bench.limits.hidden_per_call, seed)
        cases += hidden.draw_beyond(subject, seed)
        return hidden.check_bits(bench, reference, subject, cases)

    for check, run in (
        ("trace", lambda: bench.prepare(subject, gate.task.cases)),
        ("declared_range", lambda: declared_range.check(bench, reference, subject)),
        ("confirm", drawn),
        ("confirm", lambda: every.check(bench, reference, subject, seed)),
    ):
        found = run()
        if found.status is not None:
            return _found(
                "caught",
                check=check,
                status=found.status,
                message=found.message,
                evidence=found.evidence,
            )
    return _found("missed", message="every check about bits let it through")


# ----------------------------------------------------------------------------------- sameness


def _sameness(room: Desk, item: Item, subject: Subject) -> str:
    """ "text": launches and canonical TTIR are the parent's at every case and declared row count;
    "code": the machine code is; "": neither."""
    same = {"text", "code"}
    for ranged in (False, True):
        own = _prints(room, subject, ranged)
        parents = _parent_prints(room, item.parent, ranged)
        if own is None or own.texts != parents.texts:
            same.discard("text")
        if own is None or own.codes != parents.codes:
            return ""
    return "text" if "text" in same else "code"


def _parent_prints(room: Desk, parent: str, ranged: bool) -> Prints:
    key = (parent, ranged)
    if key not in room.known:
        candidate = _candidate(room.gate, room.parents[parent], parent)
        found = _prints(room, Subject(candidate=candidate, role="launcher"), ranged)
        if found is None:
            raise SystemExit(f"the {parent} of {room.gate.task.name} does not build")
        room.known[key] = found
    return room.known[key]


def _prints(room: Desk, subject: Subject, ranged: bool) -> Prints | None:
    """Of the declared cases, or of every row count of the declared range; None: does not build."""
    bench = room.gate.bench
    cases = list(declared_range.range_cases(bench.task)) if ranged else list(room.cases)
    texts: dict[str, str] = {}
    codes: dict[str, str] = {}
    for part in chunks(cases, 2000):
        if bench.prepare(subject, part).status is not None:
            return None
        for case in part:
            plan = subject.plans[case.id] if not ranged else subject.plans.pop(case.id)
            texts[case.id] = _print(room, subject, plan, text=True)
            codes[case.id] = _print(room, subject, plan, text=False)
    return Prints(texts=texts, codes=codes)


def _print(room: Desk, subject: Subject, plan: Plan, *, text: bool) -> str:
    objects = room.gate.bench.objects

    def named(class_id: str) -> str:
        if not text:
            return objects[subject.object_of[class_id]][0].code_hash
        if class_id not in room.digests:
            one = subject.classes[class_id]
            whole = f"{one.options} {one.specialisation} {settled(one.ttir)}"
            room.digests[class_id] = hashlib.sha256(whole.encode()).hexdigest()
        return room.digests[class_id]

    launches = [
        (named(one.plan_class), named(one.plan_class_unaligned), one.grid, one.args)
        for one in plan.launches
    ]
    whole = repr((plan.buffers, launches, plan.outputs))
    return hashlib.sha256(whole.encode()).hexdigest()


def settled(ttir: str) -> str:
    """Canonical TTIR with each constant written where it is used: where and in which order
    constants are declared says nothing."""
    constants: dict[str, str] = {}
    lines = []
    for line in canonical(ttir).splitlines():
        found = _CONSTANT.match(line)
        if found:
            constants[found[1]] = f"<{found[2]}>"
        else:
            lines.append(line)
    text = "\n".join(lines)
    return canonical(_VALUE.sub(lambda m: constants.get(m.group(), m.group()), text))


# --------------------------------------------------------------------------------- by tolerance


def _by_tolerance(room: Desk, subject: Subject, found: Mapping[str, Any]) -> dict[str, Any] | None:
    """By rule: whether tolerance sees it; None where there is nothing to compare."""
    if found["outcome"] in ("equivalent", "not built"):
        return None
    if found["message"].startswith("machine code"):
        return room.tolerance.nothing()
    return room.tolerance.judge(subject)


def _candidate(gate: Gate, source: str, name: str) -> Candidate:
    return new_candidate(
        source, gate.task.name, author="mutant", parents=(gate.seed.id,), changes=(name,)
    )
