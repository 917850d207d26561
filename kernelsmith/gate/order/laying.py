"""From queries to inputs of a call, and from its outputs to sums.

A launch answers as many queries as the carrier has lanes. Which query lies in which lane, its sign
and its power of two are drawn from the run's secret, and lanes without a query hold copies of
others: no lane, sign or magnitude is known to a candidate beforehand.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kernelsmith import cases as forms
from kernelsmith.gate import plans
from kernelsmith.gate.order.places import Place
from kernelsmith.gate.subject import Ask, Execution, draw_seed
from kernelsmith.model import SIGNED, ArgSpec, OutputSpec, Reduction, Task, TensorMeta
from kernelsmith.numerics import bits
from kernelsmith.numerics.order import FORMATS, Format, Reading
from kernelsmith.numerics.recipes_float import from_float64, generator, to_float64

Float64s = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Tensors = dict[str, bytes]
SCALES = 12
"""A lane's terms are divided by a power of two below 2**SCALES."""
BESIDE = 40
"""Where an output is an own value less the mean, the own value is made so many binary places
smaller and the mean so many larger: what is read is the mean alone."""
_WIDE = Format(name="", bits=0, top=80, normal=-70, bottom=-70)
"""Terms that all of this leaves within the range of float32."""
_NOTHING = {"values": 0.0, "squares": 0.0, "exps": -math.inf, "weighted_exps": -math.inf}
"""What adds nothing to a sum of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """One launch. ``lane_Q`` is the lane of each query, ``factor_Q`` what its sum is multiplied
    with, ``column_Q`` the place along ``over`` at which it is read, where outputs have one, and
    ``own_Q`` the query's number there."""

    ask: Ask
    lane_Q: Ints
    factor_Q: Float64s
    column_Q: Ints
    own_Q: Float64s


def reading(task: Task, place: Place) -> Reading:
    """How the sums of signed terms at a place are written and read."""
    name = carrier_dtype(task, place)
    unit = FORMATS[name]
    if unit.top > _WIDE.top:
        unit = replace(_WIDE, name=name, bits=unit.bits)
    stored = plans.output_meta(output_of(task, place), place.case).dtype
    length = np.float32(place.length)
    after = None if place.reduction.then == "sum" else lambda sums: sums / length
    return Reading(unit=unit, output=FORMATS[stored], after=after)


