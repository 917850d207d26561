"""Elementary functions as inline formulas: no library, one set of bits on every CPU level.

float32 ``exp``, ``exp2``, ``log`` and ``log2`` use float32 polynomials with explicit fma (about
1 ulp). ``sin``, ``cos``, ``tanh`` and ``erf`` are computed in float64 without fma and rounded
once. float64 functions (about 2 ulp) exist for exp, exp2, log, log2, sin, cos and tanh.
Polynomials after the Cephes library (S. Moshier) unless they are Taylor series.
"""

import math

from kernelsmith.devices.cpu import lower_float as fl
from kernelsmith.devices.cpu.codegen_asm import Asm
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
_DOUBLE_ONLY = {"sin", "cos", "tanh", "erf"}


def compute(s: Asm, op: Op, t: str, args: list[str]) -> str:
    """``math.*`` functions that are not one instruction; ``t`` is "float" or "double"."""
    name, x = op.name.split(".")[-1], args[0]
    if name in _ROUNDING:
        return s.call(_ROUNDING[name], t, x)
    if name == "erf" and t == "double":
        raise refuse("math.erf on float64", op.line)
    if name in _DOUBLE_ONLY:
        wide = x if t == "double" else s.cast("fpext", "float", x, "double")
        formula = {"sin": _sine, "cos": _cosine, "tanh": _tanh, "erf": _erf}[name]
        result = formula(s, wide)
        return result if t == "double" else s.cast("fptrunc", "double", result, "float")
    if name in ("exp", "exp2"):
        base2 = name == "exp2"
        return _exp_double(s, x, base2) if t == "double" else _exp_float(s, x, base2)
    if name in ("log", "log2"):
        base2 = name == "log2"
        return _log_double(s, x, base2) if t == "double" else _log_float(s, x, base2)
    raise refuse(op.name, op.line)


def _horner(s: Asm, t: str, x: str, coefficients: tuple[float, ...], fused: bool) -> str:
    total = s.const(t, coefficients[0])
    for c in coefficients[1:]:
        if fused:
            total = fl.fma(s, t, total, x, s.const(t, c))
        else:
            total = s.bin("fadd", t, s.bin("fmul", t, total, x), s.const(t, c))
    return total


def _clamped(s: Asm, t: str, x: str, low: float, high: float) -> str:
    """NaN passes."""
    x = s.select(s.cmp("fcmp ogt", t, x, s.const(t, high)), t, s.const(t, high), x)
    return s.select(s.cmp("fcmp olt", t, x, s.const(t, low)), t, s.const(t, low), x)


def _scale(s: Asm, t: str, value: str, n: str) -> str:
    """value * 2^n in two exact steps and one rounding, for any n that a result can need."""
    i, bias, shift = ("i32", 127, 23) if t == "float" else ("i64", 1023, 52)
    half = s.bin("ashr", i, n, s.const(i, 1))
    for part in (half, s.bin("sub", i, n, half)):
        power = s.bin("shl", i, s.bin("add", i, part, s.const(i, bias)), s.const(i, shift))
        value = s.bin("fmul", t, value, s.cast("bitcast", i, power, t))
    return value


def _nearest(s: Asm, t: str, x: str) -> tuple[str, str]:
    """The nearest integer of a small value, as a float and as an integer; NaN gives no trap."""
    i = "i32" if t == "float" else "i64"
    magic = 1.5 * 2.0 ** (23 if t == "float" else 52)
    shifted = s.bin("fadd", t, x, s.const(t, magic))
    whole = s.bin("fsub", t, shifted, s.const(t, magic))
    bits = s.cast("bitcast", t, shifted, i)
    magic_bits = fl.bits_of("f32" if t == "float" else "f64", magic)
    return whole, s.bin("sub", i, bits, s.const(i, magic_bits))


def _exp_float(s: Asm, x: str, base2: bool) -> str:
    t = "float"
    x = _clamped(s, t, x, -151.0 if base2 else -104.5, 129.0 if base2 else 89.0)
    scaled = x if base2 else s.bin("fmul", t, x, s.const(t, 1.44269504088896341))
    whole, n = _nearest(s, t, scaled)
    if base2:
        r = s.bin("fsub", t, x, whole)
        p = _horner(s, t, r, _EXP2, True)
        return _scale(s, t, fl.fma(s, t, p, r, s.const(t, 1.0)), n)
    r = fl.fma(s, t, whole, s.const(t, -0.693359375), x)
    r = fl.fma(s, t, whole, s.const(t, 2.12194440e-4), r)
    p = _horner(s, t, r, _EXP, True)
    p = fl.fma(s, t, p, s.bin("fmul", t, r, r), r)
    return _scale(s, t, s.bin("fadd", t, p, s.const(t, 1.0)), n)


