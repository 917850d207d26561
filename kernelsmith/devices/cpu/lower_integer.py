"""Integer operations with every case defined.

Arithmetic wraps. Division and remainder by zero give 0 and the dividend; INT_MIN / -1 wraps to
INT_MIN with remainder 0. A shift by the width or more gives 0, or the sign for an arithmetic
right shift. Float to integer saturates, NaN gives 0.
"""

from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.ttir import BITS

SIMPLE = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
}
PREDICATES = {p: p for p in ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")}
_MINMAX = {"maxsi": "sgt", "maxui": "ugt", "minsi": "slt", "minui": "ult"}


def binary(s: Asm, name: str, elem: str, a: str, b: str) -> str:
    """One of the ops of ``ttir_ops.BINARY_INT``."""
    if name in SIMPLE:
        return s.bin(SIMPLE[name], elem, a, b)
    short = name.split(".")[-1]
    if short in _MINMAX:
        return s.select(s.cmp(f"icmp {_MINMAX[short]}", elem, a, b), elem, a, b)
    if short in ("shli", "shrsi", "shrui"):
        return _shift(s, short, elem, a, b)
    if short == "mulhiui":
        return _mulhi(s, elem, a, b)
    return _divide(s, short, elem, a, b)


def _shift(s: Asm, short: str, elem: str, a: str, b: str) -> str:
    width = BITS[elem]
    inside = s.cmp("icmp ult", elem, b, s.const(elem, width))
    safe = s.select(inside, elem, b, s.const(elem, width - 1))
    if short == "shrsi":
        return s.bin("ashr", elem, a, safe)
    shifted = s.bin("shl" if short == "shli" else "lshr", elem, a, safe)
    return s.select(inside, elem, shifted, s.const(elem, 0))


def _mulhi(s: Asm, elem: str, a: str, b: str) -> str:
    width = BITS[elem]
    wide = f"i{width * 2}"
    product = s.bin("mul", wide, s.cast("zext", elem, a, wide), s.cast("zext", elem, b, wide))
    high = s.bin("lshr", wide, product, s.const(wide, width))
    return s.cast("trunc", wide, high, elem)


def _guarded(s: Asm, elem: str, a: str, b: str, signed: bool) -> tuple[str, str, str]:
    """A divisor that cannot trap, and the conditions "is zero" and "overflows" (or "")."""
    zero = s.cmp("icmp eq", elem, b, s.const(elem, 0))
    safe = s.select(zero, elem, s.const(elem, 1), b)
    if not signed or elem == "i1":
        return safe, zero, ""
    low = s.cmp("icmp eq", elem, a, s.const(elem, -(1 << (BITS[elem] - 1))))
    minus = s.cmp("icmp eq", elem, b, s.const(elem, -1))
    over = s.bin("and", "i1", low, minus)
    return s.select(over, elem, s.const(elem, 1), safe), zero, over


def _divide(s: Asm, short: str, elem: str, a: str, b: str) -> str:
    signed = short.endswith("si")
    divisor, zero, _ = _guarded(s, elem, a, b, signed)
    letter = "s" if signed else "u"
    # With the divisor replaced by 1: INT_MIN / 1 = INT_MIN and INT_MIN % 1 = 0, as documented.
    if short.startswith("rem"):
        rest = s.bin(f"{letter}rem", elem, a, divisor)
        return s.select(zero, elem, a, rest)
    quotient = s.bin(f"{letter}div", elem, a, divisor)
    if short.startswith(("ceildiv", "floordiv")):
        rest = s.bin(f"{letter}rem", elem, a, divisor)
        uneven = s.cmp("icmp ne", elem, rest, s.const(elem, 0))
        if signed:
            mixed = s.cmp("icmp slt", elem, s.bin("xor", elem, a, divisor), s.const(elem, 0))
            if short.startswith("ceildiv"):
                mixed = s.bin("xor", "i1", mixed, s.const("i1", 1))
            uneven = s.bin("and", "i1", uneven, mixed)
        one = s.const(elem, 1 if short.startswith("ceildiv") else -1)
        moved = s.bin("add", elem, quotient, one)
        quotient = s.select(uneven, elem, moved, quotient)
    return s.select(zero, elem, s.const(elem, 0), quotient)


def absolute(s: Asm, elem: str, a: str) -> str:
    """|a|; the most negative integer stays as it is."""
    negative = s.cmp("icmp slt", elem, a, s.const(elem, 0))
    return s.select(negative, elem, s.bin("sub", elem, s.const(elem, 0), a), a)


def float_to_int(s: Asm, t: str, value: str, elem: str, signed: bool) -> str:
    """Truncates toward zero; saturates; NaN gives 0."""
    bits = BITS[elem]
    source = {"float": "f32", "double": "f64"}[t]
    suffix = f"v{s.lanes}{{}}" if s.lanes else "{}"
    kind = "fptosi" if signed else "fptoui"
    full = f"llvm.{kind}.sat.{suffix.format(f'i{bits}')}.{suffix.format(source)}"
    s.em.declare(full, f"{s.ty(elem)} @{full}({s.ty(t)})")
    return s.op(f"call {s.ty(elem)} @{full}({s.ty(t)} {value})")
