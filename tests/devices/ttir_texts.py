"""TTIR texts for tests, and runs of them on every CPU level this machine has."""

import re
import struct
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelsmith.devices.cpu.codegen_target import LEVELS, host_level
from kernelsmith.devices.cpu.compile import compile_ttir
from kernelsmith.devices.cpu.kernel import LoadedKernel, load

Array = npt.NDArray[Any]

STORAGE: dict[str, Any] = {
    "i1": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": np.uint8,
    "f8E5M2": np.uint8,
    "f8E4M3FNUZ": np.uint8,
    "f8E5M2FNUZ": np.uint8,
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
    ins: tuple[str, ...], outs: list[tuple[str, str]], shape: tuple[int, ...] = (256,)
) -> str:
    """A kernel that computes several results from whole arrays.

    ``outs``: (ops that give ``%r`` from ``%x0``, ``%x1``, ..., element type of ``%r``).
    ``$T(elem)`` stands for the tensor type of that element type. i1 arrays are bytes."""
    size = int(np.prod(shape))
    dims = "x".join(map(str, shape))

    def tensor(elem: str) -> str:
        return f"tensor<{dims}x{elem}>"

    lines = [
        f"%lin = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>",
        f"%at = tt.reshape %lin : tensor<{size}xi32> -> {tensor('i32')}",
    ]
    args = []
    for i, elem in enumerate(ins):
        lines += _load(f"%x{i}", f"%a{i}", elem, tensor)
        args.append(f"%a{i}: !tt.ptr<{elem}>")
    for i, (body, elem) in enumerate(outs):
        for line in body.strip().splitlines():
            line = re.sub(r"\$T\((\w+)\)", lambda found: tensor(found.group(1)), line.strip())
            lines.append(re.sub(r"%(r|t\d*)\b", rf"%\g<1>_{i}", line))
        memory, value = elem, f"%r_{i}"
        if elem == "i1":
            lines.append(f"%b_{i} = arith.extui {value} : {tensor('i1')} to {tensor('i8')}")
            memory, value = "i8", f"%b_{i}"
        pointer = f"!tt.ptr<{memory}>"
        lines += [
            f"%s_{i} = tt.splat %o{i} : {pointer} -> {tensor(pointer)}",
            f"%p_{i} = tt.addptr %s_{i}, %at : {tensor(pointer)}, {tensor('i32')}",
            f"tt.store %p_{i}, {value} : {tensor(pointer)}",
        ]
        args.append(f"%o{i}: {pointer}")
    return function("k", args, [*lines, "tt.return"])


def _load(name: str, base: str, elem: str, tensor: Any) -> list[str]:
    pointer = f"!tt.ptr<{elem}>"
    return [
        f"{name}s = tt.splat {base} : {pointer} -> {tensor(pointer)}",
        f"{name}p = tt.addptr {name}s, %at : {tensor(pointer)}, {tensor('i32')}",
        f"{name} = tt.load {name}p : {tensor(pointer)}",
    ]


def function(name: str, args: list[str], lines: list[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    header = f"  tt.func public @{name}({', '.join(args)}) attributes {{noinline = false}} {{"
    return f"module {{\n{header}\n{body}\n  }}\n}}\n"


def apply(
    ins: tuple[str, ...],
    outs: list[tuple[str, str]],
    *inputs: Array,
    shape: tuple[int, ...] = (256,),
) -> list[Array]:
    """Results of an :func:`elementwise` kernel; every CPU level must give the same bytes."""
    text = elementwise(ins, outs, shape)
    per_level = []
    for cpu in levels():
        results = [np.zeros(shape, STORAGE[elem]) for _, elem in outs]
        run(text, *inputs, *results, cpu=cpu)
        per_level.append(results)
    for other in per_level[1:]:
        for (body, _), a, b in zip(outs, per_level[0], other, strict=True):
            assert a.tobytes() == b.tobytes(), body
    return per_level[0]


def canonical(elem: str, values: Array) -> Array:
    """The array with every NaN replaced by the device's."""
    nan = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}
    out = values.copy()
    out.view(f"u{out.itemsize}")[np.isnan(widen(elem, out))] = nan[elem]
    return out


def same_bits(got: Array, want: Array, what: str) -> None:
    """Equal bytes, or the first differing element in the message."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.tobytes() == want.tobytes():
        return
    bits = [np.ascontiguousarray(a).view(f"u{a.itemsize}").ravel() for a in (got, want)]
    at = int(np.nonzero(bits[0] != bits[1])[0][0])
    raise AssertionError(
        f"{what}: {int((bits[0] != bits[1]).sum())} differ, first at {at}: "
        f"{got.ravel()[at]} {bits[0][at]:#x}, expected {want.ravel()[at]} {bits[1][at]:#x}"
    )


def bf16_bits(values: Array) -> Array:
    """float32 to bfloat16 bits, to nearest even, NaN canonical: the definition."""
    word = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    out = ((word + 0x7FFF + ((word >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(
        np.uint16
    )
    out[np.isnan(values)] = 0x7FC0
    return out


def bf16_float(bits: Array) -> Array:
    """bfloat16 bits to float32, exact."""
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
    """Stored values as floats of the type arithmetic is done in."""
    if elem == "f16":
        return values.astype(np.float32)
    return bf16_float(values) if elem == "bf16" else values
