"""cross_path: the same token has the same bits on both paths and in any batch; gradients over
tokens continue from the earlier part's to the same bits.

By output class (design: bits). Rows: every call form of a variant that returns the output, under
the batches of serving, against the training call on the whole batch. Rows of backward: under
other compositions of the batch. Batch outputs: cut at multiples of the token block. Each is
compared with the seed's bytes on the whole batch, which parity has shown to be the subject's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelsmith.errors import TaskError
from kernelsmith.gate import carry, compositions, plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.compare import difference, take_rows
from kernelsmith.gate.compositions import PADDING, Composition
from kernelsmith.gate.parity import note_marks
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Ask, Outcome, Subject, draw_seed
from kernelsmith.model import Call, Case, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One batch to run and the whole batch it is held against."""

    base: Case
    case: Case
    rows: tuple[int, ...]
    how: str


def check(bench: Bench, reference: Reference, subject: Subject) -> Outcome:
    """Runs all pairs that apply; the evidence lists the others.

    Raises:
        TaskError: none applies: an empty comparison must not pass.
    """
    pairs, not_applicable = plan_pairs(bench.task, reference.secret)
    if not pairs:
        raise TaskError(
            f"task {bench.task.name} has no output that both paths or two batches share: "
            f"{'; '.join(not_applicable) or 'no training call has a row output'}"
        )
    found = _rows(bench, reference, subject, pairs)
    if found.status is not None:
        return found
    cut, not_cut = carry.plan_cuts(bench.task)
    found = carry.check(bench, reference, subject, cut)
    if found.status is not None:
        return found
    return Outcome(
        evidence={
            "pairs": len(pairs),
            "cuts": len(cut),
            "not_applicable": [*not_applicable, *not_cut],
        }
    )


def require_seed(bench: Bench, reference: Reference) -> None:
    """Every equality asked of a candidate must hold for the seed first.

    Raises:
        TaskError: it does not; the task's output classes promise what its seed does not keep.
    """
    found = check(bench, reference, reference.seed)
    if found.status is not None:
        raise TaskError(
            f"the seed of task {bench.task.name} fails cross_path: {found.message}",
            hint="the output's class or block in the task does not fit the seed",
        )


def plan_pairs(task: Task, secret: int) -> tuple[list[Pair], list[str]]:
    """Pairs that apply to this task, and what does not apply, in words.

    Raises:
        TaskError: an output class that this version cannot check.
    """
    _refuse_unknown(task)
    pairs: list[Pair] = []
    missing: list[str] = []
    for base_call in task.calls:
        if base_call.path != "train" or not row_names(base_call):
            continue
        bases = base_cases(task, base_call)
        if not bases and not is_carry(task, base_call):
            missing.append(f"{base_call.name}: no case")
        for base in bases:
            pairs += _pairs_of(task, base_call, base, secret)
        alone = row_names(base_call) - {
            name
            for other in task.calls
            if other.path == "infer" and other.variant == base_call.variant
            for name in row_names(other)
        }
        if bases and alone:
            missing.append(
                f"{base_call.name}: no inference call returns {', '.join(sorted(alone))}"
            )
    return pairs, missing


def _pairs_of(task: Task, base_call: Call, base: Case, secret: int) -> list[Pair]:
    tokens = base.dim(task.token_dim)
    seed = draw_seed(secret, "cross_path", base.id)
    pairs = [
        _pair(task, base, base_call, composition)
        for composition in (
            *compositions.recomposed(tokens, seed),
            *compositions.parts(tokens, seed),
        )
    ]
    for other in task.calls:
        if other.path != "infer" or other.variant != base_call.variant:
            continue
        if row_names(other) & row_names(base_call):
            pairs += [
                _pair(task, base, other, composition)
                for composition in compositions.serving(tokens, seed)
            ]
    return pairs


def _pair(task: Task, base: Case, call: Call, composition: Composition) -> Pair:
    case = derived(task, base, call, len(composition.rows), composition.name)
    return Pair(base=base, case=case, rows=composition.rows, how=composition.name)


def derived(task: Task, base: Case, call: Call, tokens: int, label: str) -> Case:
    """The base case's batch called in another form, with another number of tokens."""
    dims = tuple((name, tokens if name == task.token_dim else size) for name, size in base.dims)
    return replace(
        base, id=f"{base.id} > {call.name}, {label}", call=call.name, dims=dims, weight=0.0
    )


