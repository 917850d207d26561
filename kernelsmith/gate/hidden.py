"""Hidden shapes: cases drawn after a candidate was frozen, so that nothing could be fitted to
them. Their bits are compared with the seed's on both paths, and the entry is run for real."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelsmith import cases as forms
from kernelsmith.errors import EvidenceError
from kernelsmith.gate import irregular, observed, strides
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.reference import Reference, compare
from kernelsmith.gate.subject import CO_RUNNERS, Ask, Execution, Outcome, Subject, draw_seed, failed
from kernelsmith.model import Case, Task

SCALES = (1.0, 10.0, 1000.0)
"""What float scalars are multiplied by: what is fitted to the declared value shows at another."""
SAME_CLASS_PAD = 64
"""Rows so many elements longer have strides as divisible as before: no other code is made."""


def draw_cases(task: Task, per_call: int, seed: int) -> list[Case]:
    """``per_call`` cases for each call form in each dtype that the task has cases in.

    The row count is log-uniform over ``token_range``, the dims in ``ranges`` uniform over their
    values, the regime that of one of the form's cases, row padding and float scalars drawn anew.
    Deterministic in ``seed``. An id says all that the plan hangs on and the draw it is of, so
    that no plan of another draw is taken for it.
    """
    draw = np.random.default_rng(seed)
    low, high = task.token_range
    found: list[Case] = []
    for _, own in sorted(forms.forms_of(task).items()):
        for number in range(per_call):
            like = own[int(draw.integers(len(own)))]
            tokens = round(math.exp(draw.uniform(math.log(max(low, 1)), math.log(high))))
            dims = dict(like.dims)
            for name, values in task.ranges:
                if name in dims:
                    dims[name] = int(values[int(draw.integers(len(values)))])
            dims[task.token_dim] = min(max(tokens, low), high)
            case = replace(like, dims=tuple(dims.items()), weight=0.0)
            case = vary(task, case, draw)
            found.append(
                replace(case, id=f"hidden {number} {forms.full_id(case)} {seed & 0xFFFFFFFF:08x}")
            )
    return found


def vary(task: Task, case: Case, draw: np.random.Generator) -> Case:
    """The case with drawn row padding (none, whole rows, multiples of 8 or any; of all arguments
    or one) and drawn float scalars (the declared value times a power of ten)."""
    args = task.call(case.call).args
    last = [case.dim(a.shape[-1]) for a in args if a.shape and isinstance(a.shape[-1], str)]
    whole = max((size for size in last if size > 0), default=8)
    pads = (0, case.row_stride_pad, whole, 8 * int(draw.integers(1, 65)), int(draw.integers(1, 65)))
    pad = pads[int(draw.integers(len(pads)))]
    wide = [arg.name for arg in args if arg.kind == "tensor" and len(arg.shape) > 1]
    one = wide[int(draw.integers(len(wide)))] if pad and wide and draw.integers(2) else ""
    scalars = tuple(
        (arg.name, arg.value * SCALES[int(draw.integers(len(SCALES)))])
        for arg in args
        if arg.kind == "float" and isinstance(arg.value, float)
    )
    return replace(case, row_stride_pad=pad, padded_arg=one, scalars=scalars)


def draw_beyond(subject: Subject, seed: int) -> list[Case]:
    """For each plan class that only the declared range takes, one case that takes it; and the
    cases on both sides of irregular steps of the launches (see ``irregular``)."""
    draw = np.random.default_rng((seed, 1))
    chosen = {}
    for class_id in sorted(subject.beyond):
        cases = subject.beyond[class_id]
        case = cases[int(draw.integers(len(cases)))]
        chosen[case.id] = replace(case, weight=0.0)
    for steps in subject.steps.values():
        for case in irregular.boundaries(steps, draw):
            chosen[case.id] = replace(case, weight=0.0)
    return list(chosen.values())


def check_bits(
    bench: Bench, reference: Reference, subject: Subject, cases: Sequence[Case]
) -> Outcome:
    """Candidate against seed on hidden shapes and inputs nobody has seen.

    Shapes that were drawn, and one of each class that no case takes, are run in three ways and
    observed: no other check meets those classes.
    """
    found = bench.prepare(subject, cases)
    if found.status is None:
        found = _check_strides(bench, subject, cases)
    if found.status is not None:
        return replace(found, status="UNCONFIRMED", message=f"hidden shape: {found.message}")
    plain = [Ask(key=case.id, case=case, inputs=reference.inputs(case)) for case in cases]
    expected = reference.fresh(plain)
    seconds = sum(execution.seconds for execution in expected)
    order = f"shuffled:{draw_seed(reference.secret, 'hidden order') & 0xFFFF}"
    if bench.task.device == "cuda":
        order = f"beside:{CO_RUNNERS}"  # others; a GPU's programs have no order to choose
    off = {"misalign_bytes": 8}
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("", {}),
        (f", programs {order.partition(':')[0]}, pointers 8 bytes off", {"order": order, **off}),
        (", other poison, scratch left by an earlier call", {"poison": 2, "stale": True}),
    )
    beyond = _first_of_each_class(subject, cases)
    for how, changes in ways:
        chosen = [i for i, case in enumerate(cases) if not how or case.id in beyond]
        asks = [replace(plain[i], **changes) for i in chosen]
        done = bench.execute(subject, asks, seconds_expected=2 * seconds)
        if isinstance(done, Outcome):
            return replace(done, status="UNCONFIRMED", message=f"hidden shape: {done.message}")
        found = compare_runs(
            bench.task, [cases[i] for i in chosen], [expected[i] for i in chosen], done, how
        )
        if found.status is not None:
            return found
    found = observed.drawn(bench, reference, subject, cases, expected)
    if found.status is not None:
        return found
    return Outcome(evidence={"hidden": [case.id for case in cases]})


def _check_strides(bench: Bench, subject: Subject, cases: Sequence[Case]) -> Outcome:
    """What kernels do with strides, those included that no declared case launches."""
    moved = [
        replace(case, id=f"{case.id} moved", row_stride_pad=case.row_stride_pad + SAME_CLASS_PAD)
        for case in cases
    ]
    found = bench.plan(subject, moved)
    if found.status is not None:
        return found
    return strides.check(subject, zip(cases, moved, strict=True))


def _first_of_each_class(subject: Subject, cases: Sequence[Case]) -> set[str]:
    """Ids of drawn cases, and of the first case that takes each class of none before it."""
    seen: set[str] = set()
    found: set[str] = set()
    for case in cases:
        taken = {launch.plan_class for launch in subject.plans[case.id].launches}
        if case.id.startswith("hidden") or taken - seen:
            found.add(case.id)
        seen |= taken
    return found


def compare_runs(
    task: Task,
    cases: Sequence[Case],
    expected: Sequence[Execution],
    done: Sequence[Execution],
    how: str,
) -> Outcome:
    """The first case whose bits differ from the seed's, or that wrote where it must not."""
    for case, want, have in zip(cases, expected, done, strict=True):
        found = compare(task, case, want.outputs, have.outputs, status="UNCONFIRMED", how=how)
        if found.status is not None:
            return found
        if have.canaries or have.changed_inputs:
            touched = ", ".join((*have.canaries, *have.changed_inputs))
            return Outcome(
                status="UNCONFIRMED",
                message=f"case {case.id}{how}: writes outside outputs: {touched}",
            )
    return Outcome()


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
