"""Floating-point building blocks with fixed bits: conversions, rounding, fma, max/min, NaN.

Formulas work on ``float`` and ``double`` operands. float16 and bfloat16 live in registers as
their 16 bits; arithmetic on them is done in float32 and rounded after each operation.

NaN: the result of an arithmetic operation that is NaN counts as the canonical quiet NaN
(0x7FC00000, 0x7E00, 0x7FC0, 0x7FF8000000000000). The hardware's own choice depends on operand
order, so results carry a "dirty" mark, and the canonical NaN is put in where bits are seen: at
stores, bit casts, sign operations, selects against clean values and conversions to 16 bits.
Moves (loads, selects, shape operations) keep payloads.
"""

import struct

from kernelsmith.devices.cpu import lower_narrow as narrow
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_fma import fma_double
from kernelsmith.devices.cpu.lower_narrow import LAYOUTS
from kernelsmith.devices.cpu.ttir import BITS, EIGHT_BITS

NAN_BITS = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000,
            **{name: form.nan for name, form in LAYOUTS.items() if form.bits == 8}}  # fmt: skip
_INT_OF = {"float": "i32", "double": "i64"}


def bits_of(elem: str, value: float) -> int:
    """Bits of a Python float rounded to the type (bfloat16 to nearest even)."""
    if elem == "bf16":
        if value != value:
            return NAN_BITS["bf16"]
        word: int = struct.unpack("<I", struct.pack("<f", value))[0]
        return (word + 0x7FFF + ((word >> 16) & 1)) >> 16 & 0xFFFF
    if elem in EIGHT_BITS:
        return narrow.bits_of(elem, value)
    form = {"f16": "<e<H", "f32": "<f<I", "f64": "<d<Q"}[elem]
    bits: int = struct.unpack(form[2:], struct.pack(form[:2], value))[0]
    return bits


def canonical(s: Asm, elem: str, value: str) -> str:
    """``value`` with any NaN replaced by the canonical one.

    On integers: LLVM takes all NaNs for equal and may drop a select between floats."""
    if BITS[elem] <= 16:
        return value  # made canonical when it was rounded
    t, i = ("float", "i32") if elem == "f32" else ("double", "i64")
    nan, inf = NAN_BITS[elem], NAN_BITS[elem] & ~(1 << (51 if t == "double" else 22))
    bits = s.cast("bitcast", t, value, i)
    size = s.bin("and", i, bits, s.const(i, (1 << (63 if t == "double" else 31)) - 1))
    bad = s.cmp("icmp sgt", i, size, s.const(i, inf))
    return s.cast("bitcast", i, s.select(bad, i, s.const(i, nan), bits), t)


def bf16_to_f32(s: Asm, bits: str) -> str:
    """Exact; NaN payloads stay."""
    wide = s.cast("zext", "i16", bits, "i32")
    return s.cast("bitcast", "i32", s.bin("shl", "i32", wide, s.const("i32", 16)), "float")


def f32_to_bf16(s: Asm, value: str) -> str:
    """Round to nearest even; NaN becomes 0x7FC0."""
    word = s.cast("bitcast", "float", value, "i32")
    odd = s.bin("and", "i32", s.bin("lshr", "i32", word, s.const("i32", 16)), s.const("i32", 1))
    up = s.bin("add", "i32", s.bin("add", "i32", word, s.const("i32", 0x7FFF)), odd)
    bad = s.cmp("fcmp uno", "float", value, value)
    up = s.select(bad, "i32", s.const("i32", 0x7FC00000), up)
    return s.cast("trunc", "i32", s.bin("lshr", "i32", up, s.const("i32", 16)), "i16")


