"""Concrete calls: from a task's case to what the front end traces and the launcher draws.

Pure functions. A *derived* case is one that the gate makes up (hidden shapes, recomposed
batches, split batches); it is built here so that it is described like any other.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelsmith.errors import TaskError
from kernelsmith.model import ArgSpec, Case, Inputs, InputSpec, Task, TensorMeta, TraceCall

SHORT_DTYPE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
PAD_STEP_ELEMENTS = 8
"""By so much more is each argument padded than the one before it, so that no two row strides are
alike by padding; 16 bytes of the smallest float, so that aligned rows stay aligned."""


def case_id(
    call: str,
    dtype: str,
    dims: Mapping[str, int],
    regime: str,
    row_stride_pad: int = 0,
    *,
    padded_arg: str = "",
    scalars: Sequence[tuple[str, float]] = (),
) -> str:
    """The name of a case: ``train.bf16.M97-N1024.cancel`` (``.pad8`` when rows are padded,
    ``.eps0.001`` for a scalar of its own). Equal names, equal calls."""
    sizes = "-".join(f"{name}{size}" for name, size in dims.items())
    only = f"-{padded_arg}" if padded_arg else ""
    pad = f".pad{row_stride_pad}{only}" if row_stride_pad else ""
    own = "".join(f".{name}{value:g}" for name, value in scalars)
    return f"{call}.{SHORT_DTYPE.get(dtype, dtype)}.{sizes}.{regime}{pad}{own}"


def full_id(case: Case) -> str:
    """:func:`case_id` of a case that exists."""
    return case_id(
        case.call,
        case.dtype,
        dict(case.dims),
        case.regime,
        case.row_stride_pad,
        padded_arg=case.padded_arg,
        scalars=case.scalars,
    )


def forms_of(task: Task) -> dict[tuple[str, str], list[Case]]:
    """Cases of every call form in every dtype that the task has cases in.

    A form without a case of its own in a dtype borrows the sizes of its own cases in other
    dtypes, else those of its variant's cases, in their regimes: callers may use it, so it is
    judged. Order: calls as declared, dtypes sorted.
    """
    dtypes = sorted({case.dtype for case in task.cases})
    found: dict[tuple[str, str], list[Case]] = {}
    for call in task.calls:
        variants = {other.name for other in task.calls if other.variant == call.variant}
        for dtype in dtypes:
            same = [case for case in task.cases if case.call == call.name]
            own = [case for case in same if case.dtype == dtype]
            kin = same or [case for case in task.cases if case.call in variants]
            if not own:
                moved = [replace(case, call=call.name, dtype=dtype, weight=0.0) for case in kin]
                own = [replace(case, id=full_id(case)) for case in moved if _has_sizes(task, case)]
            if own:
                found[call.name, dtype] = own
    return found


def _has_sizes(task: Task, case: Case) -> bool:
    call = task.call(case.call)
    shapes = [arg.shape for arg in call.args if arg.kind == "tensor"]
    shapes += [output.shape for output in call.outputs]
    names = {dim for shape in shapes for dim in shape if isinstance(dim, str)}
    return names <= set(dict(case.dims))


def call_for(
    task: Task,
    call_name: str,
    dtype: str,
    dims: Mapping[str, int],
    regime: str = "normal",
    row_stride_pad: int = 0,
    role: str = "derived",
    scalars: Sequence[tuple[str, float]] = (),
) -> Case:
    """A derived case (weight 0) of a call form of the task.

    Raises:
        TaskError: the task has no such call form, or a dimension of it is not given.
    """
    try:
        call = task.call(call_name)
    except KeyError as error:
        raise TaskError(
            f"task {task.name} has no call {call_name!r}",
            hint="calls: " + ", ".join(c.name for c in task.calls),
        ) from error
    case = Case(
        id=case_id(call_name, dtype, dims, regime, row_stride_pad, scalars=scalars),
        call=call_name,
        dtype=dtype,
        dims=tuple(dims.items()),
        regime=regime,
        weight=0.0,
        row_stride_pad=row_stride_pad,
        role=role,
        scalars=tuple(scalars),
    )
    for arg in call.args:
        tensor_meta(arg, case) if arg.kind == "tensor" else None
    return case


def shape_of(shape: Sequence[str | int], dims: Mapping[str, int], where: str) -> tuple[int, ...]:
    """Sizes of a declared shape.

    Raises:
        TaskError: a dimension is not given; ``where`` says whose shape it is.
    """
    missing = [d for d in shape if isinstance(d, str) and d not in dims]
    if missing:
        raise TaskError(
            f"{where}: dimension {missing[0]!r} has no size",
            hint="dimensions given: " + (", ".join(dims) or "none"),
        )
    return tuple(dims[d] if isinstance(d, str) else d for d in shape)


def tensor_meta(arg: ArgSpec, case: Case, index: int = 0) -> TensorMeta:
    """Shape, strides (elements) and dtype of a tensor argument; rows are padded as the case says.

    Padding widens the stride of every dimension but the last, which stays contiguous. Argument
    ``index`` of a padded call gets PAD_STEP_ELEMENTS * index more, unless it alone is padded:
    with equal strides everywhere, a kernel that takes one for another would never show.
    """
    extra = case.row_stride_pad + (0 if case.padded_arg else PAD_STEP_ELEMENTS * index)
    if case.row_stride_pad == 0 or case.padded_arg not in ("", arg.name):
        extra = 0
    shape = shape_of(arg.shape, dict(case.dims), f"case {case.id}, argument {arg.name}")
    strides = []
    step = 1
    for axis in reversed(range(len(shape))):
        strides.append(step)
        pad = extra if axis == len(shape) - 1 and axis > 0 else 0
        step *= shape[axis] + pad
    return TensorMeta(
        shape=shape,
        strides=tuple(reversed(strides)),
        dtype=case.dtype if arg.dtype == "T" else arg.dtype,
    )


def output_meta(task: Task, case: Case) -> tuple[TensorMeta, ...]:
    """What the entry must return for a case: contiguous tensors in the entry's order."""
    metas = []
    for output in task.call(case.call).outputs:
        arg = ArgSpec(name=output.name, kind="tensor", shape=output.shape, dtype=output.dtype)
        bare = Case(
            id=case.id,
            call=case.call,
            dtype=case.dtype,
            dims=case.dims,
            regime=case.regime,
            weight=0.0,
        )
        metas.append(tensor_meta(arg, bare))
    return tuple(metas)


