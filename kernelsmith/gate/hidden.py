"""Hidden shapes: cases drawn after a candidate was frozen, so that nothing could be fitted to
them. Their bits are compared with the seed's on both paths, and the entry is run for real."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelsmith.errors import EvidenceError
from kernelsmith.gate import irregular
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import Ask, Outcome, Subject, draw_seed, failed
from kernelsmith.model import Case, Task


def draw_cases(task: Task, per_call: int, seed: int) -> list[Case]:
    """``per_call`` cases for each call form and dtype that the task has cases of.

    The row count is log-uniform over ``token_range``, the dims in ``ranges`` uniform over their
    values, regime and row padding those of the task's own cases of that form. Deterministic in
    ``seed``.
    """
    draw = np.random.default_rng(seed)
    low, high = task.token_range
    forms: dict[tuple[str, str], list[Case]] = {}
    for case in task.cases:
        forms.setdefault((case.call, case.dtype), []).append(case)
    found: list[Case] = []
    for (call, dtype), own in sorted(forms.items()):
        for number in range(per_call):
            like = own[int(draw.integers(len(own)))]
            tokens = round(math.exp(draw.uniform(math.log(max(low, 1)), math.log(high))))
            dims = dict(like.dims)
            for name, values in task.ranges:
                if name in dims:
                    dims[name] = int(values[int(draw.integers(len(values)))])
            dims[task.token_dim] = min(max(tokens, low), high)
            size = " ".join(f"{name}={value}" for name, value in dims.items())
            found.append(
                replace(
                    like,
                    id=f"hidden {number} {call} {dtype} {size}",
                    dims=tuple(dims.items()),
                    weight=0.0,
                )
            )
    return found


def draw_beyond(subject: Subject, seed: int) -> list[Case]:
    """For each plan class that only the declared range takes, one case that takes it; and the
    cases on both sides of each irregular step of the launches (see ``irregular``)."""
    draw = np.random.default_rng((seed, 1))
    chosen = {}
    for class_id in sorted(subject.beyond):
        cases = subject.beyond[class_id]
        case = cases[int(draw.integers(len(cases)))]
        chosen[case.id] = replace(case, weight=0.0)
    for steps in subject.steps.values():
        for case in irregular.boundaries(steps):
            chosen[case.id] = replace(case, weight=0.0)
    return list(chosen.values())


def check_bits(
    bench: Bench, reference: Reference, subject: Subject, cases: Sequence[Case]
) -> Outcome:
    """Candidate against seed on hidden shapes and inputs nobody has seen."""
    found = bench.prepare(subject, cases)
    if found.status is not None:
        return replace(found, status="UNCONFIRMED", message=f"hidden shape: {found.message}")
    asks = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in cases]
    expected = reference.fresh(asks)
    done = bench.execute(
        subject, asks, seconds_expected=sum(execution.seconds for execution in expected)
    )
    if isinstance(done, Outcome):
        return replace(done, status="UNCONFIRMED", message=f"hidden shape: {done.message}")
    for case, want, have in zip(cases, expected, done, strict=True):
        found = compare(bench.task, case, want.outputs, have.outputs, status="UNCONFIRMED", how="")
        if found.status is not None:
            return found
        if have.canaries or have.changed_inputs:
            touched = ", ".join((*have.canaries, *have.changed_inputs))
            return Outcome(
                status="UNCONFIRMED", message=f"case {case.id}: writes outside outputs: {touched}"
            )
    return Outcome(evidence={"hidden": [case.id for case in cases]})


def check_real(bench: Bench, subject: Subject, cases: Sequence[Case]) -> Outcome:
    """Runs the entries on real tensors (launches only recorded): they must make the launches
    that the trace on tensors without data made."""
    result = bench.trace(subject, cases, real=True)
    if result.failure is not None:
        found = failed(result.failure)
        return replace(found, status="UNCONFIRMED", message=f"run for real: {found.message}")
    for case in cases:
        plan = result.plans.get(case.id)
        if plan is None:
            raise EvidenceError(f"case {case.id}: the run for real came back without its plan")
        traced = subject.plans[case.id]
        if plan != traced:
            return Outcome(
                status="UNCONFIRMED",
                message=f"case {case.id}: run for real, the entry makes "
                f"{_where_plans_differ(traced, plan)} than when it is traced",
                evidence={"case": case.id},
            )
    return Outcome(evidence={"real": len(cases)})


def hidden_seed(secret: int, candidate: str) -> int:
    """Nobody can know it before the candidate's source is fixed."""
    return draw_seed(secret, "hidden", candidate)


def _where_plans_differ(traced: object, real: object) -> str:
    for name in ("buffers", "launches", "outputs"):
        a, b = getattr(traced, name), getattr(real, name)
        if a == b:
            continue
        if len(a) != len(b):
            return f"{len(b)} instead of {len(a)} {name}: others"
        number = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
        return f"another {name.removesuffix('es').removesuffix('s')} {number}"
    return "another plan"