def f16_to_f32(s: Asm, bits: str) -> str:
    """Exact; a NaN keeps its payload bits and becomes quiet."""
    if s.em.features.f16c:
        return s.cast("fpext", "half", s.cast("bitcast", "i16", bits, "half"), "float")
    word = s.cast("zext", "i16", bits, "i32")
    sign = s.bin(
        "shl", "i32", s.bin("and", "i32", word, s.const("i32", 0x8000)), s.const("i32", 16)
    )
    rest = s.bin("and", "i32", word, s.const("i32", 0x7FFF))
    moved = s.bin("shl", "i32", rest, s.const("i32", 13))
    # Scaling by 2^112 moves the exponent; it is exact for normal and subnormal halves alike.
    scaled = s.bin(
        "fmul", "float", s.cast("bitcast", "i32", moved, "float"), s.const("float", 2.0**112)
    )
    finite = s.cast("bitcast", "float", scaled, "i32")
    special = s.bin("or", "i32", moved, s.const("i32", 0x7F800000))
    quiet = s.bin("or", "i32", special, s.const("i32", 0x00400000))
    is_nan = s.cmp("icmp ugt", "i32", rest, s.const("i32", 0x7C00))
    is_special = s.cmp("icmp uge", "i32", rest, s.const("i32", 0x7C00))
    special = s.select(is_nan, "i32", quiet, special)
    out = s.bin("or", "i32", s.select(is_special, "i32", special, finite), sign)
    return s.cast("bitcast", "i32", out, "float")


def f32_to_f16(s: Asm, value: str) -> str:
    """Round to nearest even; NaN becomes 0x7E00."""
    word = s.cast("bitcast", "float", value, "i32")
    bad = s.cmp("fcmp uno", "float", value, value)
    if s.em.features.f16c:
        half = s.cast("bitcast", "half", s.cast("fptrunc", "float", value, "half"), "i16")
        return s.select(bad, "i16", s.const("i16", 0x7E00), half)
    sign = s.bin(
        "lshr", "i32", s.bin("and", "i32", word, s.const("i32", -(1 << 31))), s.const("i32", 16)
    )
    rest = s.bin("and", "i32", word, s.const("i32", 0x7FFFFFFF))
    # Normal halves: rebias, then round the 13 low bits to nearest even.
    odd = s.bin("and", "i32", s.bin("lshr", "i32", rest, s.const("i32", 13)), s.const("i32", 1))
    normal = s.bin("add", "i32", rest, s.const("i32", 0xFFF - (112 << 23)))
    normal = s.bin("lshr", "i32", s.bin("add", "i32", normal, odd), s.const("i32", 13))
    # Subnormal halves: adding 0.5 lets the adder round to a multiple of 2^-24.
    small = s.bin("fadd", "float", s.cast("bitcast", "i32", rest, "float"), s.const("float", 0.5))
    low = s.bin("sub", "i32", s.cast("bitcast", "float", small, "i32"), s.const("i32", 0x3F000000))
    is_small = s.cmp("icmp ult", "i32", rest, s.const("i32", 113 << 23))
    out = s.select(is_small, "i32", low, normal)
    is_big = s.cmp("icmp uge", "i32", rest, s.const("i32", 0x477FF000))
    out = s.select(is_big, "i32", s.const("i32", 0x7C00), out)
    out = s.bin("or", "i32", out, sign)
    out = s.select(bad, "i32", s.const("i32", 0x7E00), out)
    return s.cast("trunc", "i32", out, "i16")


def odd_double(s: Asm, total: str, a: str, b: str) -> str:
    """``a + b`` in double rounded to odd, given ``total`` = the sum rounded to nearest. Rounding
    the result once more to a narrower type gives the correctly rounded sum."""
    back = s.bin("fsub", "double", total, a)
    err = s.bin(
        "fadd",
        "double",
        s.bin("fsub", "double", a, s.bin("fsub", "double", total, back)),
        s.bin("fsub", "double", b, back),
    )
    word = s.cast("bitcast", "double", total, "i64")
    even = s.cmp("icmp eq", "i64", s.bin("and", "i64", word, s.const("i64", 1)), s.const("i64", 0))
    inexact = s.cmp("fcmp one", "double", err, s.const("double", 0.0))
    fix = s.bin("and", "i1", even, inexact)
    # Toward the error: one up in magnitude if error and total have the same sign, else one down.
    same = s.cmp(
        "icmp sge",
        "i64",
        s.bin("xor", "i64", s.cast("bitcast", "double", err, "i64"), word),
        s.const("i64", 0),
    )
    delta = s.select(same, "i64", s.const("i64", 1), s.const("i64", -1))
    moved = s.bin("add", "i64", word, delta)
    return s.cast("bitcast", "i64", s.select(fix, "i64", moved, word), "double")


