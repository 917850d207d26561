"""From a parsed task file to a task, with every check that needs no running.

Each check raises ``TaskError`` with one line that names the file and the place in it.
"""

import ast
import dataclasses
import itertools
import math
from collections.abc import Iterator

from kernelsmith.cases import call_for, shape_of
from kernelsmith.catalog_reductions import build_reductions
from kernelsmith.catalog_schema import ArgFile, CallFile, CasesFile, TaskFile
from kernelsmith.errors import TaskError
from kernelsmith.model import ArgSpec, Call, Case, OutputSpec, Task
from kernelsmith.numerics.recipes import RECIPES, REGIME_NAMES

MAX_TIMED_CASES = 12
_DIMENSIONS_HINT = "dims of a case must give every dimension its call names"


def build_task(file: TaskFile, device: str, source: str, *, shipped: bool, where: str) -> Task:
    """Builds and checks a task on one device.

    Args:
        file: the parsed file; it has cases for ``device``.
        device: "cpu" or "cuda".
        source: text of the seed; parsed, never run.
        shipped: whether the task belongs to kernelsmith itself.
        where: path of the file, for messages.

    Raises:
        TaskError: a check failed.
    """
    on = next(value for name, value in file.devices.items() if name == device)
    calls = tuple(_call(call, where) for call in file.calls)
    _check_calls(file, calls, where)
    _check_seed(file, calls, source, where)
    low, high = on.token_range
    if low > high:
        raise TaskError(f"{where}: token_range of {device} is [{low}, {high}]", hint="lowest first")
    task = Task(
        name=file.name,
        device=device,
        seed_name=file.seed,
        seed_source=source,
        summary=file.summary,
        entries=tuple(file.entries),
        calls=calls,
        cases=(),
        token_dim=file.token_dim,
        token_range=(low, high),
        ranges=tuple((name, tuple(values)) for name, values in on.ranges.items()),
        num_programs=on.num_programs,
        min_gain=file.limits.min_gain,
        max_regress=file.limits.max_regress,
        shipped=shipped,
        reductions=build_reductions(file, calls, device, where),
    )
    cases = tuple(case for block in on.cases for case in _expand(task, block, where))
    _check_cases(task, cases, where)
    return dataclasses.replace(task, cases=cases)


def _call(call: CallFile, where: str) -> Call:
    return Call(
        name=call.name,
        variant=call.variant,
        entry=call.entry,
        path=call.path,
        args=tuple(_arg(arg, f"{where}: call {call.name}") for arg in call.args),
        outputs=tuple(
            OutputSpec(**{**dict(output), "shape": tuple(output.shape)}) for output in call.outputs
        ),
        flops=tuple(_flops_term(term, call, where) for term in call.flops),
    )


def _flops_term(term: list[str | int], call: CallFile, where: str) -> tuple[int, tuple[str, ...]]:
    factor, dims = term[0], tuple(dim for dim in term[1:] if isinstance(dim, str))
    shapes = [arg.shape or [] for arg in call.args] + [output.shape for output in call.outputs]
    known = {dim for shape in shapes for dim in shape}
    if not isinstance(factor, int) or len(dims) != len(term) - 1 or not known.issuperset(dims):
        raise TaskError(
            f"{where}: call {call.name}: flops term {term} is no factor and dimensions of it",
            hint='write 2*M*N*K as [2, "M", "N", "K"]',
        )
    return factor, dims


def _arg(arg: ArgFile, where: str) -> ArgSpec:
    place = f"{where}, argument {arg.name}"
    if arg.kind == "tensor":
        if arg.shape is None or arg.dtype is None or arg.recipe is None:
            raise TaskError(f"{place}: a tensor needs shape, dtype and recipe", hint="add them")
        if arg.recipe not in RECIPES:
            raise TaskError(
                f"{place}: unknown recipe {arg.recipe!r}", hint="one of: " + ", ".join(RECIPES)
            )
        return ArgSpec(
            name=arg.name,
            kind="tensor",
            shape=tuple(arg.shape),
            dtype=arg.dtype,
            recipe=arg.recipe,
        )
    if arg.shape is not None or arg.dtype is not None or arg.recipe is not None:
        raise TaskError(
            f"{place}: kind {arg.kind!r} takes no shape, dtype or recipe",
            hint='kind = "tensor" does',
        )
    given = (arg.value is not None) + (arg.dim is not None)
    if given != (0 if arg.kind == "none" else 1):
        raise TaskError(
            f"{place}: kind {arg.kind!r} with {given} of value and dim",
            hint="int and float take one of value and dim, none takes neither",
        )
    if arg.kind == "int" and isinstance(arg.value, float):
        raise TaskError(f"{place}: an int with the value {arg.value}", hint='kind = "float"?')
    value = float(arg.value) if arg.kind == "float" and arg.value is not None else arg.value
    return ArgSpec(name=arg.name, kind=arg.kind, value=value, dim=arg.dim)