def lay(task: Task, place: Place, queries_QN: Float64s, secret: int, first: int) -> Iterator[Laid]:
    """The launches that answer some queries.

    Args:
        queries_QN: terms, or inputs of terms, one row a query.
        first: number of the first launch; lanes are drawn from it and the secret.
    """
    held = held_of(task, place, np.full(place.length, place.held))
    for begin in range(0, len(queries_QN), place.lanes):
        part = queries_QN[begin : begin + place.lanes]
        yield _launch(task, place, part, held, secret, first + begin // place.lanes)


def _launch(
    task: Task, place: Place, part_QN: Float64s, held: Tensors, secret: int, number: int
) -> Laid:
    rng = generator(draw_seed(secret, "order", *place.key, number))
    lanes = rng.permutation(place.lanes)
    count = len(part_QN)
    query_L = np.empty(place.lanes, np.int64)
    query_L[lanes] = np.arange(place.lanes) % count
    exponent_L = rng.integers(0, SCALES, place.lanes)
    factor_L = np.where(rng.integers(0, 2, place.lanes), -1.0, 1.0) * np.ldexp(1.0, exponent_L)
    if place.reduction.terms not in SIGNED or _narrow(task, place):
        factor_L = np.ones(place.lanes)
    rows_LU = part_QN[query_L] / factor_L[:, None]
    rows_LN = _spread(place, rows_LU)
    column_L = _read_at(place, rows_LN)
    moving = moving_of(task, place, rows_LN, rows_LU[:, -1], column_L)
    ask = asking(task, place, moving, held, str(number), int(rng.integers(1, 200)))
    chosen = lanes[:count]
    return Laid(
        ask=ask,
        lane_Q=chosen,
        factor_Q=factor_L[chosen],
        column_Q=column_L[chosen],
        own_Q=rows_LN[chosen, column_L[chosen]] * factor_L[chosen],
    )


def asking(task: Task, place: Place, moving: Tensors, held: Tensors, name: str, poison: int) -> Ask:
    """A run of a place's case on tensors from files, and on zeros where there is none.

    Args:
        moving: bytes of this run alone, by argument.
        held: bytes that other runs of the place share.
        name: of this run.
    """
    digest = hashlib.blake2b(repr(place.key).encode(), digest_size=8).hexdigest()
    files = {arg: (f"{digest}-{name}-{arg}.bin", data) for arg, data in moving.items()}
    files |= {arg: (f"{digest}-held-{arg}.bin", data) for arg, data in held.items()}
    inputs = forms.inputs_for(task, place.case, 0)
    tensors = tuple(
        replace(spec, recipe="zeros", file=files[spec.name][0] if spec.name in files else None)
        for spec in inputs.tensors
    )
    return Ask(
        key=f"{place.case.id}, {digest}-{name}",
        case=place.case,
        inputs=replace(inputs, tensors=tensors),
        misalign_bytes=place.misalign_bytes,
        poison=poison,
        files=tuple(files.values()),
    )


def _spread(place: Place, rows_LU: Float64s) -> Float64s:
    """Terms at their places along ``over``, and what adds nothing at all others."""
    nothing = place.ground or _NOTHING[place.reduction.terms]
    rows_LN = np.full((place.lanes, place.length), nothing)
    chosen = rows_LU[:, : len(place.columns)]
    rows_LN[:, place.columns] = np.where(chosen == 0, nothing, chosen) if place.ground else chosen
    if place.reduction.terms == "weighted_exps" and place.spare >= 0:
        rows_LN[:, place.spare] = 0.0
    return rows_LN


def moving_of(
    task: Task, place: Place, rows_LN: Float64s, carry_L: Float64s, column_L: Ints
) -> Tensors:
    """Bytes of the tensors that carry the terms, or go with them, by argument."""
    reduction, found = place.reduction, {}
    for arg, meta in _tensors(task, place):
        if arg.name == place.carrier:
            values = _along(np.ldexp(rows_LN, -_aside(reduction)), arg, place)
        elif arg.name == reduction.carry:
            values = np.broadcast_to(_lane_shaped(carry_L, arg, place), meta.shape)
        elif arg.name == reduction.index:
            picked = np.broadcast_to(_lane_shaped(column_L, arg, place), meta.shape)
            found[arg.name] = picked.astype(np.dtype(meta.dtype)).tobytes()
            continue
        else:
            continue
        found[arg.name] = from_float64(values, meta.dtype).tobytes()
    return found


def held_of(task: Task, place: Place, held_N: Float64s) -> Tensors:
    """Bytes of the tensors that are the same in every launch and not zero, by argument."""
    reduction, found = place.reduction, {}
    moving = (place.carrier, reduction.carry, reduction.index)
    for arg, meta in _tensors(task, place):
        if arg.name in moving or arg.name in reduction.zeros:
            continue
        if arg.shape == (reduction.over,):
            values = held_N
        else:
            one = math.ldexp(1.0, _aside(reduction)) if arg.name == reduction.beside else 1.0
            values = np.full(meta.shape, one)
        found[arg.name] = from_float64(values, meta.dtype).tobytes()
    return found


def _tensors(task: Task, place: Place) -> Iterator[tuple[ArgSpec, TensorMeta]]:
    for index, arg in enumerate(task.call(place.case.call).args):
        if arg.kind == "tensor":
            yield arg, forms.tensor_meta(arg, place.case, index)


def _aside(reduction: Reduction) -> int:
    return BESIDE if reduction.then == "centred" else 0


def _along(rows_LN: Float64s, arg: ArgSpec, place: Place) -> Float64s:
    """Rows as the carrier's dimensions lie."""
    return rows_LN if arg.shape[0] == place.lane_dim else np.ascontiguousarray(rows_LN.T)


def _lane_shaped(
    values_L: npt.NDArray[np.generic], arg: ArgSpec, place: Place
) -> npt.NDArray[np.generic]:
    """One value a lane, with an axis of size 1 for every other dimension of ``arg``."""
    return values_L.reshape([-1 if dim == place.lane_dim else 1 for dim in arg.shape])


def _read_at(place: Place, rows_LN: Float64s) -> Ints:
    """Where along ``over`` a lane is read: beside the smallest value if the mean is read, at the
    spare place if there is one, else at the largest input."""
    if place.read_aside:
        found = np.full(len(rows_LN), place.spare)
    elif place.reduction.then == "centred":
        found = np.abs(rows_LN).argmin(axis=1)
    elif place.reduction.terms == "squares":
        found = np.abs(rows_LN).argmax(axis=1)
    else:
        found = rows_LN.argmax(axis=1)
    return np.asarray(found, np.int64)


def sums(task: Task, laid: Laid, place: Place, done: Execution) -> tuple[Float64s, bool]:
    """The sum of each query, and whether all elements that should hold the same sum do."""
    spec = output_of(task, place)
    meta = plans.output_meta(spec, place.case)
    outputs = [one.name for one in task.call(place.case.call).outputs]
    words = bits.words(done.outputs[outputs.index(spec.name)], meta.dtype).reshape(meta.shape)
    words_QR = np.moveaxis(words, spec.shape.index(place.lane_dim), 0)[laid.lane_Q]
    if place.reduction.over in spec.shape:
        axis = 1 + [dim for dim in spec.shape if dim != place.lane_dim].index(place.reduction.over)
        at = laid.column_Q.reshape([-1, *[1] * (words_QR.ndim - 1)])
        words_QR = np.take_along_axis(words_QR, at, axis=axis)
    words_QR = words_QR.reshape(len(laid.lane_Q), -1)
    even = bool((words_QR == words_QR[:, :1]).all())
    read = widened(words_QR[:, 0], meta.dtype) * laid.factor_Q
    if place.reduction.then == "centred":
        read = -np.ldexp(read, -BESIDE)
        read[np.abs(read) <= np.ldexp(np.abs(laid.own_Q), -BESIDE)] = 0.0
    return read, even


def widened(words: bits.Words, dtype: str) -> Float64s:
    """The values of patterns of a floating dtype."""
    storage = words if dtype == "bfloat16" else words.view(np.dtype(dtype))
    return to_float64(storage, dtype)


def carrier_dtype(task: Task, place: Place) -> str:
    """The dtype of the argument that carries the terms."""
    args = task.call(place.case.call).args
    dtype = next(arg.dtype for arg in args if arg.name == place.carrier)
    return place.case.dtype if dtype == "T" else dtype


def _narrow(task: Task, place: Place) -> bool:
    return "float16" in (place.case.dtype, carrier_dtype(task, place))


def output_of(task: Task, place: Place) -> OutputSpec:
    """The output that a place is read from."""
    outputs = task.call(place.case.call).outputs
    return next(spec for spec in outputs if spec.name == place.output)
