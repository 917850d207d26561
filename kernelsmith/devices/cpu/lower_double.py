"""Numbers as an unevaluated sum of two float64 ("double-double"), without fma (Dekker).

Enough of it for ``pow`` of float64, whose logarithm must be good to 64 bits.
"""

from dataclasses import dataclass

from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_polynomial import horner, split

_T = "double"
_SPLITTER = 2.0**27 + 1
#: 1/5, 1/7, ... of the series of artanh, highest power first.
_TAIL = tuple(1.0 / k for k in range(27, 3, -2))
_THIRD = (1 / 3, 1.850371707708594e-17)
_INVERSE_LN2 = (1.4426950408889634, 2.0355273740931033e-17)


@dataclass(frozen=True, slots=True)
class Pair:
    """``high + low``, with ``low`` at most half a unit in the last place of ``high``."""

    high: str
    low: str


def constant(s: Asm, pair: tuple[float, float]) -> Pair:
    """A constant of two parts."""
    return Pair(s.const(_T, pair[0]), s.const(_T, pair[1]))


def exact_sum(s: Asm, a: str, b: str) -> Pair:
    """a + b, exactly (Knuth)."""
    total = s.bin("fadd", _T, a, b)
    back = s.bin("fsub", _T, total, a)
    left = s.bin("fsub", _T, a, s.bin("fsub", _T, total, back))
    return Pair(total, s.bin("fadd", _T, left, s.bin("fsub", _T, b, back)))


def exact_product(s: Asm, a: str, b: str) -> Pair:
    """a * b, exactly, for operands far from overflow."""
    (ah, al), (bh, bl) = (_halves(s, x) for x in (a, b))
    p = s.bin("fmul", _T, a, b)
    e = s.bin("fsub", _T, s.bin("fmul", _T, ah, bh), p)
    e = s.bin("fadd", _T, e, s.bin("fmul", _T, ah, bl))
    e = s.bin("fadd", _T, e, s.bin("fmul", _T, al, bh))
    return Pair(p, s.bin("fadd", _T, e, s.bin("fmul", _T, al, bl)))


def _halves(s: Asm, a: str) -> tuple[str, str]:
    c = s.bin("fmul", _T, a, s.const(_T, _SPLITTER))
    high = s.bin("fsub", _T, c, s.bin("fsub", _T, c, a))
    return high, s.bin("fsub", _T, a, high)


def add(s: Asm, a: Pair, b: str) -> Pair:
    """a + b for a float64 b."""
    total = exact_sum(s, a.high, b)
    return _tidy(s, total.high, s.bin("fadd", _T, total.low, a.low))


def multiply(s: Asm, a: Pair, b: Pair) -> Pair:
    """a * b."""
    p = exact_product(s, a.high, b.high)
    cross = s.bin("fadd", _T, s.bin("fmul", _T, a.high, b.low), s.bin("fmul", _T, a.low, b.high))
    return _tidy(s, p.high, s.bin("fadd", _T, p.low, cross))


def _tidy(s: Asm, high: str, low: str) -> Pair:
    total = s.bin("fadd", _T, high, low)
    return Pair(total, s.bin("fsub", _T, low, s.bin("fsub", _T, total, high)))


def log2(s: Asm, x: str) -> Pair:
    """log2 of a finite x > 0, to a relative 2^-62 or so.

    With q = f / (2 + f), f = m - 1: log m = 2 q (1 + q^2 (1/3 + q^2 (1/5 + ...)))."""
    f, e = split(s, _T, x)
    two = s.const(_T, 2.0)
    divisor = exact_sum(s, two, f)
    high = s.bin("fdiv", _T, f, divisor.high)
    product = exact_product(s, high, divisor.high)
    rest = s.bin("fsub", _T, s.bin("fsub", _T, f, product.high), product.low)
    rest = s.bin("fsub", _T, rest, s.bin("fmul", _T, high, divisor.low))
    q = Pair(high, s.bin("fdiv", _T, rest, divisor.high))
    z = multiply(s, q, q)
    inner = s.bin("fmul", _T, z.high, horner(s, _T, z.high, _TAIL, False))
    series = multiply(s, z, add(s, constant(s, _THIRD), inner))
    whole = add(s, series, s.const(_T, 1.0))
    log = multiply(s, Pair(s.bin("fmul", _T, q.high, two), s.bin("fmul", _T, q.low, two)), whole)
    return add(s, multiply(s, log, constant(s, _INVERSE_LN2)), e)
