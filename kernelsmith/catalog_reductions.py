"""The reductions of a task file: read, and held to the call forms that they name."""

from collections.abc import Iterator, Sequence

from kernelsmith.catalog_schema import ReductionFile, TaskFile
from kernelsmith.errors import TaskError
from kernelsmith.model import SIGNED, ArgSpec, Call, Reduction, Task


def build_reductions(
    file: TaskFile, calls: Sequence[Call], device: str, where: str
) -> tuple[Reduction, ...] | None:
    """The declared sums as they are on one device; None where the file declares none.

    Raises:
        TaskError: a reduction does not fit the call forms. One line with a hint.
    """
    if file.reductions is None:
        return None
    names = [each.name for each in file.reductions]
    if len(set(names)) != len(names):
        raise TaskError(f"{where}: two reductions share a name", hint="names are unique")
    return tuple(_built(each, calls, device, where) for each in file.reductions)


def _built(file: ReductionFile, calls: Sequence[Call], device: str, where: str) -> Reduction:
    found = Reduction(
        name=file.name,
        calls=tuple(file.calls),
        output=file.output,
        over=file.over,
        terms=file.terms,
        carriers=tuple(file.carriers),
        ones=tuple(file.ones),
        zeros=tuple(file.zeros),
        carry=file.carry,
        index=file.index,
        then=file.then,
        beside=file.beside,
        sizes=tuple(next((v for k, v in file.sizes.items() if k == device), ())),
        probes_max=file.probes_max,
    )
    place = f"{where}: reduction {file.name}"
    if found.then != "sum" and found.terms not in SIGNED:
        raise TaskError(
            f"{place}: then = {found.then!r} with terms = {found.terms!r}",
            hint="what follows a sum of squares or exponentials is tried out; leave `then` away",
        )
    if (found.then == "centred") != bool(found.beside):
        raise TaskError(
            f"{place}: then = {found.then!r} with beside = {found.beside!r}",
            hint="centred, and it alone, names the argument whose elements multiply the mean",
        )
    named = {call.name: call for call in calls}
    for name in found.calls:
        if name not in named:
            raise TaskError(f"{place}: no call {name!r}", hint="calls: " + ", ".join(named))
        _check_call(found, named[name], place)
    known = {arg.name for name in found.calls for arg in named[name].args}
    for argument in held(found):
        if argument not in known:
            raise TaskError(
                f"{place}: none of its calls has an argument {argument!r}",
                hint="arguments: " + ", ".join(sorted(known)),
            )
    return found


def held(reduction: Reduction) -> tuple[str, ...]:
    """The arguments that a reduction names, in no order of the entry's."""
    last = tuple(each for each in (reduction.carry, reduction.index, reduction.beside) if each)
    return (*reduction.carriers, *reduction.ones, *reduction.zeros, *last)


def _check_call(found: Reduction, call: Call, place: str) -> None:
    """Every tensor of the call is named once, and the shapes let lanes be told apart."""
    tensors = {arg.name: arg for arg in call.args if arg.kind == "tensor"}
    for name, arg in tensors.items():
        times = held(found).count(name)
        if times != 1:
            raise TaskError(
                f"{place}: argument {name} of {call.name} is named {times} times",
                hint="each tensor is one of carriers, ones, zeros, carry, index, beside",
            )
        if arg.dtype.startswith(("int", "uint", "bool")) != (name == found.index):
            raise TaskError(
                f"{place}: {name} of {call.name} is {arg.dtype}",
                hint="index names the integer tensor, all others are floats",
            )
    outputs = {output.name: output for output in call.outputs}
    if found.output not in outputs:
        raise TaskError(
            f"{place}: call {call.name} has no output {found.output!r}",
            hint="outputs: " + ", ".join(outputs),
        )
    shape = outputs[found.output].shape
    carriers = [tensors[name] for name in found.carriers if name in tensors]
    if not carriers:
        raise TaskError(
            f"{place}: {call.name} has no tensor among its carriers",
            hint="take the call away, or name an argument that carries its terms",
        )
    for arg in carriers:
        _check_carrier(found, arg, shape, f"{place}: {call.name}, carrier {arg.name}")
    if found.then == "centred" and found.over not in shape:
        raise TaskError(
            f"{place}: output {found.output} of {call.name} does not run over {found.over}",
            hint='then = "centred" is about an output with one element for each value',
        )


def _check_carrier(
    found: Reduction, arg: ArgSpec, shape: tuple[str | int, ...], place: str
) -> None:
    if arg.shape.count(found.over) != 1:
        raise TaskError(
            f"{place} does not run over {found.over} once",
            hint=f"its shape is [{', '.join(map(str, arg.shape))}]",
        )
    lanes = [dim for dim in arg.shape if dim != found.over]
    if len(lanes) != 1 or lanes[0] not in shape:
        raise TaskError(
            f"{place} has no single other dimension that the output {found.output} has",
            hint="queries lie beside each other along it: a carrier has two dimensions",
        )


def unlooked_at(task: Task) -> Iterator[tuple[str, str, str]]:
    """What a task leaves out of its reductions, as (level, message, hint).

    A sum over tokens, or over a dimension that an output has lost, cannot be overlooked; sums of
    squares and the like, behind which an output keeps its dimensions, can.
    """
    hint = "declare each sum as [[reductions]], see tasks/linear.toml; [] says that there is none"
    declared = {(call, one.output) for one in task.reductions or () for call in one.calls}
    lost = [
        f"{call.name}: {output.name}"
        for call in task.calls
        for output in call.outputs
        if (call.name, output.name) not in declared
        and (output.cls == "batch" or _loses(call, output.shape))
    ]
    if task.reductions is None:
        level = "warning" if lost else "ok"
        yield level, "no [[reductions]]: `order` will be unchecked", hint if lost else ""
        return
    if lost:
        yield "warning", f"summed, but no reduction says how: {', '.join(lost)}", hint
    used = {case.call for case in task.cases if all(size > 1 for _, size in case.dims)}
    for one in task.reductions:
        if not used & set(one.calls):
            yield "warning", f"reduction {one.name}: no case sums anything", "add one"


def _loses(call: Call, shape: tuple[str | int, ...]) -> bool:
    """Whether every tensor of two dimensions or more has a dimension that an output has not."""
    wide = [arg.shape for arg in call.args if arg.kind == "tensor" and len(arg.shape) > 1]
    return bool(wide) and all(set(own) - set(shape) for own in wide)