def _exp_double(s: Asm, x: str, base2: bool) -> str:
    """Taylor series of degree 13 after reduction to |r| <= ln(2) / 2."""
    t = "double"
    x = _clamped(s, t, x, -1080.0 if base2 else -750.0, 1025.0 if base2 else 710.0)
    scaled = x if base2 else s.bin("fmul", t, x, s.const(t, 1.4426950408889634))
    whole, n = _nearest(s, t, scaled)
    if base2:
        r = s.bin("fmul", t, s.bin("fsub", t, x, whole), s.const(t, math.log(2)))
    else:
        # ln 2 in two parts, the first with 21 zero bits so that its multiples are exact.
        high, low = 0.693147180369123816490, 1.90821492927058770002e-10
        r = s.bin("fsub", t, x, s.bin("fmul", t, whole, s.const(t, high)))
        r = s.bin("fsub", t, r, s.bin("fmul", t, whole, s.const(t, low)))
    series = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))
    p = _horner(s, t, r, series, False)
    p = s.bin("fadd", t, s.bin("fmul", t, p, s.bin("fmul", t, r, r)), r)
    return _scale(s, t, s.bin("fadd", t, p, s.const(t, 1.0)), n)


def _split(s: Asm, t: str, x: str) -> tuple[str, str]:
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


def _log_edges(s: Asm, t: str, x: str, value: str) -> str:
    """Infinity, zero, negative numbers and NaN."""
    inf = s.const(t, math.inf)
    value = s.select(s.cmp("fcmp oeq", t, x, inf), t, inf, value)
    value = s.select(s.cmp("fcmp oeq", t, x, s.const(t, 0.0)), t, s.const(t, -math.inf), value)
    bad = s.cmp("fcmp ult", t, x, s.const(t, 0.0))
    return s.select(bad, t, s.const(t, math.nan), value)


def _log_float(s: Asm, x: str, base2: bool) -> str:
    t = "float"
    f, e = _split(s, t, x)
    z = s.bin("fmul", t, f, f)
    p = _horner(s, t, f, _LOG, True)
    y = s.bin("fmul", t, s.bin("fmul", t, f, z), p)
    if base2:
        y = fl.fma(s, t, z, s.const(t, -0.5), y)
        extra = s.const(t, 0.44269504088896340736)
        value = s.bin("fmul", t, y, extra)
        value = fl.fma(s, t, f, extra, value)
        value = s.bin("fadd", t, s.bin("fadd", t, value, y), f)
        return _log_edges(s, t, x, s.bin("fadd", t, value, e))
    y = fl.fma(s, t, e, s.const(t, -2.12194440e-4), y)
    y = fl.fma(s, t, z, s.const(t, -0.5), y)
    value = fl.fma(s, t, e, s.const(t, 0.693359375), s.bin("fadd", t, f, y))
    return _log_edges(s, t, x, value)


def _log_double(s: Asm, x: str, base2: bool) -> str:
    """2 artanh(f / (2 + f)) as a series in odd powers."""
    t = "double"
    f, e = _split(s, t, x)
    q = s.bin("fdiv", t, f, s.bin("fadd", t, f, s.const(t, 2.0)))
    z = s.bin("fmul", t, q, q)
    series = tuple(2.0 / (2 * k + 1) for k in range(12, 0, -1))
    p = s.bin("fmul", t, s.bin("fmul", t, _horner(s, t, z, series, False), z), q)
    value = s.bin("fadd", t, p, s.bin("fmul", t, q, s.const(t, 2.0)))
    if base2:
        value = s.bin("fmul", t, value, s.const(t, 1 / math.log(2)))
        return _log_edges(s, t, x, s.bin("fadd", t, value, e))
    high, low = 0.693147180369123816490, 1.90821492927058770002e-10
    value = s.bin("fadd", t, value, s.bin("fmul", t, e, s.const(t, low)))
    value = s.bin("fadd", t, value, s.bin("fmul", t, e, s.const(t, high)))
    return _log_edges(s, t, x, value)