def scalar_of(arg: ArgSpec, case: Case) -> int | float | None:
    """The value of an int, float or absent argument."""
    if arg.kind == "none":
        return None
    if arg.dim is not None:
        return case.dim(arg.dim)
    return dict(case.scalars).get(arg.name, arg.value)


def trace_call(task: Task, case: Case) -> TraceCall:
    """The call on meta tensors that the front end traces; its key is the case's id."""
    call = task.call(case.call)
    args = tuple(
        (arg.name, tensor_meta(arg, case, i) if arg.kind == "tensor" else scalar_of(arg, case))
        for i, arg in enumerate(call.args)
    )
    return TraceCall(key=case.id, entry=call.entry, args=args, num_programs=task.num_programs)


def token_axis(task: Task, arg: ArgSpec) -> int | None:
    """The axis of an argument that runs over tokens, None if it has none."""
    return arg.shape.index(task.token_dim) if task.token_dim in arg.shape else None


def inputs_for(
    task: Task,
    case: Case,
    seed: int,
    rows: Sequence[int] | None = None,
    base_tokens: int | None = None,
) -> Inputs:
    """How to draw the arguments of a case.

    Args:
        task: the task.
        case: the call as it is made: with ``rows``, its token dimension is ``len(rows)``.
        seed: decides the bits together with the case's regime.
        rows: tokens of a base batch that this call holds, in order; -1 is a padding row. Equal
            (seed, regime, base_tokens) give the same token in every call of a variant.
        base_tokens: tokens of that base batch.

    Raises:
        TaskError: rows that do not fit the case, or lie outside the base batch.
    """
    tokens = dict(case.dims).get(task.token_dim, 0)
    if rows is not None:
        _check_rows(case, rows, tokens, base_tokens)
    tensors = []
    scalars = []
    for index, arg in enumerate(task.call(case.call).args):
        if arg.kind != "tensor":
            scalars.append((arg.name, scalar_of(arg, case)))
            continue
        meta = tensor_meta(arg, case, index)
        axis = token_axis(task, arg)
        base_shape = meta.shape
        if axis is not None and rows is not None and base_tokens is not None:
            base_shape = (*meta.shape[:axis], base_tokens, *meta.shape[axis + 1 :])
        tensors.append(
            InputSpec(
                name=arg.name,
                meta=meta,
                recipe=arg.recipe,
                base_shape=base_shape,
                token_axis=axis,
                rows=tuple(rows) if rows is not None and axis is not None else None,
            )
        )
    return Inputs(tensors=tuple(tensors), scalars=tuple(scalars), regime=case.regime, seed=seed)


def _check_rows(case: Case, rows: Sequence[int], tokens: int, base_tokens: int | None) -> None:
    if base_tokens is None:
        raise TaskError(f"case {case.id}: rows without base_tokens", hint="give both or neither")
    if len(rows) != tokens:
        raise TaskError(
            f"case {case.id}: {len(rows)} rows for {tokens} tokens",
            hint="the case's token dimension is the number of rows",
        )
    outside = [row for row in rows if not -1 <= row < base_tokens]
    if outside:
        raise TaskError(
            f"case {case.id}: row {outside[0]} of a base batch of {base_tokens} tokens",
            hint="rows count from 0; -1 is padding",
        )


def cost(task: Task, case: Case) -> int:
    """How much a call moves and computes: elements of its tensors, and the operations it declares.

    Puts cheap cases before dear ones alike on every machine and in every run, as a measured time
    would not: which of several wrong cases a verdict names must not hang on the clock.
    """
    call = task.call(case.call)
    sizes = dict(case.dims)
    shapes = [arg.shape for arg in call.args if arg.kind == "tensor"]
    shapes += [output.shape for output in call.outputs]
    moved = sum(math.prod(shape_of(shape, sizes, f"case {case.id}")) for shape in shapes)
    return moved + sum(n * math.prod(sizes[dim] for dim in dims) for n, dims in call.flops)


def case_seed(secret: int, case: Case) -> int:
    """A seed of its own for each case of a run, from the run's secret seed."""
    return (secret << 32 | zlib.crc32(case.id.encode())) & 0xFFFFFFFFFFFFFFFF
