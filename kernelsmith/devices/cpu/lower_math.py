"""Elementary functions as inline formulas: no library, one set of bits on every CPU level.

float32 ``exp``, ``exp2`` and ``log`` use float32 polynomials with explicit fma (about 1 ulp).
``log2``, ``sin``, ``cos``, ``tanh``, ``erf`` and ``pow`` are computed in float64 without fma and
rounded once. float64 functions are good to 2 ulp (exp, exp2, log, log2, erf, pow to 1).
Polynomials after the Cephes library (S. Moshier) unless they are Taylor series.
"""

import math
from collections.abc import Callable
from functools import partial

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.codegen_text import LANES
from kernelsmith.devices.cpu.lower_circular import cosine, sine
from kernelsmith.devices.cpu.lower_double import exact_sum
from kernelsmith.devices.cpu.lower_erf import erf
from kernelsmith.devices.cpu.lower_polynomial import (
    clamped,
    horner,
    nearest,
    scale,
    scaled_once,
    split,
)
from kernelsmith.devices.cpu.lower_power import power_double, power_single
from kernelsmith.devices.cpu.ttir import Op
from kernelsmith.devices.cpu.ttir_ops import refuse

_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
        5.0000001201e-1)  # fmt: skip
_EXP2 = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2,
         2.402264791363012e-1, 6.931472028550421e-1)  # fmt: skip
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
_ERF = (7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
        1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710)  # fmt: skip
_ERFC = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
         0.37409196, 1.00002368, -1.26551223)  # fmt: skip
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "roundeven": "roundeven"}
_DOUBLE_ONLY = {"sin", "cos", "tanh", "erf", "log2"}


def compute(s: Asm, op: Op, t: str, args: list[str]) -> str:
    """``math.*`` functions that are not one instruction; ``t`` is "float" or "double"."""
    name, x = op.name.split(".")[-1], args[0]
    if name in _ROUNDING:
        return s.call(_ROUNDING[name], t, x)
    if name == "erf" and t == "double":
        return erf(s, x, lambda s, v: _exp_double(s, v, False))
    if name == "powf":
        return _power(s, t, args)
    if name in _DOUBLE_ONLY:
        wide = x if t == "double" else s.cast("fpext", "float", x, "double")
        log2 = partial(_log_double, base2=True)
        formulas: dict[str, Callable[[Asm, str], str]] = {
            "sin": sine, "cos": cosine, "tanh": _tanh, "erf": _erf, "log2": log2,
        }  # fmt: skip
        result = formulas[name](s, wide)
        return result if t == "double" else s.cast("fptrunc", "double", result, "float")
    if name in ("exp", "exp2"):
        base2 = name == "exp2"
        return _exp_double(s, x, base2) if t == "double" else _exp_float(s, x, base2)
    if name == "log":
        return _log_double(s, x, False) if t == "double" else _log_float(s, x)
    raise refuse(op.name, op.line)


def _power(s: Asm, t: str, args: list[str]) -> str:
    log2, exp2 = partial(_log_double, base2=True), partial(_exp_double, base2=True)
    if t == "double":
        return power_double(s, args[0], args[1], exp2)
    base, exponent = (s.cast("fpext", "float", a, "double") for a in args)
    result = power_single(s, base, exponent, log2, exp2)
    return s.cast("fptrunc", "double", result, "float")


def _exp_float(s: Asm, x: str, base2: bool) -> str:
    t = "float"
    x = clamped(s, t, x, -151.0 if base2 else -104.5, 129.0 if base2 else 89.0)
    scaled = x if base2 else s.bin("fmul", t, x, s.const(t, 1.44269504088896341))
    if s.em.features.wide and 4 <= s.lanes <= 2 * LANES:
        whole = s.call("roundeven", t, scaled)
        return scaled_once(s, _exp_of_rest(s, x, whole, base2), whole)
    whole, n = nearest(s, t, scaled)
    return scale(s, t, _exp_of_rest(s, x, whole, base2), n)