def _quadrant(s: Asm, x: str) -> tuple[str, str]:
    """x = n * pi/2 + r, |r| <= pi/4; accurate for |x| below 2^27, beyond that only fixed."""
    t = "double"
    small = s.call("fabs", t, x)
    huge = s.cmp("fcmp oge", t, small, s.const(t, 2.0**31))
    x = s.select(huge, t, s.bin("fmul", t, x, s.const(t, 0.0)), x)
    whole, n = _nearest(s, t, s.bin("fmul", t, x, s.const(t, 2 / math.pi)))
    for part in (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21):
        x = s.bin("fsub", t, x, s.bin("fmul", t, whole, s.const(t, part)))
    return x, n


def _circular(s: Asm, x: str, shift: int) -> str:
    t = "double"
    r, n = _quadrant(s, x)
    n = s.bin("add", "i64", n, s.const("i64", shift))
    z = s.bin("fmul", t, r, r)
    odd = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(8, 0, -1))
    even = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9, 0, -1))
    sine = s.bin("fmul", t, s.bin("fmul", t, _horner(s, t, z, odd, False), z), r)
    sine = s.bin("fadd", t, sine, r)
    cosine = s.bin("fmul", t, _horner(s, t, z, even, False), z)
    cosine = s.bin("fadd", t, cosine, s.const(t, 1.0))
    swap = s.cmp("icmp ne", "i64", s.bin("and", "i64", n, s.const("i64", 1)), s.const("i64", 0))
    value = s.select(swap, t, cosine, sine)
    down = s.cmp("icmp ne", "i64", s.bin("and", "i64", n, s.const("i64", 2)), s.const("i64", 0))
    return s.select(down, t, s.op(f"fneg {s.ty(t)} {value}"), value)


def _sine(s: Asm, x: str) -> str:
    zero = s.cmp("fcmp oeq", "double", x, s.const("double", 0.0))
    return s.select(zero, "double", x, _circular(s, x, 0))


def _cosine(s: Asm, x: str) -> str:
    return _circular(s, x, 1)


def _tanh(s: Asm, x: str) -> str:
    """sign(x) * (1 - e) / (1 + e) with e = exp(-2|x|); near 0, q / (q + 2) with q = exp(2|x|) - 1
    as a series."""
    t = "double"
    size = s.call("fabs", t, x)
    e = _exp_double(s, s.bin("fmul", t, size, s.const(t, -2.0)), False)
    one = s.const(t, 1.0)
    value = s.bin("fdiv", t, s.bin("fsub", t, one, e), s.bin("fadd", t, one, e))
    r = s.bin("fadd", t, size, size)
    series = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))
    q = _horner(s, t, r, series, False)
    q = s.bin("fadd", t, s.bin("fmul", t, q, s.bin("fmul", t, r, r)), r)
    near = s.bin("fdiv", t, q, s.bin("fadd", t, q, s.const(t, 2.0)))
    small = s.cmp("fcmp olt", t, size, s.const(t, 0.17))
    return s.call("copysign", t, s.select(small, t, near, value), x)


def _erf(s: Asm, x: str) -> str:
    """Cephes' polynomial up to 1, Numerical Recipes' erfc beyond; float32 accuracy."""
    t = "double"
    size = s.call("fabs", t, x)
    z = s.bin("fmul", t, size, size)
    near = s.bin("fmul", t, size, _horner(s, t, z, _ERF, False))
    half = s.bin("fadd", t, s.bin("fmul", t, size, s.const(t, 0.5)), s.const(t, 1.0))
    u = s.bin("fdiv", t, s.const(t, 1.0), half)
    power = s.bin("fsub", t, _horner(s, t, u, _ERFC, False), z)
    rest = s.bin("fmul", t, u, _exp_double(s, power, False))
    far = s.bin("fsub", t, s.const(t, 1.0), rest)
    is_near = s.cmp("fcmp ole", t, size, s.const(t, 1.0))
    value = s.select(is_near, t, near, far)
    value = s.select(s.cmp("fcmp oeq", t, size, s.const(t, math.inf)), t, s.const(t, 1.0), value)
    return s.call("copysign", t, value, x)
