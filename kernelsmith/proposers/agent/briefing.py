"""A task in words, for a model: what may be called how, and what is declared."""

from collections.abc import Iterable

from kernelsmith.model import ArgSpec, Call, OutputSpec, Task


def task(task: Task) -> str:
    """What is to be made faster. Says what the task declares and nothing that is drawn."""
    low, high = task.token_range
    ranges = "; ".join(f"{dim} in {{{_few(values)}}}" for dim, values in task.ranges)
    timed = [case for case in task.cases if case.weight > 0]
    dtypes = ", ".join(sorted({case.dtype for case in task.cases}))
    lines = [
        f"Task {task.name} on {task.device}: {task.summary}.",
        f"Entries: {', '.join(task.entries)}. Dtypes T: {dtypes}. num_programs = "
        f"{task.num_programs} (an entry may take it as an optional last parameter, for persistent "
        "grids).",
        f"Must hold for every {task.token_dim} from {low} to {high}"
        + (f" (shapes drawn later have {ranges})" if ranges else "")
        + ", in every call form and dtype, with padded rows and unaligned pointers.",
        f"{len(timed)} timed cases, {len(task.cases) - len(timed)} for bits only; others are "
        "drawn after submission.",
        "Call forms (row: a function of one token; batch: of the batch and its order):",
    ]
    lines += [_call(call) for call in task.calls]
    return "\n".join(lines)


def _call(call: Call) -> str:
    args = ", ".join(_arg(arg) for arg in call.args)
    outputs = ", ".join(_output(spec) for spec in call.outputs)
    return f"- {call.name} ({call.path}): {call.entry}({args}) -> {outputs}"


def _arg(arg: ArgSpec) -> str:
    match arg.kind:
        case "tensor":
            return f"{arg.name} {arg.dtype}[{_few(arg.shape)}]"
        case "none":
            return f"{arg.name}=None"
    return f"{arg.name}={arg.dim if arg.dim is not None else arg.value}"


def _output(spec: OutputSpec) -> str:
    block = f", blocks of {spec.block}" if spec.block else ""
    return f"{spec.name} {spec.dtype}[{_few(spec.shape)}] ({spec.cls}{block})"


def _few(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)
