"""Winner against seed, case by case, in the gate's own workers; nothing stops at the first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.errors import TaskError
from kernelsmith.gate import policy_check
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference, chunks, compare
from kernelsmith.gate.subject import Ask, Execution, Outcome, Subject
from kernelsmith.library import digests
from kernelsmith.library.findings import Drift, Kind
from kernelsmith.model import Candidate, Case, Task, seed_candidate

CHUNK = 16
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """``holds`` None: nothing was shown; ``cases``: those that were compared, by id."""

    holds: bool | None
    cases: Mapping[str, bool]
    drifts: tuple[Drift, ...]


def with_seed(bench: Bench, winner: Subject, secret: int) -> Compared:
    """Whether the winner has its seed's bytes on fresh inputs, for every case of the task.

    Args:
        bench: of the task, whose seed is compared with.
        winner: its plans and objects are made as far as it lacks them.
        secret: draws the inputs.
    """
    task = bench.task
    kinds: tuple[tuple[Candidate, Kind], ...] = (
        (seed_candidate(task), "seed_fails"),
        (winner.candidate, "kernel_fails"),
    )
    for candidate, kind in kinds:
        found = policy_check.check(task, candidate)
        if found.status is not None:
            return _failed(kind, found)
    reference = Reference(bench, Subject(candidate=seed_candidate(task), role="seed"), secret)
    try:
        reference.prepare(task.cases)
        reference.compute(task.cases)
    except TaskError as error:
        return _failed("seed_fails", Outcome(message=error.message))
    found = bench.prepare(winner, task.cases)
    if found.status is not None:
        return _failed("kernel_fails", found)
    cases: dict[str, bool] = {}
    drifts: list[Drift] = []
    for part in chunks(task.cases, CHUNK):
        asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in part]
        expected_s = sum(reference.seconds[case.id] for case in part)
        done = bench.execute(winner, asks, seconds_expected=expected_s)
        if isinstance(done, Outcome):
            failed = _failed("kernel_fails", done)
            at = {each.case: False for each in failed.drifts if each.case}
            return Compared(holds=False, cases={**cases, **at}, drifts=(*drifts, *failed.drifts))
        for case, execution in zip(part, done, strict=True):
            own = list(_case_drifts(task, case, reference.outputs(case), execution))
            cases[case.id] = not own
            drifts += own
    holds = all(cases.values()) if cases else None
    return Compared(holds=holds, cases=cases, drifts=tuple(drifts))


def with_digests(
    bench: Bench,
    winner: Subject,
    expected: Mapping[str, Mapping[str, str]],
    digest_seed: int,
) -> Compared:
    """Whether the winner's bytes on public inputs are those of its certificate."""
    task = bench.task
    found = digests.outputs(bench, winner, task.cases, digest_seed)
    if isinstance(found, Outcome):
        return Compared(holds=False, cases={}, drifts=())  # it is named where it was compared
    actual = digests.digests(task, found)
    drifts = []
    cases = {}
    for case in task.cases:
        want, have = expected.get(case.id, {}), actual[case.id]
        cases[case.id] = want == have
        for output in sorted({*want, *have}):
            if want.get(output) != have.get(output):
                drifts.append(_digest_drift(task, case, output, want, have))
    surplus = sorted(set(expected) - set(actual))
    drifts += [
        Drift(
            kind="digest",
            expected=NONE,
            actual=name,
            message=f"the certificate has digests of {name}, which is no case of its task",
        )
        for name in surplus
    ]
    holds = all(cases.values()) and not surplus if cases else None
    return Compared(holds=holds, cases=cases, drifts=tuple(drifts))


def path_of(task: Task, case: Case) -> str:
    """The path that a case is on."""
    return task.call(case.call).path


def _case_drifts(
    task: Task, case: Case, expected: Sequence[bytes], execution: Execution
) -> Iterator[Drift]:
    path = path_of(task, case)
    found = compare(task, case, tuple(expected), execution.outputs, status="BITS_DIFFER")
    if found.status is not None:
        evidence = found.evidence
        yield Drift(
            kind="bits",
            case=case.id,
            path=path,
            output=evidence["output"],
            expected=evidence["expected_bits"],
            actual=evidence["actual_bits"],
            message=found.message,
        )
    for touched in (*execution.canaries, *execution.changed_inputs):
        yield Drift(
            kind="memory",
            case=case.id,
            path=path,
            expected="only its outputs written",
            actual=touched,
            message=f"case {case.id}: writes outside its outputs: {touched}",
        )


def _digest_drift(
    task: Task, case: Case, output: str, want: Mapping[str, str], have: Mapping[str, str]
) -> Drift:
    return Drift(
        kind="digest",
        case=case.id,
        path=path_of(task, case),
        output=output,
        expected=want.get(output, NONE),
        actual=have.get(output, NONE),
        message=f"case {case.id}, output {output}: other bytes than were certified",
    )


def _failed(kind: Kind, found: Outcome) -> Compared:
    where = str(found.evidence.get("where", ""))
    words = f"{found.status}: {found.message}" if found.status else found.message
    drift = Drift(
        kind=kind,
        case=where,
        expected="runs",
        actual=str(found.status or "fails"),
        message=words,
    )
    holds = None if kind == "seed_fails" else False
    return Compared(holds=holds, cases={}, drifts=(drift,))
