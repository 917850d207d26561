"""Floating-point formats as probing sees them, and rounding to them with numpy.

A format here is a set of numbers: so many significand bits, and a range of powers of two. The
terms of a sum may be products of two factors, whose set is wider than either factor's.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The numbers s * 2**e that a dtype holds, |s| < 2**bits an integer.

    Attributes:
        name: as people call it.
        bits: significand bits, the leading one included.
        top: the largest power of two is 2**top.
        normal: the smallest normal power of two is 2**normal.
        bottom: the smallest power of two at all is 2**bottom.
    """

    name: str
    bits: int
    top: int
    normal: int
    bottom: int


FORMATS = {
    "float16": Format(name="float16", bits=11, top=15, normal=-14, bottom=-24),
    "bfloat16": Format(name="bfloat16", bits=8, top=127, normal=-126, bottom=-133),
    "float32": Format(name="float32", bits=24, top=127, normal=-126, bottom=-149),
    "float64": Format(name="float64", bits=53, top=1023, normal=-1022, bottom=-1074),
}
"""The formats of terms and outputs, by dtype name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the sums of signed terms are written and read.

    Attributes:
        unit: what terms can be.
        output: what the sum is rounded to, to nearest even, when it is stored.
        after: what the kernel does to the float32 sum before that, bit for bit; None is nothing.
    """

    unit: Format
    output: Format
    after: Callable[[Float32s], Float32s] | None = None

    def read(self, sums: Float64s) -> Float64s:
        """What is read if the kernel's sums are ``sums`` (of any width)."""
        with np.errstate(all="ignore"):
            if self.after is not None:
                sums = self.after(sums.astype(np.float32)).astype(np.float64)
            return rounded(sums, self.output)


def product_format(a: Format, b: Format) -> Format:
    """The terms that products of two factors can be, as far as float32 keeps them normal."""
    return Format(
        name=a.name if a == b else f"{a.name} x {b.name}",
        bits=max(a.bits, b.bits),
        top=min(a.top + b.top, 127),
        normal=max(a.normal + b.normal, -126),
        bottom=max(a.bottom + b.bottom, -126),
    )


def factors(terms: Float64s, a: Format, b: Format) -> tuple[Float64s, Float64s]:
    """Splits terms into two factors whose products they are exactly.

    The wider format takes the significand, and the other one as little of the exponent as the
    range of the first demands: a power of two, 1 where it can be.

    Args:
        terms: numbers of ``product_format(a, b)``, any shape.
        a: format of the first factor.
        b: format of the second.

    Returns:
        The first and the second factors, in the shape of ``terms``.
    """
    if b.bits > a.bits or (b.bits == a.bits and b.top > a.top):
        second, first = factors(terms, b, a)
        return first, second
    exponent = np.frexp(terms)[1] - 1
    moved = np.where(exponent > a.top, exponent - a.top, 0)
    lowest = a.bottom + a.bits - 1
    moved = np.where(exponent < lowest, exponent - lowest, moved)
    moved = np.where(terms == 0, 0, moved).clip(b.bottom, b.top)
    return np.ldexp(terms, -moved), np.ldexp(np.ones_like(terms), moved)


def kept(values: Float64s, bits: int) -> Float64s:
    """Rounds to ``bits`` significand bits, to nearest even, with an unbounded exponent."""
    return _to_bits(values, bits, np.rint)


def cut(values: Float64s, bits: int) -> Float64s:
    """Cuts to ``bits`` significand bits, toward zero, with an unbounded exponent."""
    return _to_bits(values, bits, np.trunc)


def _to_bits(values: Float64s, bits: int, whole: Callable[[Float64s], Float64s]) -> Float64s:
    if bits >= 53:
        return values
    significand, exponent = np.frexp(values)
    near: Float64s = np.ldexp(whole(np.ldexp(significand, bits)), exponent - bits)
    return near


def rounded(values: Float64s, target: Format) -> Float64s:
    """Rounds to a format, to nearest even: subnormals, overflow to infinity and NaN included."""
    if target.bits >= 53:
        return values
    step = target.bottom
    exponent = np.frexp(values)[1]
    places = np.maximum(exponent - target.bits, step)
    finite = np.isfinite(values)
    near = np.ldexp(np.rint(np.ldexp(np.where(finite, values, 0.0), -places)), places)
    limit = np.ldexp(2.0 - np.ldexp(1.0, 1 - target.bits), target.top)
    near = np.where(np.abs(near) > limit, np.copysign(np.inf, values), near)
    return np.where(finite, near, values)