def base_cases(task: Task, call: Call) -> list[Case]:
    """The batch that others are held against: for each dtype the smallest of at least 33 tokens,
    else the largest; a second one if the next has another regime."""
    chosen: list[Case] = []
    for dtype in sorted({case.dtype for case in task.cases if case.call == call.name}):
        own = [c for c in task.cases if c.call == call.name and c.dtype == dtype]
        own = [c for c in own if c.dim(task.token_dim) > 0]
        own.sort(key=lambda c: (c.dim(task.token_dim) < 33, c.dim(task.token_dim)))
        if own and own[0].dim(task.token_dim) < 33:
            own = own[::-1]
        chosen += own[:1]
        chosen += [case for case in own[1:] if case.regime != own[0].regime][:1]
    return chosen


def row_names(call: Call) -> set[str]:
    """Names of the outputs that are functions of one token."""
    return {spec.name for spec in call.outputs if spec.cls == "row"}


def is_carry(task: Task, call: Call) -> bool:
    """Whether another call names this one as the form that continues it."""
    return any(spec.carry_call == call.name for other in task.calls for spec in other.outputs)


def _refuse_unknown(task: Task) -> None:
    for call in task.calls:
        for spec in call.outputs:
            if spec.cls == "sequence":
                raise TaskError(
                    f"task {task.name}: output {spec.name} has class sequence, which the gate "
                    "cannot check yet"
                )
            if spec.cls == "row" and (not spec.shape or spec.shape[0] != task.token_dim):
                raise TaskError(
                    f"task {task.name}: row output {spec.name} of {call.name} must have "
                    f"{task.token_dim} as its first dimension, not {list(spec.shape)}"
                )


def _rows(bench: Bench, reference: Reference, subject: Subject, pairs: Sequence[Pair]) -> Outcome:
    reference.compute({pair.base.id: pair.base for pair in pairs}.values())
    found = bench.prepare(subject, [pair.case for pair in pairs])
    if found.status is not None:
        return found
    asks = [
        Ask(
            key=pair.case.id,
            case=pair.case,
            inputs=reference.inputs(pair.case, of=pair.base, rows=pair.rows),
        )
        for pair in pairs
    ]
    expected_s = sum(reference.seconds[pair.base.id] for pair in pairs)
    done = bench.execute(subject, asks, seconds_expected=expected_s)
    if isinstance(done, Outcome):
        return done
    for pair, execution in zip(pairs, done, strict=True):
        note_marks(subject, execution.key, execution.canaries, execution.changed_inputs)
        found = compare_rows(bench.task, reference, pair, execution.outputs)
        if found.status is not None:
            return found
    return Outcome()


def compare_rows(
    task: Task, reference: Reference, pair: Pair, outputs: tuple[bytes, ...]
) -> Outcome:
    """Each token's row outputs against its row in the base batch."""
    base_call, call = task.call(pair.base.call), task.call(pair.case.call)
    whole = {
        spec.name: (spec, data)
        for spec, data in zip(base_call.outputs, reference.outputs(pair.base), strict=True)
    }
    kept = tuple(index for index, row in enumerate(pair.rows) if row != PADDING)
    for spec, data in zip(call.outputs, outputs, strict=True):
        if spec.cls != "row" or spec.name not in whole:
            continue
        base_spec, base_data = whole[spec.name]
        base_meta = plans.output_meta(base_spec, pair.base)
        meta = plans.output_meta(spec, pair.case)
        want = take_rows(
            base_data, base_meta.shape, base_meta.dtype, tuple(pair.rows[i] for i in kept)
        )
        have = take_rows(data, meta.shape, meta.dtype, kept)
        shape = (len(kept), *meta.shape[1:])
        found = difference(want, have, shape=shape, dtype=meta.dtype)
        if found is not None:
            token = pair.rows[kept[found.first_index[0]]]
            return Outcome(
                status="PATHS_DIFFER",
                message=f"case {pair.case.id}, output {spec.name}, token {token} of "
                f"{pair.base.id}: {found.line()}",
                evidence={
                    "case": pair.base.id,
                    "against": pair.case.id,
                    "output": spec.name,
                    "token": token,
                    **found.evidence(),
                },
            )
    return Outcome()
