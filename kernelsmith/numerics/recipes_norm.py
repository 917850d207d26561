"""Coupled inputs of RMS norms: rows whose outputs show one ulp of ``rstd`` in bfloat16.

``ties``: h and weight are chosen so that h * rstd * weight lies on a tie of bfloat16 up to the
last bits of float32. With mean(h * h) + eps = (17/5)**2 the exact rstd is 5/17; h = 17/16 * 2**k
and a weight whose 8-bit mantissa is 2 modulo 4 (and at most 204) give 5 w / 16 * 2**k, which has
one bit too many for bfloat16. A few last elements, each the largest that still fits, bring the
sum of squares to its target within 2**-30.

``cancel``: dy = h * 2**j / weight with weights that are powers of two. Then dx is exactly zero
but for epsilon, and what a kernel stores is its rounding noise.
"""

import numpy as np
import numpy.typing as npt

from kernelsmith.numerics.recipes_exp import sum_rows
from kernelsmith.numerics.recipes_float import Bits, random_words, scale_exponent
from kernelsmith.numerics.recipes_regimes import REGIMES

_SIGN = np.uint32(0x80000000)
_TARGET = (17.0 / 5.0) ** 2
_FITTING = 6
DEFAULT_EPS = 1e-6


def x(rng: np.random.Generator, shape: tuple[int, ...], regime: str, seed: int, eps: float) -> Bits:
    """What is normalised, [M, N]."""
    if regime != "ties" or shape[1] < 4 * _FITTING:
        return REGIMES[regime](rng, shape, "token", seed)
    words = random_words(rng, int(np.prod(shape))).reshape(shape)
    exponent = (np.uint32(125) + ((words >> np.uint32(24)) & np.uint32(3))) << np.uint32(23)
    mantissa = np.where(
        words & np.uint32(0x300), np.uint32(0x00080000), words & np.uint32(0x7F0000)
    )
    bits = ((words & _SIGN) | exponent | mantissa).astype(np.uint32)
    columns = np.arange(_FITTING) * (shape[1] // _FITTING) + 3
    bits[:, columns] = 0
    missing = shape[1] * (_TARGET - eps) - _square_sum(bits)
    for column in columns:
        largest = np.sqrt(np.maximum(missing, 0.0)).astype(np.float32).view(np.uint32)
        largest &= np.uint32(0xFFFF0000)
        bits[:, column] = largest | (words[:, column] & _SIGN)
        missing = missing - largest.view(np.float32).astype(np.float64) ** 2
    return bits


def weight(rng: np.random.Generator, shape: tuple[int, ...], regime: str, seed: int) -> Bits:
    """The norm's weight, [N]."""
    words = random_words(rng, shape[0])
    if regime == "ties":
        mantissa = (np.uint32(2) + (words % np.uint32(19)) * np.uint32(4)) << np.uint32(16)
        exponent = (np.uint32(126) + ((words >> np.uint32(20)) & np.uint32(1))) << np.uint32(23)
        bits: Bits = ((words & _SIGN) | exponent | mantissa).astype(np.uint32)
        return bits
    if regime in ("cancel", "absorb"):
        exponent = np.uint32(126) + ((words >> np.uint32(20)) % np.uint32(3))
        if regime == "cancel":
            return ((words & _SIGN) | (exponent << np.uint32(23))).astype(np.uint32)
        return ((words & np.uint32(0x807FFFFF)) | (exponent << np.uint32(23))).astype(np.uint32)
    return REGIMES[regime](rng, shape, "vector", seed)


def gradient(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    regime: str,
    seed: int,
    x_bits: Bits | None,
    weight_bits: Bits | None,
) -> Bits:
    """dy, [M, N]: in the regime ``cancel`` proportional to x / weight."""
    if regime != "cancel" or x_bits is None or weight_bits is None:
        return REGIMES[regime](rng, shape, "token", seed)
    per_row = random_words(rng, shape[0]).astype(np.int64) % 5 - 2
    power = (weight_bits.astype(np.int64) >> 23 & 0xFF) - 127
    scaled = scale_exponent(x_bits, per_row[:, None] - power[None, :])
    return scaled ^ (weight_bits & _SIGN)[None, :]


def passing_gradient(
    rng: np.random.Generator, shape: tuple[int, ...], regime: str, seed: int
) -> Bits:
    """dh, [M, N]: as small as the noise it is added to in the regime ``cancel``."""
    bits = REGIMES[regime](rng, shape, "token", seed)
    return scale_exponent(bits, -24) if regime == "cancel" else bits


def residual(rng: np.random.Generator, shape: tuple[int, ...], regime: str, seed: int) -> Bits:
    """What is added to x, [M, N]. In the regimes ``ties``, ``absorb`` and ``pairs`` the sum
    keeps the structure that x was given: zeros of the sign that leave x as it is."""
    if regime in ("ties", "absorb", "pairs"):
        return random_words(rng, int(np.prod(shape))).reshape(shape) & _SIGN
    bits = REGIMES[regime](rng, shape, "token", seed)
    if regime in ("special", "constant"):
        return bits
    # Eight binary places below x: the rounding of the sum is decided by it.
    narrow = random_words(rng, int(np.prod(shape))).reshape(shape) & np.uint32(1)
    return np.where(narrow, scale_exponent(bits, -8), bits).astype(np.uint32)


def rstd(x_values: npt.NDArray[np.float64], eps: float) -> npt.NDArray[np.float64]:
    """1 / sqrt(mean(x * x) + eps) of every row, in float64."""
    with np.errstate(all="ignore"):
        mean = sum_rows(x_values * x_values) / x_values.shape[1]
        return np.asarray(1.0 / np.sqrt(mean + eps))


def _square_sum(bits: Bits) -> npt.NDArray[np.float64]:
    values = bits.view(np.float32).astype(np.float64)
    return sum_rows(values * values)