def _exp_of_rest(s: Asm, x: str, whole: str, base2: bool) -> str:
    """The power of ``x`` less ``whole`` units: within [0.7, 1.42]."""
    t = "float"
    if base2:
        r = s.bin("fsub", t, x, whole)
        p = horner(s, t, r, _EXP2, True)
        return fl.fma(s, t, p, r, s.const(t, 1.0))
    r = fl.fma(s, t, whole, s.const(t, -0.693359375), x)
    r = fl.fma(s, t, whole, s.const(t, 2.12194440e-4), r)
    p = horner(s, t, r, _EXP, True)
    p = fl.fma(s, t, p, s.bin("fmul", t, r, r), r)
    return s.bin("fadd", t, p, s.const(t, 1.0))


def _exp_double(s: Asm, x: str, base2: bool) -> str:
    t = "double"
    x = clamped(s, t, x, -1080.0 if base2 else -750.0, 1025.0 if base2 else 710.0)
    p, n = _exp_parts(s, x, base2)
    return scale(s, t, s.bin("fadd", t, p, s.const(t, 1.0)), n)


def _exp_parts(s: Asm, x: str, base2: bool) -> tuple[str, str]:
    """p and n with e^x (or 2^x) = (1 + p) 2^n: a Taylor series of degree 13 after reduction to
    |r| <= ln(2) / 2."""
    t = "double"
    scaled = x if base2 else s.bin("fmul", t, x, s.const(t, 1.4426950408889634))
    whole, n = nearest(s, t, scaled)
    if base2:
        r = s.bin("fmul", t, s.bin("fsub", t, x, whole), s.const(t, math.log(2)))
    else:
        # ln 2 in two parts, the first with 21 zero bits so that its multiples are exact.
        high, low = 0.693147180369123816490, 1.90821492927058770002e-10
        r = s.bin("fsub", t, x, s.bin("fmul", t, whole, s.const(t, high)))
        r = s.bin("fsub", t, r, s.bin("fmul", t, whole, s.const(t, low)))
    series = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))
    p = horner(s, t, r, series, False)
    return s.bin("fadd", t, s.bin("fmul", t, p, s.bin("fmul", t, r, r)), r), n


def _log_edges(s: Asm, t: str, x: str, value: str) -> str:
    """Infinity, zero, negative numbers and NaN."""
    inf = s.const(t, math.inf)
    value = s.select(s.cmp("fcmp oeq", t, x, inf), t, inf, value)
    value = s.select(s.cmp("fcmp oeq", t, x, s.const(t, 0.0)), t, s.const(t, -math.inf), value)
    bad = s.cmp("fcmp ult", t, x, s.const(t, 0.0))
    return s.select(bad, t, s.const(t, math.nan), value)


def _log_float(s: Asm, x: str) -> str:
    t = "float"
    f, e = split(s, t, x)
    z = s.bin("fmul", t, f, f)
    p = horner(s, t, f, _LOG, True)
    y = s.bin("fmul", t, s.bin("fmul", t, f, z), p)
    y = fl.fma(s, t, e, s.const(t, -2.12194440e-4), y)
    y = fl.fma(s, t, z, s.const(t, -0.5), y)
    value = fl.fma(s, t, e, s.const(t, 0.693359375), s.bin("fadd", t, f, y))
    return _log_edges(s, t, x, value)


