"""parity.train, parity.infer: every byte of every output of every case is the seed's."""

import math
from collections.abc import Iterator, Sequence

from kernelsmith import cases as forms
from kernelsmith.errors import TaskError
from kernelsmith.gate import observed, plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import Ask, Outcome, Subject
from kernelsmith.model import Case, PathName


def check(bench: Bench, reference: Reference, subject: Subject, path: PathName) -> Outcome:
    """Runs the task's cases of one path, cheapest first, in jobs of growing size: a wrong
    candidate is out after its first case, a right one needs few jobs.

    Raises:
        TaskError: the task has no case on this path: an empty comparison must not pass.
    """
    task = bench.task
    cases = [case for case in task.cases if task.call(case.call).path == path]
    if not cases:
        raise TaskError(f"task {task.name} has no case on the {path} path")
    reference.compute(cases)
    endless, found = observed.before_running(bench, reference, subject)
    if endless is not None:
        return found
    cases.sort(key=lambda case: (forms.cost(task, case), case.id))
    for part in growing(cases):
        found = compare_cases(bench, reference, subject, part)
        if found.status is not None:
            return found
    elements = sum(
        math.prod(plans.output_meta(spec, case).shape)
        for case in cases
        for spec in task.call(case.call).outputs
    )
    return Outcome(evidence={"cases": len(cases), "elements": elements})


def compare_cases(
    bench: Bench, reference: Reference, subject: Subject, cases: Sequence[Case]
) -> Outcome:
    """Runs these cases in one job and compares them in order."""
    asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in cases]
    expected_s = sum(reference.seconds[case.id] for case in cases)
    done = bench.execute(subject, asks, seconds_expected=expected_s)
    if isinstance(done, Outcome):
        return done
    for case, execution in zip(cases, done, strict=True):
        note_marks(subject, execution.key, execution.canaries, execution.changed_inputs)
        found = compare(
            bench.task, case, reference.outputs(case), execution.outputs, status="BITS_DIFFER"
        )
        if found.status is not None:
            return found
    return Outcome()


def growing(cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """Slices of 1, 8, 64, … cases."""
    begin, size = 0, 1
    while begin < len(cases):
        yield cases[begin : begin + size]
        begin, size = begin + size, size * 8


def note_marks(
    subject: Subject, key: str, canaries: tuple[str, ...], changed: tuple[str, ...]
) -> None:
    """Keeps what a run wrote outside its buffers, for the memory check to judge."""
    subject.marks.extend(f"{key}: wrote past {where}" for where in canaries)
    subject.marks.extend(f"{key}: changed input {name}" for name in changed)
