"""TTIR texts for tests, and runs of them on every CPU level this machine has."""

import struct
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelsmith.devices.cpu.codegen_target import LEVELS, host_level
from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.kernel import LoadedKernel, load

Array = npt.NDArray[Any]

STORAGE: dict[str, type[np.generic]] = {
    "i1": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
}


def levels() -> tuple[str, ...]:
    """CPU levels that this machine can run."""
    return LEVELS[: LEVELS.index(host_level()) + 1]


@cache
def compiled(text: str, cpu: str) -> LoadedKernel:
    done = compile_ttir(text, cpu=cpu)
    return load(done.info, done.code)


def pack(params: tuple[str, ...], values: tuple[Any, ...]) -> bytes:
    """Arguments in the kernel ABI: 8-byte slots."""
    slots = []
    for kind, value in zip(params, values, strict=True):
        if isinstance(value, np.ndarray):
            slots.append(struct.pack("<Q", value.ctypes.data))
        elif kind in ("f32", "f64"):
            slots.append(struct.pack("<f" if kind == "f32" else "<d", value).ljust(8, b"\0"))
        else:
            slots.append(struct.pack("<q", value))
    return b"".join(slots)


def run(
    text: str, *values: Any, grid: tuple[int, int, int] = (1, 1, 1), cpu: str = "host"
) -> LoadedKernel:
    """Runs a kernel over numpy arrays (written in place) and scalars."""
    kernel = compiled(text, cpu)
    kernel.run(pack(kernel.info.params, values), grid)
    return kernel


def elementwise(
    body: str, ins: tuple[str, ...], out: str, shape: tuple[int, ...] = (64,), extra: str = ""
) -> str:
    """A kernel that applies ``body`` (ops on %x0, %x1, ... giving %r) to whole arrays.

    ``$T(elem)`` in the body stands for the tensor type of that element type."""
    size = int(np.prod(shape))
    dims = "x".join(map(str, shape))

    def tensor(elem: str) -> str:
        return f"tensor<{dims}x{elem}>"

    lines = [f"%lin = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>"]
    at = "%lin"
    if len(shape) > 1:
        lines.append(f"%at = tt.reshape %lin : tensor<{size}xi32> -> {tensor('i32')}")
        at = "%at"
    for i, elem in enumerate(ins):
        memory = "i8" if elem == "i1" else elem
        lines += _load(f"%x{i}", f"%a{i}", memory, at, tensor)
        if elem == "i1":
            lines[-1] = lines[-1].replace(f"%x{i} =", f"%b{i} =")
            lines += [
                f"%z{i} = arith.constant dense<0> : {tensor('i8')}",
                f"%x{i} = arith.cmpi ne, %b{i}, %z{i} : {tensor('i8')}",
            ]
    for line in body.strip().splitlines():
        while "$T(" in line:
            start = line.index("$T(")
            end = line.index(")", start)
            line = line[:start] + tensor(line[start + 3 : end]) + line[end + 1 :]
        lines.append(line.strip())
    memory = "i8" if out == "i1" else out
    result = "%r"
    if out == "i1":
        lines.append(f"%r8 = arith.extui %r : {tensor('i1')} to {tensor('i8')}")
        result = "%r8"
    pointer = f"!tt.ptr<{memory}>"
    lines += [
        f"%os = tt.splat %o : {pointer} -> {tensor(pointer)}",
        f"%op = tt.addptr %os, {at} : {tensor(pointer)}, {tensor('i32')}",
        f"tt.store %op, {result} : {tensor(pointer)}",
        "tt.return",
    ]
    args = [f"%a{i}: !tt.ptr<{'i8' if e == 'i1' else e}>" for i, e in enumerate(ins)]
    return function("k", [*args, f"%o: {pointer}"], lines) + extra


def _load(name: str, base: str, elem: str, at: str, tensor: Any) -> list[str]:
    pointer = f"!tt.ptr<{elem}>"
    return [
        f"{name}s = tt.splat {base} : {pointer} -> {tensor(pointer)}",
        f"{name}p = tt.addptr {name}s, {at} : {tensor(pointer)}, {tensor('i32')}",
        f"{name} = tt.load {name}p : {tensor(pointer)}",
    ]


def function(name: str, args: list[str], lines: list[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    header = f"  tt.func public @{name}({', '.join(args)}) attributes {{noinline = false}} {{"
    return f"module {{\n{header}\n{body}\n  }}\n}}\n"


def apply(text: str, out: str, *inputs: Array, shape: tuple[int, ...] = (64,)) -> Array:
    """Runs an :func:`elementwise` kernel on every level; the bytes must agree."""
    results = []
    for cpu in levels():
        result = np.zeros(shape, STORAGE[out])
        run(text, *inputs, result, cpu=cpu)
        results.append(result)
    for other in results[1:]:
        assert other.tobytes() == results[0].tobytes()
    return results[0]


def bf16_bits(values: Array) -> Array:
    """float32 to bfloat16 bits, to nearest even, NaN canonical: the definition."""
    word = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    out = ((word + 0x7FFF + ((word >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(
        np.uint16
    )
    out[np.isnan(values)] = 0x7FC0
    return out


def bf16_float(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def floats(elem: str, size: int, seed: int = 0) -> Array:
    """Random bit patterns of every magnitude, with the special values in front."""
    rng = np.random.default_rng(seed)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -2.5, 3.0]
    size_bytes = np.dtype(STORAGE[elem]).itemsize
    width = np.dtype(f"u{size_bytes}")
    out = np.frombuffer(rng.bytes(size * size_bytes), width).copy().view(STORAGE[elem])
    values = np.array(special, np.float64)
    with np.errstate(all="ignore"):
        head = bf16_bits(values.astype(np.float32)) if elem == "bf16" else values.astype(out.dtype)
    out[: len(head)] = head
    # Subnormals, the largest finite value and a signalling NaN with a payload.
    tiny = {"f16": [1, 0x8001, 0x3FF, 0x7BFF, 0x7C01], "bf16": [1, 0x8001, 0x7F, 0x7F7F, 0x7F81],
            "f32": [1, 0x80000001, 0x7FFFFF, 0x7F7FFFFF, 0x7F800001],
            "f64": [1, 2**63 + 1, 2**52 - 1, 2**63 - 2**52 - 1, 0x7FF0000000000001]}  # fmt: skip
    out.view(width)[12:17] = np.array(tiny[elem[:4]], width)
    # Half of the rest at ordinary magnitudes, where rounding matters.
    ordinary = rng.standard_normal(size) * np.exp(rng.uniform(-5, 5, size))
    pick = np.arange(size) % 2 == 0
    pick[:17] = False
    small = ordinary.astype(np.float32)
    out[pick] = (bf16_bits(small) if elem == "bf16" else ordinary.astype(out.dtype))[pick]
    return out


def widen(elem: str, values: Array) -> Array:
    return bf16_float(values) if elem == "bf16" else values
