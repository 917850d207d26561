"""What a conformance case is, how it runs, and how its outputs are compared with its oracle."""

import hashlib
import linecache
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from tests.conformance.values import (
    FLOATS,
    STORAGE,
    Array,
    bits,
    draw,
    is_float,
    narrow,
    widen,
)

TORCH = {
    "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn,
    "fp8e4b8": torch.float8_e4m3fnuz, "fp8e5b16": torch.float8_e5m2fnuz, "int1": torch.bool,
    "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
    "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32,
    "uint64": torch.uint64,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How close an output must be: ``bits``, or ``ulp`` of the output type, or ``near``: within
    ``bound`` of the largest magnitude of the oracle's array."""

    kind: str
    bound: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind == "bits" else f"{self.bound:g} {self.kind}"


BITS = Tolerance(kind="bits")


def ulp(bound: float) -> Tolerance:
    return Tolerance(kind="ulp", bound=bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A tensor argument. ``role``: "in", "out" (starts as zeros) or "inout" (drawn, then
    written)."""

    role: str
    dtype: str
    shape: tuple[int, ...]
    recipe: Any = "any"


def given(dtype: str, *shape: int, recipe: Any = "ordinary") -> Buffer:
    return Buffer(role="in", dtype=dtype, shape=shape, recipe=recipe)


def result(dtype: str, *shape: int) -> Buffer:
    return Buffer(role="out", dtype=dtype, shape=shape)


def updated(dtype: str, *shape: int, recipe: Any = "ordinary") -> Buffer:
    return Buffer(role="inout", dtype=dtype, shape=shape, recipe=recipe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An oracle's answer in the type's own bits, where a value would lose them (NaN payloads)."""

    array: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel over one choice of types and shapes, with the answer it must give.

    ``oracle``: from the wide arrays of the "in" and "inout" buffers, in their order, to one array
    (or ``Stored``) for each "out" and "inout" buffer. With ``moves`` it is given stored arrays and
    answers with them: elements change their place, not a bit of theirs. ``ops``: what it is about,
    in ``tl``'s words. ``versions``: Triton releases that have the op; empty: all.
    """

    family: str
    name: str
    ops: tuple[str, ...]
    dtype: str
    kernel: Any  # a jit function, or the text of a module that defines ``kernel``
    args: tuple[Any, ...]
    oracle: Callable[..., Any]
    constants: dict[str, Any]
    grid: tuple[int, ...] = (1,)
    tolerance: Tolerance = BITS
    moves: bool = False
    versions: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.family}/{self.name}"

    def inputs(self) -> list[Array]:
        """Stored arrays of the tensor arguments, the same at every call."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        return [
            np.zeros(buffer.shape, STORAGE[buffer.dtype])
            if buffer.role == "out"
            else draw(buffer.dtype, buffer.shape, buffer.recipe, rng)
            for buffer in self.buffers()
        ]

    def buffers(self) -> list[Buffer]:
        return [arg for arg in self.args if isinstance(arg, Buffer)]

    def outputs(self) -> list[Buffer]:
        return [buffer for buffer in self.buffers() if buffer.role != "in"]


@cache
def written(text: str) -> Any:
    """The jit function ``kernel`` of a module's text, which no file need hold."""
    name = f"<kernel {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "written"}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


def function_of(case: Case) -> Any:
    return written(case.kernel) if isinstance(case.kernel, str) else case.kernel


def tensor_of(dtype: str, stored: Array) -> torch.Tensor:
    """A CPU tensor of the same bits, in torch's own (aligned) memory."""
    plain = stored if dtype == "int1" else stored.view(np.dtype(f"i{stored.itemsize}"))
    fresh = torch.from_numpy(plain.copy()).clone()
    return fresh if dtype == "int1" else fresh.view(TORCH[dtype])


def stored_of(dtype: str, tensor: torch.Tensor) -> Array:
    if dtype == "int1":
        return tensor.view(torch.uint8).numpy().view(np.bool_)
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    plain = tensor.view(integer[tensor.element_size()]).numpy()
    return plain.view(STORAGE[dtype])


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What a launch left: outputs in stored form, the compiled kernel, the arguments it had."""

    outputs: list[Array]
    compiled: Any
    values: tuple[Any, ...]


def bind(case: Case) -> tuple[Any, ...]:
    """Fresh arguments of a launch: a tensor for each buffer, scalars as they are."""
    arrays = iter(case.inputs())
    return tuple(
        tensor_of(arg.dtype, next(arrays)) if isinstance(arg, Buffer) else arg for arg in case.args
    )


def collect(case: Case, values: tuple[Any, ...]) -> list[Array]:
    """Outputs among a launch's arguments; checks that inputs are untouched."""
    outputs = []
    for arg, value, before in _tensors(case, values):
        now = stored_of(arg.dtype, value)
        if arg.role == "in":
            assert now.tobytes() == before.tobytes(), f"{case.id} wrote an input"
        else:
            outputs.append(now.copy())
    return outputs


def _tensors(case: Case, values: tuple[Any, ...]) -> list[tuple[Buffer, Any, Array]]:
    pairs = [
        (arg, value)
        for arg, value in zip(case.args, values, strict=True)
        if isinstance(arg, Buffer)
    ]
    return [(arg, value, before) for (arg, value), before in zip(pairs, case.inputs(), strict=True)]


def launch(case: Case) -> Launched:
    """Runs a case on the active device."""
    values = bind(case)
    compiled = function_of(case)[case.grid](*values, **case.constants)
    return Launched(outputs=collect(case, values), compiled=compiled, values=values)


def expected(case: Case) -> list[Any]:
    """The oracle's answer for each output: an array, or ``Stored``."""
    ins = [
        array if case.moves else widen(buffer.dtype, array)
        for buffer, array in zip(case.buffers(), case.inputs(), strict=True)
        if buffer.role != "out"
    ]
    with np.errstate(all="ignore"):
        answer = case.oracle(*ins)
    found = list(answer) if isinstance(answer, tuple | list) else [answer]
    return [Stored(array=np.ascontiguousarray(each)) for each in found] if case.moves else found


def faults(case: Case, outputs: list[Array]) -> list[str]:
    """What is wrong with outputs, one line each; empty when all is as the oracle says."""
    found = []
    for index, (buffer, got, want) in enumerate(
        zip(case.outputs(), outputs, expected(case), strict=True)
    ):
        line = _compare(case.tolerance, buffer, got, want)
        if line:
            found.append(f"{case.id}, output {index} ({buffer.dtype}): {line}")
    return found


@np.errstate(all="ignore")
def _compare(tolerance: Tolerance, buffer: Buffer, got: Array, want: Any) -> str:
    exact = isinstance(want, Stored) or not is_float(buffer.dtype)
    if exact or tolerance.kind == "bits":
        stored = want.array if isinstance(want, Stored) else narrow(buffer.dtype, want)
        return _different_bits(buffer.dtype, got, np.broadcast_to(stored, got.shape))
    value, target = widen(buffer.dtype, got), np.broadcast_to(np.asarray(want), got.shape)
    plain = narrow(buffer.dtype, target)
    odd = ~np.isfinite(widen(buffer.dtype, plain))
    off = _different_bits(buffer.dtype, got[odd], plain[odd])
    if off:
        return f"infinities and NaN: {off}"
    difference = np.abs(value[~odd] - target[~odd].astype(np.longdouble))
    if tolerance.kind == "near":
        worst = float(np.max(difference, initial=0) / max(float(np.max(np.abs(target))), 1e-30))
    else:
        unit = spacing(buffer.dtype, target[~odd].astype(np.float64))
        worst = float(np.max(difference / unit, initial=0))
    # A NaN where a number is due is off by NaN, which no bound holds.
    return "" if worst <= tolerance.bound else f"off by {worst:.4g} {tolerance.kind}"


def spacing(dtype: str, values: Array) -> Array:
    """The unit in the last place of a format at finite values (of the smallest normal below)."""
    form = FLOATS[dtype]
    _, exponent = np.frexp(values)
    return np.ldexp(1.0, np.maximum(exponent - 1, form.least_exponent) - (form.precision - 1))


def _different_bits(dtype: str, got: Array, want: Array) -> str:
    a, b = (bits(np.ascontiguousarray(each)).ravel() for each in (got, want))
    if not (a != b).any():
        return ""
    at = int(np.nonzero(a != b)[0][0])
    shown = [widen(dtype, np.ascontiguousarray(each)).ravel()[at] for each in (got, want)]
    return (
        f"{int((a != b).sum())} of {a.size} differ, first at {at}: "
        f"{shown[0]} ({a[at]:#x}), expected {shown[1]} ({b[at]:#x})"
    )


def digest(outputs: list[Array]) -> str:
    found = hashlib.sha256()
    for array in outputs:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]
