"""Terms that cannot be negative, and the inputs of a kernel that make them: B and small ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelsmith.numerics.order.formats import Float64s, Format, kept, rounded
from kernelsmith.numerics.order.tree import FLOAT32_BITS

SINGLE = (0.27, 0.48)
"""Where a single small term lies, in ulps of B; two of them round up, one is lost."""
DOUBLE = (0.55, 0.95)
"""Where a term lies that does what two single ones do when they have met."""
_TRIED = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms that a kernel makes of its inputs, and the inputs to probe with.

    Attributes:
        name: as people say it: "squares".
        value: float64 inputs to their exact terms.
        input_for: terms to the inputs, in the inputs' format, that come nearest to them.
        bigs: inputs that may serve as B, the likeliest first; their terms are float32 numbers.
        none: the input whose term vanishes beside B.
    """

    name: str
    value: Callable[[Float64s], Float64s]
    input_for: Callable[[Float64s], Float64s]
    bigs: Float64s
    none: float


def squares(unit: Format) -> Terms:
    """x * x of numbers of a format; of those with 12 bits at most, whose squares are exact."""
    bits = min(unit.bits, FLOAT32_BITS // 2)
    significands = _significands(bits)
    # Binades of x in pairs, for a square root that follows parts even from odd exponents; and a
    # low pair, for what overflows float16.
    bigs = np.concatenate([significands * 2.0**power for power in (12, 11, 5, 4)])
    return Terms(
        name="squares",
        value=np.square,
        input_for=lambda terms: rounded(kept(np.sqrt(terms), bits), unit),
        bigs=bigs,
        none=0.0,
    )


def magnitudes(unit: Format) -> Terms:
    """The numbers of a format that are not negative, or |x|."""
    significands = _significands(unit.bits)
    return Terms(
        name="magnitudes",
        value=np.abs,
        input_for=lambda terms: rounded(terms, unit),
        bigs=np.concatenate([significands * 2.0**power for power in (12, 4)]),
        none=0.0,
    )


def exponentials(unit: Format) -> Terms:
    """exp(x) of numbers of a format, with or without the largest x taken off first.

    B is exp(0) = 1, the largest term of a softmax: its mantissa cannot be chosen.
    """
    return Terms(
        name="exponentials",
        value=np.exp,
        input_for=lambda terms: rounded(np.log(terms), unit),
        bigs=np.zeros(1),
        none=-(2.0 ** min(unit.top, 13)),
    )


def _significands(bits: int) -> Float64s:
    """Odd significands in [1, 2), from short to long, ``_TRIED`` of each length.

    Where the sum is rounded to few bits its last bit shows only at a tie, which takes a number of
    just the right length.
    """
    chosen: list[float] = []
    for width in range(2, bits + 1):
        odd = np.arange(2 ** (width - 1) + 1, 2**width, 2) * 2.0 ** (1 - width)
        chosen += odd[:: max(1, len(odd) // _TRIED)].tolist()
    return np.array(chosen)


def ulp_of(value: Float64s) -> Float64s:
    """The distance of float32 numbers at ``value``."""
    ulp: Float64s = np.exp2(np.floor(np.log2(value)) - (FLOAT32_BITS - 1))
    return ulp


def options_of(terms: Terms) -> Float64s:
    """Inputs [options, 3] of B, s and twice s whose exact terms lie as they must."""
    ulp = ulp_of(terms.value(terms.bigs))
    single = terms.input_for(0.37 * ulp)
    double = terms.input_for(0.74 * ulp)
    sizes = terms.value(single) / ulp
    sizes_double = terms.value(double) / ulp
    fit = (sizes > SINGLE[0]) & (sizes < SINGLE[1])
    fit &= (sizes_double > DOUBLE[0]) & (sizes_double < DOUBLE[1])
    return np.stack([terms.bigs, single, double], axis=1)[fit]
