"""What observed runs say: programs that race, accesses out of bounds, loops that nobody ends.

An observed run is the same TTIR in another build, which keeps for every byte which programs
touched it (:mod:`kernelsmith.devices.cpu.observe`). It is asked for in four places: by determinism
and memory, for the declared cases; before a kernel with a ``while`` loop is run at all; after a run
that crashed, hung or gave other bits, to say why; and by confirm, for the hidden cases.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kernelsmith import cases as forms
from kernelsmith.gate import plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.observed_run import observe
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Ask, Execution, Observed, Outcome, Subject
from kernelsmith.model import Case, Finding, FindingKind, Status, Task, sentence

RACES: tuple[FindingKind, ...] = ("float_atomic", "race", "atomic_order")
BOUNDS: tuple[FindingKind, ...] = ("out_of_bounds", "gap", "unwritten")
LOOPS: tuple[FindingKind, ...] = ("spin", "endless", "unfinished")
STATUS_OF: tuple[tuple[tuple[FindingKind, ...], Status], ...] = (
    (RACES, "NONDETERMINISTIC"),
    (BOUNDS, "MEMORY"),
    (LOOPS, "TIMEOUT"),
)
TOLD_MAX = 20
PATIENCE_S = 5.0
"""For a look at what hung already: a loop that spins is known after a few turns."""
LARGE_BYTES = 64 * 2**20
RAGGED = 16
"""A size that is no multiple of this ends in a tail of lanes that are masked off."""


def all_of(bench: Bench, reference: Reference, subject: Subject) -> list[Observed] | Outcome:
    """Observes the subject once, on the cases of :func:`chosen`; later calls give the same.

    Cases that make the same launches of the same kernels as one that was clean are not repeated.
    """
    if not bench.observes:
        return []
    if subject.observed is not None:
        return subject.observed
    cases = [
        case for case in chosen(bench.task, subject) if _launched(subject, case) not in bench.clean
    ]
    asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in cases]
    seconds = sum(reference.seconds.get(case.id, 0.0) for case in cases)
    found = observe(bench, subject, asks, seconds_expected=seconds) if asks else []
    if not isinstance(found, Outcome):
        subject.observed = found
    return found


def same_bits(
    bench: Bench, reference: Reference, subject: Subject, found: Iterable[Observed]
) -> Outcome:
    """Of a subject that has the seed's bits: so must have its observed runs, where nothing was
    found. If not, the device lowers this kernel in two ways that differ, which is its own fault;
    the kernel cannot be judged on it, as if it did not compile."""
    for one in found:
        if one.findings:
            continue
        if one.outputs != tuple(reference.outputs(one.case)):
            return _other_bits(one.case)
        bench.clean[_launched(subject, one.case)] = None
    return Outcome()


def _other_bits(case: Case) -> Outcome:
    return Outcome(
        status="COMPILE",
        message=f"case {case.id}: the observing build computes other bits than the kernel does, "
        "which is the device's own fault: please report it",
        evidence={"case": case.id},
    )


def judged(task: Task, found: Iterable[Observed], kinds: Sequence[FindingKind]) -> Outcome:
    """The first finding of these kinds as an outcome; all are told in its evidence."""
    told = [
        (one.case, finding)
        for kind in kinds
        for one in found
        for finding in one.findings
        if finding.kind == kind
    ]
    if not told:
        return Outcome()
    case, first = told[0]
    lines = [f"case {case.id}: {sentence(_named(task, case, one))}" for case, one in told]
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return Outcome(
        status=next(status for group, status in STATUS_OF if first.kind in group),
        message=f"{lines[0]}{more}",
        evidence={
            "case": case.id,
            "kind": first.kind,
            "kernel": first.kernel,
            "line": first.line,
            "program": list(first.program),
            "buffer": _named(task, case, first).buffer,
            "bytes": [first.begin, first.end],
            "findings": lines[:TOLD_MAX],
            "count": len(told),
        },
    )


def _named(task: Task, case: Case, finding: Finding) -> Finding:
    """The finding with an output under its own name."""
    word, _, number = finding.buffer.partition(" ")
    if word != "output" or not number.isdecimal():
        return finding
    return replace(finding, buffer=f"output {task.call(case.call).outputs[int(number)].name}")


def before_running(
    bench: Bench, reference: Reference, subject: Subject, cases: Sequence[Case] | None = None
) -> tuple[Case | None, Outcome]:
    """Observes kernels that hold a ``while`` loop, in these cases or in those of :func:`chosen`;
    the first case in which one never ends, which a run would only find out by its time limit."""
    looping = [
        case
        for case in cases or bench.task.cases
        if any("scf.while" in text for text in _texts(subject, case))
    ]
    if not looping or not bench.observes:
        return None, Outcome()
    if cases is None:
        found = all_of(bench, reference, subject)
    else:
        asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in looping]
        found = observe(bench, subject, asks, patience_s=PATIENCE_S)
    if isinstance(found, Outcome):
        return None, Outcome()
    for one in found:
        outcome = judged(bench.task, [one], ("spin", "endless"))
        if outcome.status is not None:
            return one.case, outcome
    return None, Outcome()


def explain(
    bench: Bench, reference: Reference, subject: Subject, name: str, found: Outcome
) -> tuple[str, Outcome]:
    """What stands behind a run that failed: the check and outcome to record instead, or those given
    if observing the same case shows nothing.

    Other bits are looked into only where the kernel's own repeat differs, or where it changes
    memory atomically: all else would cost a build to learn nothing.
    """
    case = None if "findings" in found.evidence else _failed_case(bench.task, subject, found)
    if case is None or not bench.observes:
        return name, found
    ask = Ask(key=case.id, case=case, inputs=reference.inputs(case))
    if found.status not in ("CRASH", "TIMEOUT") and not _restless(bench, subject, ask):
        return name, found
    seen = observe(bench, subject, [ask], patience_s=PATIENCE_S)
    if isinstance(seen, Outcome):
        return name, found
    order = {"CRASH": (*BOUNDS, *RACES), "TIMEOUT": (*LOOPS, *RACES, *BOUNDS)}
    why = judged(bench.task, seen, order.get(str(found.status), (*RACES, *BOUNDS)))
    if why.status is None:
        return name, found
    evidence = {**why.evidence, "seen": f"{name}: {found.status}: {found.message}"}
    check = {"NONDETERMINISTIC": "determinism", "MEMORY": "memory"}.get(str(why.status), name)
    return check, replace(why, evidence=evidence)


def chosen(task: Task, subject: Subject) -> list[Case]:
    """The cases to observe, cheapest first: in each regime, since values may decide what is
    touched, one of those that launch the same kernels on the same grids and buffers. Of those with
    arguments of more than LARGE_BYTES only what :func:`telling` needs; what a candidate allocates
    does not count, or it could choose."""
    needed = {case.id for case in telling(task, subject)}
    found: dict[str, Case] = {}
    for case in sorted(task.cases, key=lambda case: (forms.cost(task, case), case.id)):
        given = sum(buffer.nbytes for buffer in subject.plans[case.id].buffers if buffer.arg)
        if given > LARGE_BYTES and case.id not in needed:
            continue
        key = f"{case.call} {case.regime} {_launches(subject, case)}"
        found.setdefault(case.id if case.id in needed else key, case)
    return list({case.id: case for case in found.values()}.values())


def telling(task: Task, subject: Subject) -> list[Case]:
    """Cases that together launch every compiled kernel in every call form, each with more than one
    program where there is such a case; of every call form also one with a ragged size and one with
    padded rows. The cheapest each, cheapest first."""
    best: dict[tuple[str, ...], tuple[bool, tuple[float, str], Case]] = {}
    for case in task.cases:
        plan = subject.plans[case.id]
        grids = [launch.grid[0] * launch.grid[1] * launch.grid[2] for launch in plan.launches]
        if not any(grids):
            continue
        cost = (forms.cost(task, case), case.id)
        keys: list[tuple[tuple[str, ...], bool]] = [
            ((case.call, subject.object_of[launch.plan_class]), programs < 2)
            for launch, programs in zip(plan.launches, grids, strict=True)
        ]
        if any(size % RAGGED for _, size in case.dims):
            keys.append(((case.call, "ragged"), max(grids) < 2))
        if case.row_stride_pad:
            keys.append(((case.call, "padded"), max(grids) < 2))
        for key, alone in keys:
            rank = (alone, cost, case)
            if key not in best or rank[:2] < best[key][:2]:
                best[key] = rank
    found = {case.id: (cost, case) for _, cost, case in best.values()}
    return [case for _, case in sorted(found.values(), key=lambda pair: pair[0])]


def drawn(
    bench: Bench,
    reference: Reference,
    subject: Subject,
    cases: Sequence[Case],
    expected: Sequence[Execution],
) -> Outcome:
    """Observes cases that were drawn after the candidate was frozen: UNCONFIRMED by any finding, or
    by other bits than the seed's.

    ``expected``: what the seed gave for them."""
    if not bench.observes:
        return Outcome()
    asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in cases]
    seconds = sum(execution.seconds for execution in expected)
    found = observe(bench, subject, asks, seconds_expected=seconds)
    if isinstance(found, Outcome):
        outcome = found
    else:
        outcome = judged(bench.task, found, (*RACES, *BOUNDS, *LOOPS))
        for one, wanted in zip(found, expected, strict=True):
            if outcome.status is None and one.outputs != wanted.outputs:
                outcome = _other_bits(one.case)
    if outcome.status is None:
        return outcome
    return replace(outcome, status="UNCONFIRMED", message=f"hidden shape: {outcome.message}")


def _restless(bench: Bench, subject: Subject, ask: Ask) -> bool:
    """Whether a case's own bits change with the order of programs and what memory held."""
    if any("tt.atomic" in text for text in _texts(subject, ask.case)):
        return True
    other = replace(ask, key=f"{ask.key} again", order="descending", poison=2)
    done = bench.execute(subject, [ask, other])
    return isinstance(done, Outcome) or done[0].outputs != done[1].outputs


def _failed_case(task: Task, subject: Subject, found: Outcome) -> Case | None:
    """The declared case that an outcome is about, if it has a plan and objects."""
    key = str(found.evidence.get("case") or found.evidence.get("where") or "").partition(", ")[0]
    case = next((case for case in task.cases if case.id == key), None)
    if case is None or case.id not in subject.plans:
        return None
    launched = plans.classes_of([subject.plans[case.id]])
    return case if launched <= set(subject.object_of) else None


def _texts(subject: Subject, case: Case) -> list[str]:
    return [subject.classes[launch.plan_class].ttir for launch in subject.plans[case.id].launches]


def _launched(subject: Subject, case: Case) -> str:
    """What decides the addresses that a case touches: a hash of it."""
    text = f"{case.id} {_launches(subject, case)}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _launches(subject: Subject, case: Case) -> str:
    """What decides them but for its inputs."""
    plan = subject.plans[case.id]
    launches = [
        (subject.object_of[launch.plan_class], launch.grid, launch.args) for launch in plan.launches
    ]
    return repr((plan.buffers, launches, plan.outputs))
