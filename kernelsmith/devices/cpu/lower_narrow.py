"""Floats of 8 bits, and downcasts that round toward zero.

To nearest even, a downcast to 8 bits saturates: what is too large, infinity included, becomes the
largest finite number of its sign, as Triton's ``cvt.rn.satfinite`` does on NVIDIA. Toward zero,
infinity stays infinity where the type has one, and larger finite numbers become the largest finite
one. A NaN becomes the type's canonical NaN. The FNUZ types have no -0: it becomes 0.
"""

import math
import struct
from dataclasses import dataclass

from kernelsmith.devices.cpu.codegen_asm import Asm


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A narrow float type: mantissa bits, exponent bias, codes without sign of the largest finite
    number and of infinity (-1: there is none), code of the canonical NaN."""

    bits: int
    mantissa: int
    bias: int
    largest: int
    infinity: int
    nan: int

    @property
    def signed_zero(self) -> bool:
        """Whether there is a -0; in the FNUZ types its code is the NaN."""
        return self.nan != 0x80


LAYOUTS = {
    "f8E4M3FN": Layout(bits=8, mantissa=3, bias=7, largest=0x7E, infinity=-1, nan=0x7F),
    "f8E5M2": Layout(bits=8, mantissa=2, bias=15, largest=0x7B, infinity=0x7C, nan=0x7F),
    "f8E4M3FNUZ": Layout(bits=8, mantissa=3, bias=8, largest=0x7F, infinity=-1, nan=0x80),
    "f8E5M2FNUZ": Layout(bits=8, mantissa=2, bias=16, largest=0x7F, infinity=-1, nan=0x80),
    "f16": Layout(bits=16, mantissa=10, bias=15, largest=0x7BFF, infinity=0x7C00, nan=0x7E00),
}


def value_of(elem: str, code: int) -> float:
    """The number that a code of an 8-bit type stands for."""
    form = LAYOUTS[elem]
    sign, rest = (-1.0 if code & 0x80 else 1.0), code & 0x7F
    if rest == form.infinity:
        return sign * math.inf
    if (code == form.nan) if not form.signed_zero else rest > max(form.infinity, form.largest):
        return math.nan
    exponent, fraction = rest >> form.mantissa, rest & ((1 << form.mantissa) - 1)
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - form.bias - form.mantissa)
    whole = (1 << form.mantissa) + fraction
    return sign * math.ldexp(whole, exponent - form.bias - form.mantissa)


def bits_of(elem: str, value: float) -> int:
    """Code of a Python float rounded to an 8-bit type to nearest even, saturating."""
    form = LAYOUTS[elem]
    if value != value:
        return form.nan
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    size = abs(value)
    low = 1 - form.bias
    exponent = low if size == 0 or size == math.inf else max(low, math.frexp(size)[1] - 1)
    step = 2.0 ** (exponent - form.mantissa)
    steps = round(min(size, 2.0**20) / step)
    code = min(form.largest, steps + ((exponent - low) << form.mantissa))
    return code | (sign if code or form.signed_zero else 0)


def to_f32(s: Asm, elem: str, bits: str) -> str:
    """An 8-bit float as float32, exactly; NaN becomes 0x7FC00000."""
    form = LAYOUTS[elem]
    word = s.cast("zext", "i8", bits, "i32")
    rest = s.bin("and", "i32", word, s.const("i32", 0x7F))
    moved = s.bin("shl", "i32", rest, s.const("i32", 23 - form.mantissa))
    scaled = s.bin(
        "fmul",
        "float",
        s.cast("bitcast", "i32", moved, "float"),
        s.const("float", 2.0 ** (127 - form.bias)),
    )
    value = s.cast("bitcast", "float", scaled, "i32")
    if form.infinity >= 0:
        special = s.cmp("icmp eq", "i32", rest, s.const("i32", form.infinity))
        value = s.select(special, "i32", s.const("i32", 0x7F800000), value)
    sign = s.bin("shl", "i32", s.bin("and", "i32", word, s.const("i32", 0x80)), s.const("i32", 24))
    value = s.bin("or", "i32", value, sign)
    if form.signed_zero:
        bad = s.cmp("icmp ugt", "i32", rest, s.const("i32", max(form.infinity, form.largest)))
    else:
        bad = s.cmp("icmp eq", "i32", word, s.const("i32", form.nan))
    value = s.select(bad, "i32", s.const("i32", 0x7FC00000), value)
    return s.cast("bitcast", "i32", value, "float")


def from_f32(s: Asm, elem: str, value: str, *, toward_zero: bool = False) -> str:
    """A float32 rounded once to one of :data:`LAYOUTS`, as its bits."""
    form = LAYOUTS[elem]
    word = s.cast("bitcast", "float", value, "i32")
    size = s.bin("and", "i32", word, s.const("i32", 0x7FFFFFFF))
    shift = 23 - form.mantissa
    rebias = (127 - form.bias) << 23
    if toward_zero:
        normal = s.bin("sub", "i32", size, s.const("i32", rebias))
        # Below the normal numbers, the multiple of the smallest number that lies below.
        scaled = s.bin(
            "fmul",
            "float",
            s.cast("bitcast", "i32", size, "float"),
            s.const("float", 2.0 ** (form.bias - 1 + form.mantissa)),
        )
        tiny = _truncated(s, scaled)
    else:
        odd = s.bin("lshr", "i32", size, s.const("i32", shift))
        odd = s.bin("and", "i32", odd, s.const("i32", 1))
        half = (1 << (shift - 1)) - 1
        normal = s.bin("add", "i32", size, s.const("i32", half - rebias))
        normal = s.bin("add", "i32", normal, odd)
        # The adder rounds to a multiple of the smallest number.
        magic = 2.0 ** (24 - form.bias - form.mantissa)
        total = s.bin(
            "fadd", "float", s.cast("bitcast", "i32", size, "float"), s.const("float", magic)
        )
        total = s.cast("bitcast", "float", total, "i32")
        tiny = s.bin("sub", "i32", total, s.const("i32", _word(magic)))
    normal = s.bin("lshr", "i32", normal, s.const("i32", shift))
    small = s.cmp("icmp ult", "i32", size, s.const("i32", (128 - form.bias) << 23))
    code = s.select(small, "i32", tiny, normal)
    big = s.cmp("icmp ugt", "i32", code, s.const("i32", form.largest))
    code = s.select(big, "i32", s.const("i32", form.largest), code)
    if toward_zero and form.infinity >= 0:
        endless = s.cmp("icmp eq", "i32", size, s.const("i32", 0x7F800000))
        code = s.select(endless, "i32", s.const("i32", form.infinity), code)
    return _signed(s, form, word, size, code)


def _signed(s: Asm, form: Layout, word: str, size: str, code: str) -> str:
    """The code with the sign of ``word``, or the NaN."""
    sign = s.bin("lshr", "i32", word, s.const("i32", 32 - form.bits))
    sign = s.bin("and", "i32", sign, s.const("i32", 1 << (form.bits - 1)))
    if not form.signed_zero:
        zero = s.cmp("icmp eq", "i32", code, s.const("i32", 0))
        sign = s.select(zero, "i32", s.const("i32", 0), sign)
    code = s.bin("or", "i32", code, sign)
    bad = s.cmp("icmp ugt", "i32", size, s.const("i32", 0x7F800000))
    code = s.select(bad, "i32", s.const("i32", form.nan), code)
    return s.cast("trunc", "i32", code, f"i{form.bits}")


def bf16_toward_zero(s: Asm, value: str) -> str:
    """A float32 cut to bfloat16."""
    word = s.cast("bitcast", "float", value, "i32")
    bad = s.cmp("fcmp uno", "float", value, value)
    word = s.select(bad, "i32", s.const("i32", 0x7FC00000), word)
    return s.cast("trunc", "i32", s.bin("lshr", "i32", word, s.const("i32", 16)), "i16")


def f64_toward_zero(s: Asm, value: str) -> str:
    """A float64 rounded toward zero to float32."""
    near = s.cast("fptrunc", "double", value, "float")
    back = s.call("fabs", "double", s.cast("fpext", "float", near, "double"))
    over = s.cmp("fcmp ogt", "double", back, s.call("fabs", "double", value))
    word = s.cast("bitcast", "float", near, "i32")
    less = s.bin("sub", "i32", word, s.const("i32", 1))
    return s.cast("bitcast", "i32", s.select(over, "i32", less, word), "float")


def _truncated(s: Asm, value: str) -> str:
    """A small non-negative float32 as an integer; anything where it is not small."""
    suffix = f"v{s.lanes}i32.v{s.lanes}f32" if s.lanes else "i32.f32"
    name = f"llvm.fptoui.sat.{suffix}"
    s.em.declare(name, f"{s.ty('i32')} @{name}({s.ty('float')})")
    return s.op(f"call {s.ty('i32')} @{name}({s.ty('float')} {value})")


def _word(value: float) -> int:
    word: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return word