def _log_double(s: Asm, x: str, base2: bool) -> str:
    """log(1 + f) = f - (h - q (h + R)) with h = f^2 / 2, q = f / (2 + f), R a series in q^2: what
    is rounded is small beside f, as in FreeBSD's msun."""
    t = "double"
    f, e = split(s, t, x)
    q = s.bin("fdiv", t, f, s.bin("fadd", t, f, s.const(t, 2.0)))
    z = s.bin("fmul", t, q, q)
    h = s.bin("fmul", t, s.bin("fmul", t, f, s.const(t, 0.5)), f)
    series = tuple(2.0 / (2 * k + 1) for k in range(12, 0, -1))
    rest = s.bin("fmul", t, z, horner(s, t, z, series, False))
    rest = s.bin("fmul", t, q, s.bin("fadd", t, h, rest))
    if base2:
        return _log_edges(s, t, x, _to_base2(s, f, e, h, rest))
    high, low = 0.693147180369123816490, 1.90821492927058770002e-10
    rest = s.bin("fadd", t, rest, s.bin("fmul", t, e, s.const(t, low)))
    rest = s.bin("fsub", t, s.bin("fsub", t, h, rest), f)
    value = s.bin("fsub", t, s.bin("fmul", t, e, s.const(t, high)), rest)
    return _log_edges(s, t, x, value)


def _to_base2(s: Asm, f: str, e: str, h: str, rest: str) -> str:
    """e + (f - h + rest) / ln 2: f - h in two parts, the first with 32 zero bits, and 1 / ln 2 too,
    so that the product of the first parts is exact."""
    t = "double"
    whole = s.bin("fsub", t, f, h)
    word = s.bin("and", "i64", s.cast("bitcast", t, whole, "i64"), s.const("i64", -(1 << 32)))
    high = s.cast("bitcast", "i64", word, t)
    low = s.bin("fadd", t, s.bin("fsub", t, s.bin("fsub", t, f, high), h), rest)
    scale_high, scale_low = 1.44269504072144627571, 1.67517131648865118353e-10
    value = s.bin("fmul", t, high, s.const(t, scale_high))
    small = s.bin("fmul", t, s.bin("fadd", t, low, high), s.const(t, scale_low))
    small = s.bin("fadd", t, small, s.bin("fmul", t, low, s.const(t, scale_high)))
    total = s.bin("fadd", t, e, value)
    small = s.bin("fadd", t, small, s.bin("fadd", t, s.bin("fsub", t, e, total), value))
    return s.bin("fadd", t, small, total)


def _tanh(s: Asm, x: str) -> str:
    """q / (q + 2) with q = exp(2 |x|) - 1, and the sign of x."""
    t = "double"
    size = s.call("fabs", t, x)
    double = clamped(s, t, s.bin("fadd", t, size, size), 0.0, 44.0)
    p, n = _exp_parts(s, double, False)
    one = s.const(t, 1.0)
    less = s.bin("fsub", t, scale(s, t, one, n), one)
    q = exact_sum(s, scale(s, t, p, n), less)
    d = exact_sum(s, s.const(t, 2.0), q.high)
    value = s.bin("fdiv", t, q.high, d.high)
    below = s.bin("fmul", t, value, s.bin("fadd", t, q.low, d.low))
    rest = s.bin("fdiv", t, s.bin("fsub", t, q.low, below), d.high)
    value = s.bin("fadd", t, value, rest)
    return s.call("copysign", t, value, x)


def _erf(s: Asm, x: str) -> str:
    """Cephes' polynomial up to 1, Numerical Recipes' erfc beyond; float32 accuracy."""
    t = "double"
    size = s.call("fabs", t, x)
    z = s.bin("fmul", t, size, size)
    near = s.bin("fmul", t, size, horner(s, t, z, _ERF, False))
    half = s.bin("fadd", t, s.bin("fmul", t, size, s.const(t, 0.5)), s.const(t, 1.0))
    u = s.bin("fdiv", t, s.const(t, 1.0), half)
    power = s.bin("fsub", t, horner(s, t, u, _ERFC, False), z)
    rest = s.bin("fmul", t, u, _exp_double(s, power, False))
    far = s.bin("fsub", t, s.const(t, 1.0), rest)
    is_near = s.cmp("fcmp ole", t, size, s.const(t, 1.0))
    value = s.select(is_near, t, near, far)
    value = s.select(s.cmp("fcmp oeq", t, size, s.const(t, math.inf)), t, s.const(t, 1.0), value)
    return s.call("copysign", t, value, x)
