"""Kernels of one op over whole tensors, and scalar regions that numpy can follow.

A :class:`Region` is the function that a reduction, scan or map applies, as TTIR and as numpy: it is
made of random steps, or of named ones. Its arguments are ``%a0 .. %an`` (left, then right).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tests.devices.ttir_texts import (
    STORAGE,
    Array,
    bf16_bits,
    bf16_float,
    canonical,
    function,
    levels,
    run,
)

T = TypeVar("T")
Pick = Callable[[Sequence[T]], T]
Shape = tuple[int, ...]
Place = tuple[str, str, Shape]


def tensor(elem: str, shape: Shape) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{elem}>" if shape else elem


def kernel(
    ins: Sequence[tuple[str, Shape]],
    body: Sequence[str],
    outs: Sequence[Place],
    functions: Sequence[str] = (),
) -> str:
    """A kernel that loads ``%x0``, ``%x1``, ... from dense buffers, runs ``body`` and stores the
    named values to dense buffers. i1 values are stored as bytes."""
    lines: list[str] = []
    args: list[str] = []
    for i, (elem, shape) in enumerate(ins):
        lines += _pointers(f"%x{i}", f"%in{i}", elem, shape)
        lines.append(f"%x{i} = tt.load %x{i}p : {tensor(f'!tt.ptr<{elem}>', shape)}")
        args.append(f"%in{i}: !tt.ptr<{elem}>")
    lines += body
    for i, (value, elem, shape) in enumerate(outs):
        memory = elem
        if elem == "i1":
            memory = "i8"
            kinds = f"{tensor('i1', shape)} to {tensor('i8', shape)}"
            lines.append(f"%y{i}b = arith.extui {value} : {kinds}")
            value = f"%y{i}b"
        args.append(f"%out{i}: !tt.ptr<{memory}>")
        if not shape:
            lines.append(f"tt.store %out{i}, {value} : !tt.ptr<{memory}>")
            continue
        lines += _pointers(f"%y{i}", f"%out{i}", memory, shape)
        lines.append(f"tt.store %y{i}p, {value} : {tensor(f'!tt.ptr<{memory}>', shape)}")
    text = function("k", args, [*lines, "tt.return"])
    return text.removesuffix("}\n") + "\n".join([*functions, "}\n"])


def _pointers(name: str, base: str, elem: str, shape: Shape) -> list[str]:
    size = int(np.prod(shape))
    flat, whole = tensor("i32", (size,)), tensor("i32", shape)
    pointer = f"!tt.ptr<{elem}>"
    return [
        f"{name}l = tt.make_range {{end = {size} : i32, start = 0 : i32}} : {flat}",
        f"{name}i = tt.reshape {name}l : {flat} -> {whole}",
        f"{name}s = tt.splat {base} : {pointer} -> {tensor(pointer, shape)}",
        f"{name}p = tt.addptr {name}s, {name}i : {tensor(pointer, shape)}, {whole}",
    ]


def results(
    text: str, inputs: Sequence[Array], outs: Sequence[Place], cpus: Sequence[str] = ()
) -> list[Array]:
    """What a kernel stores, the same on every CPU level (or on those named)."""
    found = []
    for cpu in cpus or levels():
        got = [np.zeros(shape or (1,), STORAGE[elem]) for _, elem, shape in outs]
        run(text, *inputs, *got, cpu=cpu)
        found.append(got)
    for other in found[1:]:
        for (value, *_), a, b in zip(outs, found[0], other, strict=True):
            assert a.tobytes() == b.tobytes(), f"{value} differs between CPU levels"
    return found[0]


def arithmetic(name: str, elem: str, a: Array, b: Array) -> Array:
    """One op of TTIR on stored values, rounded as the device documents."""
    ops: dict[str, Callable[[Any, Any], Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor, "max": np.maximum, "min": np.minimum,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        if elem == "bf16":
            return bf16_bits(arithmetic(name, "f32", bf16_float(a), bf16_float(b)))
        if elem == "f16":
            wide = arithmetic(name, "f32", a.astype(np.float32), b.astype(np.float32))
            return canonical("f16", wide.astype(np.float16))
        if elem in ("f32", "f64"):
            if name in ("max", "min"):
                return _extreme(name, elem, a, b)
            return canonical(elem, ops[name](a, b))
        return np.asarray(ops[name](a, b)).astype(a.dtype)


def _extreme(name: str, elem: str, a: Array, b: Array) -> Array:
    """maxnumf and minnumf: a NaN operand is ignored, -0 < +0."""
    left = (a > b) if name == "max" else (a < b)
    out = np.where(np.isnan(b) | left, a, b)  # np.fmax gives a NaN for a signalling one
    zeros = (a == 0) & (b == 0)
    sign = np.signbit(a) & np.signbit(b) if name == "max" else np.signbit(a) | np.signbit(b)
    out = np.where(zeros, np.where(sign, -0.0, 0.0).astype(out.dtype), out)
    return canonical(elem, out)


def op_text(name: str, elem: str) -> str:
    """The TTIR op for a name of :func:`arithmetic`."""
    if elem in ("f16", "bf16", "f32", "f64"):
        return "arith." + {"max": "maxnumf", "min": "minnumf"}.get(name, f"{name}f")
    suffix = "si" if name in ("max", "min") else "i"
    return f"arith.{name}{suffix}"


@dataclass(frozen=True)
class Region:
    """``lines`` and what they do to arrays; ``results`` are the names that are returned."""

    elems: tuple[str, ...]
    lines: tuple[str, ...]
    returned: tuple[str, ...]
    apply: Callable[[list[Array]], list[Array]]
    functions: tuple[str, ...] = ()

    def text(self, op: str, operands: Sequence[str], attrs: str, types: str) -> list[str]:
        """The op with this region, e.g. ``tt.scan``; results are ``%y`` or ``%y#0`` ..."""
        count = len(self.returned)
        args = ", ".join(f"%a{i}: {elem}" for i, elem in enumerate(self.elems))
        given, kinds = ", ".join(self.returned), ", ".join(self.elems[:count])
        many = f":{count}" if count > 1 else ""
        return [
            f'%y{many} = "{op}"({", ".join(operands)}) <{{{attrs}}}> ({{',
            f"^bb0({args}):",
            *self.lines,
            f"{op}.return {given} : {kinds}",
            f"}}) : {types}",
        ]


def simple(name: str, elem: str) -> Region:
    """``a op b``."""
    line = f"%r = {op_text(name, elem)} %a0, %a1 : {elem}"
    return Region((elem, elem), (line,), ("%r",), lambda v: [arithmetic(name, elem, v[0], v[1])])


def fold(region: Region, parts: list[list[Array]]) -> list[list[Array]]:
    """The left fold of per-element operand lists: all partial results."""
    out = [parts[0]]
    for part in parts[1:]:
        out.append(region.apply([*out[-1], *part]))
    return out
