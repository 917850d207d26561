"""What a task that loads leaves unshown, or what the gate would refuse when a run starts."""

import math
from collections.abc import Iterator

from kernelsmith.authoring.histogram import bytes_of
from kernelsmith.cases import inputs_for
from kernelsmith.catalog import Finding
from kernelsmith.errors import InputError
from kernelsmith.model import ArgSpec, Call, Case, OutputSpec, Task
from kernelsmith.numerics.recipes import draw

MOST_DRAWN_ELEMENTS = 1 << 21
MOST_TOKEN_COUNTS = 1 << 14
MOST_CASE_BYTES = 1 << 31
FLOAT_RECIPES = ("token", "matrix", "vector", "offset")


def soundness(task: Task) -> Iterator[Finding]:
    """Findings about one device's task."""
    for call in task.calls:
        for output in call.outputs:
            yield from _output(task, call, output)
        for arg in call.args:
            yield from _integers(call, arg)
    yield from _paths(task)
    yield from _regimes(task)
    yield from _sizes(task)
    yield from too_large(task)
    yield from _inputs(task)


def _finding(level: str, message: str, hint: str) -> Finding:
    return Finding(level=level, message=message, hint=hint)


def _output(task: Task, call: Call, output: OutputSpec) -> Iterator[Finding]:
    place = f"call {call.name}: output {output.name}"
    if output.cls == "sequence":
        yield _finding(
            "error",
            f"{place} has class sequence, which the gate cannot judge yet: a run would not start",
            'declare it "row" if a token\'s value hangs on that token alone, else leave it out',
        )
    if output.cls == "row" and output.shape[:1] != (task.token_dim,):
        yield _finding(
            "error",
            f"{place} has class row, but its first dimension is not {task.token_dim}",
            f'return it with {task.token_dim} first; a sum over tokens is class = "batch"',
        )
    if output.cls == "batch" and output.block is None:
        yield _finding(
            "warning",
            f"{place} is summed over the batch and has no block and carry: that a batch cut in "
            "two gives the same sums is not checked",
            "give the entry a parameter that takes the sum of the earlier part, and the output "
            'block = 32, carry = "dw_carry", carry_call = "backward_carry"',
        )


def _integers(call: Call, arg: ArgSpec) -> Iterator[Finding]:
    if not arg.dtype.startswith(("int", "uint", "bool")):
        return
    hint = (
        'recipe = "index" draws columns of the call\'s tensor that is drawn by "logits": '
        f"--arg {arg.name}={arg.dtype}[M]@index --arg x=T[M,N]@logits; for other integers there "
        "is no recipe yet"
    )
    if arg.recipe in FLOAT_RECIPES:
        yield _finding(
            "warning",
            f"call {call.name}: {arg.name} holds integers, and the recipe {arg.recipe!r} draws "
            "floats that are cut to them: as indices they are wild",
            hint,
        )
    elif arg.recipe == "zeros":
        yield _finding(
            "warning",
            f"call {call.name}: {arg.name} is zero everywhere: a kernel that does not read it "
            "would pass",
            hint,
        )


def _paths(task: Task) -> Iterator[Finding]:
    cased = {case.call for case in task.cases}
    rows = {
        path: {
            (call.variant, output.name)
            for call in task.calls
            if call.path == path and call.name in cased
            for output in call.outputs
            if output.cls == "row"
        }
        for path in ("train", "infer")
    }
    if not rows["train"]:
        yield _finding(
            "error",
            f"{task.device}: no training call with a row output has a case, and the path of "
            "inference is held against training's bits: a run would not start",
            'give a call with path = "train" and a class "row" output a case; an entry that both '
            "paths share has a call on each, as `tasks new --path ENTRY=train,infer` writes them",
        )
    elif rows["infer"] and not rows["infer"] & rows["train"]:
        names = ", ".join(sorted(name for _, name in rows["infer"]))
        yield _finding(
            "warning",
            f"{task.device}: no row output of inference ({names}) is one of training in the same "
            "variant: that both paths give the same bits is not checked",
            "name what both paths return alike, and give both calls one variant",
        )


def _regimes(task: Task) -> Iterator[Finding]:
    for call in task.calls:
        seen = {case.regime for case in task.cases if case.call == call.name}
        if seen == {"normal"} and not _is_carried(task, call):
            yield _finding(
                "warning",
                f"{task.device}: call {call.name} is only drawn in the regime normal, which hides "
                "a changed order of sums behind the last rounding",
                'add a case of it with regimes = ["cancel", "ties", "special"]',
            )


def _is_carried(task: Task, call: Call) -> bool:
    return any(spec.carry_call == call.name for each in task.calls for spec in each.outputs)


def _sizes(task: Task) -> Iterator[Finding]:
    for name, _ in task.ranges:
        if not any(name in dict(case.dims) for case in task.cases):
            yield _finding(
                "warning",
                f"{task.device}: ranges names {name}, which no case has",
                f"take {name} out of ranges",
            )


def too_large(task: Task) -> Iterator[Finding]:
    """Sizes that would make every verdict take hours, or more memory than there is."""
    low, high = task.token_range
    if high - low > MOST_TOKEN_COUNTS:
        yield _finding(
            "warning",
            f"{task.device}: token_range [{low}, {high}] holds {high - low + 1:,} counts, and each "
            "is traced for every candidate that comes far: a verdict would take hours",
            f"leave it under {MOST_TOKEN_COUNTS:,} counts; cases outside of it are not allowed",
        )
    largest = max(task.cases, key=lambda case: _bytes(task, case))
    if _bytes(task, largest) > MOST_CASE_BYTES:
        yield _finding(
            "warning",
            f"{task.device}: case {largest.id} has tensors of {_bytes(task, largest) / 1e9:,.1f} "
            "GB, and the gate holds several copies",
            "take sizes that the machine holds ten times",
        )


def _bytes(task: Task, case: Case) -> int:
    return bytes_of(task.call(case.call), dict(case.dims), case.dtype)


def _inputs(task: Task) -> Iterator[Finding]:
    """Draws the smallest case of each call, dtype and regime: recipes that do not go together, or
    that do not fit a shape, show here and not at night."""
    smallest: dict[tuple[str, str, str], Case] = {}
    for case in task.cases:
        key = (case.call, case.dtype, case.regime)
        tokens = case.dim(task.token_dim)
        if tokens and (key not in smallest or tokens < smallest[key].dim(task.token_dim)):
            smallest[key] = case
    told = set()
    for case in smallest.values():
        inputs = inputs_for(task, case, seed=0)
        if sum(math.prod(spec.meta.shape) for spec in inputs.tensors) > MOST_DRAWN_ELEMENTS:
            continue
        try:
            draw(inputs)
        except (InputError, ValueError, IndexError, TypeError) as error:
            if (case.call, str(error)) not in told:
                told.add((case.call, str(error)))
                hint = error.hint if isinstance(error, InputError) else None
                yield _finding(
                    "error",
                    f"call {case.call}: its inputs cannot be drawn (regime {case.regime}): {error}",
                    hint or "take another recipe, or another regime for this call",
                )
