"""``pow`` of float32: |x|^y = 2^(y log2 |x|) in float64, rounded once.

The cases are those of C: pow(x, 0) = pow(1, y) = 1 whatever the other is, NaN included; a negative
x needs a whole y, and an odd one gives a negative result, zeros and infinities too.
"""

import math
from collections.abc import Callable

from kernelsmith.devices.cpu.codegen_asm import Asm

Formula = Callable[[Asm, str], str]


def power(s: Asm, x: str, y: str, log2: Formula, exp2: Formula) -> str:
    """x^y for float64 operands that hold float32 values, good to float32.

    ``log2`` and ``exp2`` are the float64 functions."""
    t = "double"
    one, zero = s.const(t, 1.0), s.const(t, 0.0)
    size = s.call("fabs", t, x)
    value = exp2(s, s.bin("fmul", t, y, log2(s, size)))
    whole, odd = _parity(s, y)
    negative = s.cmp("icmp slt", "i64", s.cast("bitcast", t, x, "i64"), s.const("i64", 0))
    flips = s.bin("and", "i1", negative, odd)
    value = s.select(flips, t, s.op(f"fneg {s.ty(t)} {value}"), value)
    below = s.cmp("fcmp olt", t, x, zero)
    finite = s.cmp("fcmp olt", t, size, s.const(t, math.inf))
    bad = s.bin("and", "i1", s.bin("and", "i1", below, finite), _not(s, whole))
    value = s.select(bad, t, s.const(t, math.nan), value)
    # 1 to any power and -1 to an infinite one: log2 is 0 there, and 0 * inf is no number.
    unit = s.cmp("fcmp oeq", t, size, one)
    endless = s.cmp("fcmp oeq", t, s.call("fabs", t, y), s.const(t, math.inf))
    value = s.select(s.bin("and", "i1", unit, endless), t, one, value)
    value = s.select(s.cmp("fcmp oeq", t, x, one), t, one, value)
    return s.select(s.cmp("fcmp oeq", t, y, zero), t, one, value)


def _parity(s: Asm, y: str) -> tuple[str, str]:
    """Whether y is a whole number (infinities count), and an odd one."""
    t = "double"
    whole = s.cmp("fcmp oeq", t, s.call("floor", t, y), y)
    half = s.bin("fmul", t, y, s.const(t, 0.5))
    split = s.cmp("fcmp one", t, s.call("floor", t, half), half)
    return whole, s.bin("and", "i1", whole, split)


def _not(s: Asm, flag: str) -> str:
    return s.bin("xor", "i1", flag, s.const("i1", 1))
