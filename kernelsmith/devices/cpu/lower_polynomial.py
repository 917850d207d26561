"""Steps that the elementary functions share: polynomials, reductions, powers of two."""

import math

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import LANES


def horner(s: Asm, t: str, x: str, coefficients: tuple[float, ...], fused: bool) -> str:
    """The polynomial with these coefficients, highest power first."""
    total = s.const(t, coefficients[0])
    for c in coefficients[1:]:
        if fused:
            total = fl.fma(s, t, total, x, s.const(t, c))
        else:
            total = s.bin("fadd", t, s.bin("fmul", t, total, x), s.const(t, c))
    return total


def clamped(s: Asm, t: str, x: str, low: float, high: float) -> str:
    """x moved into [low, high]; NaN passes."""
    x = s.select(s.cmp("fcmp ogt", t, x, s.const(t, high)), t, s.const(t, high), x)
    return s.select(s.cmp("fcmp olt", t, x, s.const(t, low)), t, s.const(t, low), x)


def scale(s: Asm, t: str, value: str, n: str) -> str:
    """value * 2^n in two exact steps and one rounding, for any n that a result can need."""
    i, bias, shift = ("i32", 127, 23) if t == "float" else ("i64", 1023, 52)
    half = s.bin("ashr", i, n, s.const(i, 1))
    for part in (half, s.bin("sub", i, n, half)):
        power = s.bin("shl", i, s.bin("add", i, part, s.const(i, bias)), s.const(i, shift))
        value = s.bin("fmul", t, value, s.cast("bitcast", i, power, t))
    return value


def nearest(s: Asm, t: str, x: str) -> tuple[str, str]:
    """The nearest integer of a small value, as a float and as an integer; NaN gives no trap."""
    i = "i32" if t == "float" else "i64"
    magic = 1.5 * 2.0 ** (23 if t == "float" else 52)
    shifted = s.bin("fadd", t, x, s.const(t, magic))
    whole = s.bin("fsub", t, shifted, s.const(t, magic))
    bits = s.cast("bitcast", t, shifted, i)
    magic_bits = fl.bits_of("f32" if t == "float" else "f64", magic)
    return whole, s.bin("sub", i, bits, s.const(i, magic_bits))


def scaled_once(s: Asm, value: str, n: str) -> str:
    """float32 value * 2^n for a whole ``n`` that is a float, by AVX-512's instruction for it: one
    rounding, the bits of :func:`scale`. Vectors of 4 to 32 lanes."""
    many = s.ty("float")
    if s.lanes > LANES:
        half = Asm(s.em, s.level, LANES)
        parts = []
        for first in (0, LANES):
            pick = ", ".join(f"i32 {first + i}" for i in range(LANES))
            sides = [
                s.op(f"shufflevector {many} {v}, {many} poison, <{LANES} x i32> <{pick}>")
                for v in (value, n)
            ]
            parts.append(scaled_once(half, *sides))
        pick = ", ".join(f"i32 {i}" for i in range(s.lanes))
        t = half.ty("float")
        return s.op(f"shufflevector {t} {parts[0]}, {t} {parts[1]}, <{s.lanes} x i32> <{pick}>")
    mask = f"i{max(8, s.lanes)}"
    # Only the widest form takes a rounding mode: 4 is the current one.
    kind, mode = (", i32", ", i32 4") if s.lanes == LANES else ("", "")
    name = f"llvm.x86.avx512.mask.scalef.ps.{32 * s.lanes}"
    s.em.declare(name, f"{many} @{name}({many}, {many}, {many}, {mask}{kind})")
    none = f"{many} zeroinitializer, {mask} -1{mode}"
    return s.op(f"call {many} @{name}({many} {value}, {many} {n}, {none})")


def split(s: Asm, t: str, x: str) -> tuple[str, str]:
    """x = m * 2^e with m in [sqrt(1/2), sqrt(2)); returns m - 1 and e as a float."""
    i, bias, shift = ("i32", 127, 23) if t == "float" else ("i64", 1023, 52)
    tiny = s.cmp("fcmp olt", t, x, s.const(t, 2.0 ** (1 - bias)))
    raised = s.bin("fmul", t, x, s.const(t, 2.0 ** (shift + 2)))
    bits = s.cast("bitcast", t, s.select(tiny, t, raised, x), i)
    # Adding (1 - sqrt(1/2)'s mantissa) carries into the exponent when m would be >= sqrt(2).
    root = fl.bits_of("f32" if t == "float" else "f64", math.sqrt(0.5))
    moved = s.bin("sub", i, bits, s.const(i, root))
    e = s.bin("ashr", i, moved, s.const(i, shift))
    m = s.bin("sub", i, bits, s.bin("shl", i, e, s.const(i, shift)))
    f = s.bin("fsub", t, s.cast("bitcast", i, m, t), s.const(t, 1.0))
    e = s.bin("sub", i, e, s.select(tiny, i, s.const(i, shift + 2), s.const(i, 0)))
    return f, s.cast("sitofp", i, e, t)
