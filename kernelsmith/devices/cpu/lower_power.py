"""``pow``: |x|^y = 2^(y log2 |x|), in float64 for float32, in twice float64 for float64.

The cases are those of C: pow(x, 0) = pow(1, y) = 1 whatever the other is, NaN included; a negative
x needs a whole y, and an odd one gives a negative result, zeros and infinities too.
"""

import math
from collections.abc import Callable

from kernelsmith.devices.cpu import lower_double
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_polynomial import clamped, nearest, scale

Formula = Callable[[Asm, str], str]
_T = "double"


def power_single(s: Asm, x: str, y: str, log2: Formula, exp2: Formula) -> str:
    """x^y of float64 operands that hold float32 values, good to float32.

    ``log2`` and ``exp2`` are the float64 functions."""
    size = s.call("fabs", _T, x)
    return _signed(s, x, y, exp2(s, s.bin("fmul", _T, y, log2(s, size))))


def power_double(s: Asm, x: str, y: str, exp2: Formula) -> str:
    """x^y of float64 operands; ``exp2`` is the float64 function, here for |argument| <= 1/2."""
    size = s.call("fabs", _T, x)
    inf, zero = s.const(_T, math.inf), s.const(_T, 0.0)
    nothing = s.cmp("fcmp oeq", _T, size, zero)
    endless = s.cmp("fcmp oeq", _T, size, inf)
    odd = s.bin("or", "i1", s.bin("or", "i1", nothing, endless), s.cmp("fcmp uno", _T, x, x))
    log = lower_double.log2(s, s.select(odd, _T, s.const(_T, 1.0), size))
    # Beyond 2^65 the result is 0, 1 or infinity whatever y is; products stay finite.
    y_small = clamped(s, _T, y, -(2.0**65), 2.0**65)
    product = lower_double.exact_product(s, y_small, log.high)
    low = s.bin("fadd", _T, product.low, s.bin("fmul", _T, y_small, log.low))
    high = clamped(s, _T, product.high, -1100.0, 1100.0)
    whole, n = nearest(s, _T, high)
    rest = s.bin("fadd", _T, s.bin("fsub", _T, high, whole), clamped(s, _T, low, -0.25, 0.25))
    value = scale(s, _T, exp2(s, rest), n)
    grows = s.bin("xor", "i1", s.cmp("fcmp olt", _T, y, zero), endless)
    edge = s.select(grows, _T, inf, zero)
    value = s.select(s.bin("or", "i1", nothing, endless), _T, edge, value)
    either = s.cmp("fcmp uno", _T, x, y)
    return _signed(s, x, y, s.select(either, _T, s.const(_T, math.nan), value))


def _signed(s: Asm, x: str, y: str, value: str) -> str:
    """The magnitude |x|^y with its sign, and C's special cases."""
    one, zero = s.const(_T, 1.0), s.const(_T, 0.0)
    size = s.call("fabs", _T, x)
    whole, odd = _parity(s, y)
    negative = s.cmp("icmp slt", "i64", s.cast("bitcast", _T, x, "i64"), s.const("i64", 0))
    flips = s.bin("and", "i1", negative, odd)
    value = s.select(flips, _T, s.op(f"fneg {s.ty(_T)} {value}"), value)
    below = s.cmp("fcmp olt", _T, x, zero)
    finite = s.cmp("fcmp olt", _T, size, s.const(_T, math.inf))
    bad = s.bin("and", "i1", s.bin("and", "i1", below, finite), _not(s, whole))
    value = s.select(bad, _T, s.const(_T, math.nan), value)
    # 1 to any power and -1 to an infinite one: log2 is 0 there, and 0 * inf is no number.
    unit = s.cmp("fcmp oeq", _T, size, one)
    endless = s.cmp("fcmp oeq", _T, s.call("fabs", _T, y), s.const(_T, math.inf))
    value = s.select(s.bin("and", "i1", unit, endless), _T, one, value)
    value = s.select(s.cmp("fcmp oeq", _T, x, one), _T, one, value)
    return s.select(s.cmp("fcmp oeq", _T, y, zero), _T, one, value)


def _parity(s: Asm, y: str) -> tuple[str, str]:
    """Whether y is a whole number (infinities count), and an odd one."""
    whole = s.cmp("fcmp oeq", _T, s.call("floor", _T, y), y)
    half = s.bin("fmul", _T, y, s.const(_T, 0.5))
    split = s.cmp("fcmp one", _T, s.call("floor", _T, half), half)
    return whole, s.bin("and", "i1", whole, split)


def _not(s: Asm, flag: str) -> str:
    return s.bin("xor", "i1", flag, s.const("i1", 1))
