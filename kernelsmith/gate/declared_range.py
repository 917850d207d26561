"""declared_range: every row count that the task declares is traced, and every class compiles.

Host code may dispatch on shapes; the classes of a branch that no case takes are met only here, as
are row counts at which the launches do not go on as before (``irregular``). Their bits are compared
in confirm.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from kernelsmith import cases as forms
from kernelsmith.errors import TaskError
from kernelsmith.gate import irregular
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference, chunks
from kernelsmith.gate.subject import Outcome, Subject
from kernelsmith.model import Case, Task


def check(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """Traces each call form, dtype and set of other dims at every M of ``token_range``.

    Raises:
        TaskError: the seed does not handle its own range either.
    """
    found = _walk(bench, subject)
    if found.status is not None:
        at_seed = _walk(bench, reference.seed)
        if at_seed.status is not None:
            raise TaskError(
                f"the seed of task {bench.task.name} fails in its declared range: "
                f"{at_seed.status}: {at_seed.message}",
                hint="narrow token_range, or mend the seed",
            )
        return found
    return found


def _walk(bench: Bench, subject: Subject) -> Outcome:
    traced = 0
    for part in chunks(list(range_cases(bench.task)), bench.limits.range_chunk):
        found = bench.plan(subject, part, keep_plans=False)
        if found.status is not None:
            return found
        traced += len(part)
    found = bench.compile(subject)
    if found.status is not None:
        return found
    return Outcome(
        evidence={
            "traced": traced,
            "token_range": list(bench.task.token_range),
            "classes": len(subject.classes),
            "classes_beyond_cases": len(subject.beyond),
            "irregular_row_counts": sum(
                len(irregular.boundaries(steps)) for steps in subject.steps.values()
            ),
        }
    )


def range_cases(task: Task) -> Iterator[Case]:
    """Every declared row count for each distinct (call, dtype, other dims) of every call form in
    every dtype of the task, whether it has a case of its own or not."""
    low, high = task.token_range
    seen: set[tuple[object, ...]] = set()
    for case in itertools.chain.from_iterable(forms.forms_of(task).values()):
        others = tuple(pair for pair in case.dims if pair[0] != task.token_dim)
        form = (case.call, case.dtype, others)
        if form in seen:
            continue
        seen.add(form)
        for count in range(low, high + 1):
            yield with_tokens(task, case, count, "range")


def with_tokens(task: Task, case: Case, tokens: int, label: str) -> Case:
    """The case at another row count, under another id that says all that its plan hangs on."""
    dims = tuple((n, tokens if n == task.token_dim else v) for n, v in case.dims)
    moved = replace(case, dims=dims, weight=0.0)
    return replace(moved, id=f"{label} {forms.full_id(moved)} {task.token_dim}={tokens}")
