"""Batch outputs (gradients summed over tokens): a batch cut at a multiple of the token block, the
second part continuing from the first's sums, gives the whole batch's bits. Other cuts are refused
by the task, not approximated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelsmith.errors import TaskError
from kernelsmith.gate import compositions, plans
from kernelsmith.gate.bench import Bench
from kernelsmith.gate.compare import difference
from kernelsmith.gate.parity import note_marks
from kernelsmith.gate.reference import Reference
from kernelsmith.gate.subject import Ask, Execution, Outcome, Subject
from kernelsmith.model import Call, Case, Inputs, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A batch of ``base`` cut in front of token ``at``: ``first`` runs the earlier part, ``second``
    (in the carry's call form) the rest."""

    base: Case
    first: Case
    second: Case
    at: int


def plan_cuts(task: Task) -> tuple[list[Cut], list[str]]:
    """Cuts to try for each call with batch outputs and dtype, and what does not apply."""
    cuts: list[Cut] = []
    missing: list[str] = []
    for call in task.calls:
        specs = [spec for spec in call.outputs if spec.cls == "batch"]
        continued = {spec.carry_call for spec in specs}
        if not specs or continued == {call.name}:
            continue
        if len(continued) != 1 or None in continued:
            missing.append(f"{call.name}: no call form continues its batch outputs")
            continue
        carry_call = task.call(str(specs[0].carry_call))
        block = _block(task, call)
        for dtype in sorted({case.dtype for case in task.cases if case.call == call.name}):
            base = _base(task, call, dtype, block)
            if base is None:
                missing.append(f"{call.name} {dtype}: no case has more than {block} tokens")
                continue
            tokens = base.dim(task.token_dim)
            for at in compositions.splits(tokens, block):
                cuts.append(
                    Cut(
                        base=base,
                        first=_part(task, base, call, at, f"tokens before {at}"),
                        second=_part(task, base, carry_call, tokens - at, f"tokens from {at}"),
                        at=at,
                    )
                )
    return cuts, missing


def check(bench: Bench, reference: Reference, subject: Subject, cuts: Sequence[Cut]) -> Outcome:
    """Runs both parts of every cut: the second gets the first's sums as bytes."""
    if not cuts:
        return Outcome()
    task = bench.task
    reference.compute({cut.base.id: cut.base for cut in cuts}.values())
    found = bench.prepare(subject, [case for cut in cuts for case in (cut.first, cut.second)])
    if found.status is not None:
        return found
    firsts = bench.execute(subject, [_first(reference, cut) for cut in cuts])
    if isinstance(firsts, Outcome):
        return firsts
    seconds = bench.execute(
        subject,
        [
            _second(task, reference, cut, first, number)
            for number, (cut, first) in enumerate(zip(cuts, firsts, strict=True))
        ],
    )
    if isinstance(seconds, Outcome):
        return seconds
    for done in (*firsts, *seconds):
        note_marks(subject, done.key, done.canaries, done.changed_inputs)
    for cut, second in zip(cuts, seconds, strict=True):
        found = _compare(task, reference, cut, second.outputs)
        if found.status is not None:
            return found
    return Outcome()


def _block(task: Task, call: Call) -> int:
    blocks = {spec.block for spec in call.outputs if spec.cls == "batch"}
    block = next(iter(blocks))
    if len(blocks) != 1 or block is None or block < 1:
        raise TaskError(
            f"task {task.name}: the batch outputs of {call.name} need one block of tokens, "
            f"they have {sorted(map(str, blocks))}"
        )
    return block


def _base(task: Task, call: Call, dtype: str, block: int) -> Case | None:
    """The smallest case of more than two blocks, else the largest of more than one."""
    own = [c for c in task.cases if c.call == call.name and c.dtype == dtype]
    own = sorted(own, key=lambda c: c.dim(task.token_dim))
    wide = [c for c in own if c.dim(task.token_dim) > 2 * block]
    if wide:
        return wide[0]
    return own[-1] if own and own[-1].dim(task.token_dim) > block else None


def _part(task: Task, base: Case, call: Call, tokens: int, label: str) -> Case:
    dims = tuple((name, tokens if name == task.token_dim else size) for name, size in base.dims)
    return replace(
        base, id=f"{base.id} > {call.name}, {label}", call=call.name, dims=dims, weight=0.0
    )


def _first(reference: Reference, cut: Cut) -> Ask:
    inputs = _inputs(reference, cut, cut.first, tuple(range(cut.at)))
    return Ask(key=cut.first.id, case=cut.first, inputs=inputs)


def _second(task: Task, reference: Reference, cut: Cut, first: Execution, number: int) -> Ask:
    tokens = cut.base.dim(task.token_dim)
    inputs = _inputs(reference, cut, cut.second, tuple(range(cut.at, tokens)))
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    for spec, data in zip(task.call(cut.first.call).outputs, first.outputs, strict=True):
        if spec.cls == "batch" and spec.carry is not None:
            names[spec.carry] = f"carry-{number}-{spec.name}.bin"
            files[names[spec.carry]] = data
    lacking = set(names) - {spec.name for spec in inputs.tensors}
    if lacking or not names:
        raise TaskError(
            f"task {task.name}: {cut.second.call} does not take {sorted(lacking) or 'a carry'}"
        )
    tensors = tuple(
        replace(spec, file=names[spec.name]) if spec.name in names else spec
        for spec in inputs.tensors
    )
    return Ask(
        key=cut.second.id,
        case=cut.second,
        inputs=replace(inputs, tensors=tensors),
        files=tuple(files.items()),
    )


def _inputs(reference: Reference, cut: Cut, part: Case, rows: tuple[int, ...]) -> Inputs:
    return reference.inputs(part, of=cut.base, rows=rows)


def _compare(task: Task, reference: Reference, cut: Cut, outputs: tuple[bytes, ...]) -> Outcome:
    whole = {
        spec.name: data
        for spec, data in zip(
            task.call(cut.base.call).outputs, reference.outputs(cut.base), strict=True
        )
    }
    for spec, have in zip(task.call(cut.second.call).outputs, outputs, strict=True):
        if spec.cls != "batch" or spec.name not in whole:
            continue
        meta = plans.output_meta(spec, cut.second)
        found = difference(whole[spec.name], have, shape=meta.shape, dtype=meta.dtype)
        if found is not None:
            return Outcome(
                status="PATHS_DIFFER",
                message=f"case {cut.base.id} cut in front of token {cut.at}, "
                f"output {spec.name}: {found.line()}",
                evidence={
                    "case": cut.base.id,
                    "cut_at": cut.at,
                    "output": spec.name,
                    **found.evidence(),
                },
            )
    return Outcome()
