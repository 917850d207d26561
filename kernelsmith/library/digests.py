"""What a kernel computes on inputs that anybody can draw again, and in which plan classes.

Everything runs in the gate's own workers, behind the wall. The same functions make a certificate
and check one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from kernelsmith import cases as forms
from kernelsmith.devices.canonical import canonical as devices_canonical
from kernelsmith.devices.cpu.epoch import canonical as cpu_canonical
from kernelsmith.errors import EvidenceError
from kernelsmith.gate import declared_range, determinism
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import chunks
from kernelsmith.gate.subject import Ask, Outcome, Subject
from kernelsmith.library.certificate import PlanClassFacts
from kernelsmith.model import Case, Inputs, PlanClass, Task

CHUNK = 16
RANGE_CHUNK = 2000


def inputs(task: Task, case: Case, digest_seed: int) -> Inputs:
    """The inputs of a case: they follow from the case and a public number."""
    return forms.inputs_for(task, case, forms.case_seed(digest_seed, case))


def outputs(
    bench: Bench, subject: Subject, cases: Iterable[Case], digest_seed: int
) -> dict[str, tuple[bytes, ...]] | Outcome:
    """Contiguous output bytes by case id; or how the kernel failed.

    The subject's plans and objects are made as far as it lacks them.
    """
    wanted = list(cases)
    found = bench.prepare(subject, wanted)
    if found.status is not None:
        return found
    by_case: dict[str, tuple[bytes, ...]] = {}
    for part in chunks(wanted, CHUNK):
        asks = [
            Ask(key=case.id, case=case, inputs=inputs(bench.task, case, digest_seed))
            for case in part
        ]
        done = bench.execute(subject, asks)
        if isinstance(done, Outcome):
            return done
        by_case.update({execution.key: execution.outputs for execution in done})
    return by_case


def digests(task: Task, by_case: Mapping[str, Sequence[bytes]]) -> dict[str, dict[str, str]]:
    """SHA-256 of each output: case id -> output name -> hex digits."""
    called = {case.id: task.call(case.call) for case in task.cases}
    return {
        case_id: {
            spec.name: hashlib.sha256(data).hexdigest()
            for spec, data in zip(called[case_id].outputs, found, strict=True)
        }
        for case_id, found in by_case.items()
    }


def plan_classes(bench: Bench, subject: Subject) -> dict[str, PlanClass]:
    """Every plan class that the gate's checks decide about, by id: those of the task's cases, of
    each call form with gaps between rows, and of the whole declared range.

    Raises:
        EvidenceError: the kernel no longer traces what it was accepted on.
    """
    task = bench.task
    first = sorted(task.cases, key=lambda case: case.id)
    padded = [one.case for one in determinism.padded(task, first)]
    _require(bench.plan(subject, [*task.cases, *padded]), subject)
    for part in chunks(list(declared_range.range_cases(task)), RANGE_CHUNK):
        _require(bench.plan(subject, part, keep_plans=False), subject)
    return dict(sorted(subject.classes.items()))


def class_facts(plan_class: PlanClass, device: str) -> PlanClassFacts:
    """A plan class as a certificate names it. On a GPU alignment decides the code, so there the
    text's hash holds it."""
    canonical = cpu_canonical if device == "cpu" else devices_canonical
    return PlanClassFacts(
        id=plan_class.id,
        kernel=plan_class.kernel,
        options=plan_class.options,
        specialisation=plan_class.specialisation,
        ttir_sha256=hashlib.sha256(canonical(plan_class.ttir).encode()).hexdigest(),
    )


def _require(found: Outcome, subject: Subject) -> None:
    if found.status is not None:
        raise EvidenceError(
            f"candidate {subject.candidate.id} fails: {found.status}: {found.message}",
            hint="it was accepted before; did the compiler or the device change?",
        )