def fma(s: Asm, t: str, a: str, b: str, c: str) -> str:
    """a * b + c rounded once, on every CPU level."""
    if s.em.features.fma:
        return s.call("fma", t, a, b, c)
    if t == "double":
        return fma_double(s, a, b, c)
    a, b, c = (s.cast("fpext", "float", x, "double") for x in (a, b, c))
    product = s.bin("fmul", "double", a, b)
    total = s.bin("fadd", "double", product, c)
    return s.cast("fptrunc", "double", odd_double(s, total, product, c), "float")


def fma_narrow(s: Asm, elem: str, a: str, b: str, c: str) -> str:
    """a * b + c of float32 values that come from a type of 16 or 8 bits, rounded once to it: the
    product is exact in float64, the sum there is rounded to odd."""
    a, b, c = (s.cast("fpext", "float", x, "double") for x in (a, b, c))
    product = s.bin("fmul", "double", a, b)
    total = s.bin("fadd", "double", product, c)
    return f64_to_narrow(s, elem, odd_double(s, total, product, c))


def extreme(s: Asm, t: str, a: str, b: str, largest: bool, propagate_nan: bool) -> str:
    """max or min with -0 < +0. A NaN operand gives NaN, or is ignored."""
    i = _INT_OF[t]
    picked = s.select(s.cmp("fcmp ogt" if largest else "fcmp olt", t, a, b), t, a, b)
    bits_a, bits_b = (s.cast("bitcast", t, x, i) for x in (a, b))
    tie = s.cast("bitcast", i, s.bin("and" if largest else "or", i, bits_a, bits_b), t)
    picked = s.select(s.cmp("fcmp oeq", t, a, b), t, tie, picked)
    # Without an order between them ``picked`` is b.
    nan = a if propagate_nan else b
    return s.select(s.cmp("fcmp uno", t, nan, nan), t, a, picked)


def to_float(s: Asm, elem: str, value: str) -> str:
    """A register value of a float element type as the type that arithmetic is done in."""
    if elem == "bf16":
        return bf16_to_f32(s, value)
    if elem in EIGHT_BITS:
        return narrow.to_f32(s, elem, value)
    return f16_to_f32(s, value) if elem == "f16" else value


def from_float(s: Asm, elem: str, value: str) -> str:
    """Rounds a float32 to the element type (float32 and float64 pass)."""
    if elem == "bf16":
        return f32_to_bf16(s, value)
    if elem in EIGHT_BITS:
        return narrow.from_f32(s, elem, value)
    return f32_to_f16(s, value) if elem == "f16" else value


def compute_type(elem: str) -> str:
    """LLVM type that arithmetic on an element type is done in."""
    return "double" if elem == "f64" else "float"


def f64_to_narrow(s: Asm, elem: str, value: str) -> str:
    """float64 to a type of 16 or 8 bits, rounded once: to odd in float32 first, then to nearest
    even."""
    return from_float(s, elem, odd_single(s, value))


def odd_single(s: Asm, value: str) -> str:
    """float64 to float32 rounded to odd: a later rounding to fewer bits is then exact."""
    near = s.cast("fptrunc", "double", value, "float")
    back = s.cast("fpext", "float", near, "double")
    word = s.cast("bitcast", "float", near, "i32")
    inexact = s.cmp("fcmp one", "double", back, value)
    even = s.cmp("icmp eq", "i32", s.bin("and", "i32", word, s.const("i32", 1)), s.const("i32", 0))
    too_big = s.cmp(
        "fcmp ogt", "double", s.call("fabs", "double", back), s.call("fabs", "double", value)
    )
    delta = s.select(too_big, "i32", s.const("i32", -1), s.const("i32", 1))
    odd = s.bin("add", "i32", word, delta)
    word = s.select(s.bin("and", "i1", inexact, even), "i32", odd, word)
    return s.cast("bitcast", "i32", word, "float")


def toward_zero(s: Asm, source: str, target: str, value: str) -> str:
    """A downcast between float types that cuts; NaN becomes canonical."""
    if target == "f32":
        return canonical(s, "f32", narrow.f64_toward_zero(s, value))
    wide = narrow.f64_toward_zero(s, value) if source == "f64" else to_float(s, source, value)
    if target == "bf16":
        return narrow.bf16_toward_zero(s, wide)
    return narrow.from_f32(s, target, wide, toward_zero=True)
