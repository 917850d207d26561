"""``erf`` in float64: polynomials fitted at Chebyshev nodes to 60 digits, then rounded.

Up to 1, x + x * P(x^2). Beyond, 1 - exp(-x^2) * Q((x - 2.5) / (x + 2.5)), up to 6, where 1 is the
nearest float64.
"""

import math
from collections.abc import Callable

from kernelsmith.devices.cpu.codegen_asm import Asm
from kernelsmith.devices.cpu.lower_polynomial import horner

_NEAR = (
    5.957176147748911e-11,
    -1.1372848856791674e-09,
    1.4659775274047436e-08,
    -1.6350312701054695e-07,
    1.6461000484121368e-06,
    -1.4925595266831182e-05,
    0.0001205533111164271,
    -0.000854832698083379,
    0.0052239776248180145,
    -0.026866170645076792,
    0.11283791670954879,
    -0.3761263890318375,
    0.1283791670955126,
)
_FAR = (
    3.3657006736237105e-07,
    1.2966926825389417e-07,
    -1.79706306540687e-06,
    -2.3140931150942177e-06,
    7.5513017799442535e-06,
    1.8617072081910595e-05,
    -3.4182063549802165e-05,
    -0.00012887741536369735,
    0.00022838036598153182,
    0.0008759154630794508,
    -0.002642365963784453,
    -0.003993701166223159,
    0.039922539075574935,
    -0.1250330523788247,
    0.2517131932174494,
    -0.3717367339489734,
    0.2108063640611436,
)


def erf(s: Asm, x: str, exp: Callable[[Asm, str], str]) -> str:
    """erf(x); ``exp`` is the float64 exponential."""
    t = "double"
    size = s.call("fabs", t, x)
    z = s.bin("fmul", t, size, size)
    near = s.bin("fadd", t, size, s.bin("fmul", t, size, horner(s, t, z, _NEAR, False)))
    high = s.cmp("fcmp ogt", t, size, s.const(t, 6.0))
    bounded = s.select(high, t, s.const(t, 6.0), size)
    below = s.bin("fsub", t, bounded, s.const(t, 2.5))
    u = s.bin("fdiv", t, below, s.bin("fadd", t, bounded, s.const(t, 2.5)))
    squared = s.bin("fmul", t, bounded, bounded)
    power = exp(s, s.op(f"fneg {s.ty(t)} {squared}"))
    rest = s.bin("fmul", t, power, horner(s, t, u, _FAR, False))
    far = s.bin("fsub", t, s.const(t, 1.0), rest)
    is_near = s.cmp("fcmp ole", t, size, s.const(t, 1.0))
    value = s.select(is_near, t, near, far)
    value = s.select(s.cmp("fcmp uno", t, x, x), t, s.const(t, math.nan), value)
    return s.call("copysign", t, value, x)
