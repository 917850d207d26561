"""Steps that the elementary functions share: polynomials, reductions, powers of two."""

import math

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm


def horner(s: Asm, t: str, x: str, coefficients: tuple[float, ...], fused: bool) -> str:
    total = s.const(t, coefficients[0])
    for c in coefficients[1:]:
        if fused:
            total = fl.fma(s, t, total, x, s.const(t, c))
        else:
            total = s.bin("fadd", t, s.bin("fmul", t, total, x), s.const(t, c))
    return total


def clamped(s: Asm, t: str, x: str, low: float, high: float) -> str:
    """NaN passes."""
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