def _check_calls(file: TaskFile, calls: tuple[Call, ...], where: str) -> None:
    by_name = {call.name: call for call in calls}
    if len(by_name) != len(calls):
        raise TaskError(f"{where}: two calls share a name", hint="call names are unique")
    for call in calls:
        if call.entry not in file.entries:
            raise TaskError(
                f"{where}: call {call.name} uses the entry {call.entry!r}",
                hint="entries: " + ", ".join(file.entries),
            )
        for output in call.outputs:
            _check_output(call, output, by_name, file.token_dim, f"{where}: call {call.name}")
    unused = [entry for entry in file.entries if entry not in {call.entry for call in calls}]
    if unused:
        raise TaskError(f"{where}: no call uses the entry {unused[0]!r}", hint="add a call form")


def _check_output(
    call: Call, output: OutputSpec, calls: dict[str, Call], token_dim: str, where: str
) -> None:
    place = f"{where}, output {output.name}"
    if output.cls == "row" and token_dim not in output.shape:
        raise TaskError(
            f"{place}: class row without the token dimension {token_dim}",
            hint='a sum over tokens is class = "batch"',
        )
    if output.cls != "batch":
        if output.block is not None or output.carry is not None or output.carry_call is not None:
            raise TaskError(
                f"{place}: block and carry belong to class batch", hint="take them away"
            )
        return
    if len({output.block is None, output.carry is None, output.carry_call is None}) != 1:
        raise TaskError(
            f"{place}: block, carry and carry_call come together", hint="give all or none"
        )
    if output.carry_call is None:
        return
    target = calls.get(output.carry_call)
    args = {arg.name: arg for arg in target.args} if target else {}
    carried = args.get(output.carry or "")
    if target is None or carried is None or carried.kind != "tensor":
        raise TaskError(
            f"{place}: call {output.carry_call!r} has no tensor argument {output.carry!r}",
            hint="carry_call names the call form that takes the earlier part's sum",
        )
    if carried.shape != output.shape or carried.dtype != output.dtype:
        raise TaskError(
            f"{place}: {output.carry} of {output.carry_call} has another shape or dtype",
            hint="a carry is the output of the earlier part as it is",
        )


def _check_seed(file: TaskFile, calls: tuple[Call, ...], source: str, where: str) -> None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 0
        reason = getattr(error, "msg", None) or str(error)
        raise TaskError(
            f"seed {file.seed} of {where} is not Python: line {line}: {reason}",
            hint="the seed is one Triton module",
        ) from error
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for call in calls:
        function = functions.get(call.entry)
        if function is None:
            raise TaskError(
                f"{where}: seed {file.seed} has no function {call.entry!r}",
                hint="functions: " + (", ".join(functions) or "none"),
            )
        parameters = [arg.arg for arg in function.args.args]
        expected = [arg.name for arg in call.args]
        if parameters[-1:] == ["num_programs"] and expected[-1:] != ["num_programs"]:
            parameters = parameters[:-1]
        if parameters != expected:
            raise TaskError(
                f"{where}: {call.entry} of {file.seed} takes ({', '.join(parameters)}), call "
                f"{call.name} gives ({', '.join(expected)})",
                hint="args of a call are the entry's parameters, in order",
            )


def _expand(task: Task, block: CasesFile, where: str) -> Iterator[Case]:
    lists = [size if isinstance(size, list) else [size] for size in block.dims.values()]
    for regime in block.regimes:
        if regime not in REGIME_NAMES:
            raise TaskError(
                f"{where}: unknown regime {regime!r}", hint="one of: " + ", ".join(REGIME_NAMES)
            )
    for call, dtype, sizes, regime in itertools.product(
        block.calls, block.dtypes, itertools.product(*lists), block.regimes
    ):
        dims = dict(zip(block.dims, sizes, strict=True))
        try:
            derived = call_for(
                task,
                call,
                dtype,
                dims,
                regime,
                block.row_stride_pad,
                block.role,
                tuple(block.scalars.items()),
            )
            _check_scalars(task, derived, where)
            for output in task.call(call).outputs:
                shape_of(output.shape, dims, f"case {derived.id}, output {output.name}")
        except TaskError as error:
            raise TaskError(
                f"{where}: {error.message}", hint=error.hint or _DIMENSIONS_HINT
            ) from error
        if task.token_dim not in dims:
            raise TaskError(f"{where}: case {derived.id}: no {task.token_dim}", hint="tokens")
        yield dataclasses.replace(derived, weight=block.weight)


def _check_scalars(task: Task, case: Case, where: str) -> None:
    known = [arg.name for arg in task.call(case.call).args if arg.kind == "float"]
    for name, _ in case.scalars:
        if name not in known:
            raise TaskError(
                f"{where}: case {case.id}: {case.call} has no float argument {name!r}",
                hint="float arguments: " + (", ".join(known) or "none"),
            )


def _check_cases(task: Task, cases: tuple[Case, ...], where: str) -> None:
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise TaskError(
                f"{where}: case {case.id} is declared twice", hint="each combination once"
            )
        seen.add(case.id)
    timed = [case for case in cases if case.weight > 0]
    if not 1 <= len(timed) <= MAX_TIMED_CASES:
        raise TaskError(
            f"{where}: {len(timed)} timed cases on {task.device}",
            hint=f"between 1 and {MAX_TIMED_CASES} cases have a weight above 0",
        )
    total = math.fsum(case.weight for case in timed)
    if abs(total - 1.0) > 1e-9:
        raise TaskError(
            f"{where}: weights on {task.device} sum to {total:g}",
            hint="they are shares of the whole: each combination of a block counts its weight",
        )
