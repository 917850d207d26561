"""Coupled inputs of kernels over a vocabulary: logits, chosen tokens, what backward is given.

The outputs of a log-softmax are float32, but a logarithm hides much: a sum of a thousand like
terms may be wrong in its last bits and lse still right. The regimes keep the sum near one, where
lse is small and every bit of the sum shows in it.

=========  =====================================================================================
cancel     one logit is 0, the others sum to about a half; in backward the two gradients undo
           each other at one value of the row, which leaves rounding noise
absorb     one logit is 0, the others lie about -17: each alone is lost beside 1, and how many
           are lost depends on the order alone
pairs      three finite logits, two of them half a row apart, among minus infinities
special    as in ``recipes_regimes``; of the rows with infinities every other has negative ones
           only, which are tokens that cannot be chosen
others     as in ``recipes_regimes``
=========  =====================================================================================
"""

import numpy as np
import numpy.typing as npt

from kernelsmith.numerics import recipes_exp
from kernelsmith.numerics.recipes_float import Bits, Shape, bell_table, compose, random_words
from kernelsmith.numerics.recipes_regimes import REGIMES

_SIGN = np.uint32(0x80000000)
_INFINITY = np.uint32(0x7F800000)
_LN2 = 0.6931471805599453
_ROWS_AT_ONCE = 64

Floats = npt.NDArray[np.float64]


def logits(rng: np.random.Generator, shape: Shape, regime: str, seed: int) -> Bits:
    """Logits, [M, N]: a row a token."""
    if regime in ("cancel", "absorb") and shape[1] > 1:
        return _one_above(rng, shape, regime)
    if regime == "pairs" and shape[1] >= 8:
        return _three(rng, shape)
    if regime == "normal":
        words = random_words(rng, int(np.prod(shape))).reshape(shape)
        return compose(words, bell_table(1))
    bits = REGIMES[regime](rng, shape, "token", seed)
    if regime == "special":
        banned = (np.arange(shape[0]) % 10 == 6)[:, None] & (bits == _INFINITY)
        bits = np.where(banned, bits | _SIGN, bits).astype(np.uint32)
    return bits


def _one_above(rng: np.random.Generator, shape: Shape, regime: str) -> Bits:
    words = random_words(rng, int(np.prod(shape))).reshape(shape)
    part = (words >> np.uint32(9)).astype(np.float64) * 2.0**-23
    if regime == "absorb":
        values = -17.5 + 0.75 * part
    else:
        values = -(shape[1].bit_length() * _LN2 - 1.0 + 4.0 * part)
    bits: Bits = values.astype(np.float32).view(np.uint32)
    column = random_words(rng, shape[0]) % np.uint32(shape[1])
    return np.where(np.arange(shape[1]) == column[:, None], np.uint32(0), bits).astype(np.uint32)


def _three(rng: np.random.Generator, shape: Shape) -> Bits:
    """The largest apart from two others that share a lane where lanes are half a row apart."""
    drawn = compose(random_words(rng, 2 * shape[0]), np.full(256, -1)) & ~_SIGN  # in [1/2, 1)
    half = shape[1] // 2
    first = (random_words(rng, shape[0]) % np.uint32(half)).astype(np.int64)
    bits = np.full(shape, _INFINITY | _SIGN, np.uint32)
    rows = np.arange(shape[0])
    bits[rows, first] = drawn[: shape[0]]
    bits[rows, first + half] = drawn[shape[0] :] | _SIGN
    bits[rows, (first + half // 2) % half] = np.uint32(0x3FC00000)  # 1.5
    return bits


def index(rng: np.random.Generator, rows: Bits) -> npt.NDArray[np.int64]:
    """One column for each row of float32 patterns [M, N]: of 8 rows about one gets the first
    column, one the last, three that of the row's largest element (NaN aside), three any."""
    count, size = rows.shape
    words = random_words(rng, 2 * count).reshape(2, count)
    values = np.where(np.isnan(rows.view(np.float32)), -np.inf, rows.view(np.float32))
    kind = words[0] % np.uint32(8)
    any_column = words[1].astype(np.int64) % max(size, 1)
    largest = np.argmax(values, axis=1) if size else any_column
    columns: npt.NDArray[np.int64] = np.select(
        [kind == 0, kind == 1, kind < 5], [0, size - 1, largest], default=any_column
    ).astype(np.int64)
    return columns


def lse(values: Floats) -> Floats:
    """m + log(sum of exp(x - m)) of every row, in float64."""
    return _statistics(values)[0]


def entropy(values: Floats) -> Floats:
    """Entropy of the softmax of every row, in float64."""
    return _statistics(values)[1]


def _statistics(values: Floats) -> tuple[Floats, Floats]:
    found = np.zeros((2, values.shape[0]))
    for start in range(0, values.shape[0], _ROWS_AT_ONCE):
        part = values[start : start + _ROWS_AT_ONCE]
        largest = np.fmax.reduce(part, axis=1, initial=-np.inf)
        with np.errstate(invalid="ignore"):
            below = part - largest[:, None]
            terms = recipes_exp.exp(below)
            total = recipes_exp.sum_rows(terms)
            products = recipes_exp.sum_rows(terms * np.maximum(below, -700.0))
            log_total = recipes_exp.log(total)
            both = np.stack([largest + log_total, log_total - products / total])
        found[:, start : start + _ROWS_AT_ONCE] = np.where(np.isnan(both), np.nan, both)
    return found[0], found[1]


def gradient(rng: np.random.Generator, shape: Shape, regime: str, seed: int) -> Bits:
    """The gradient of one number a token, [M]."""
    if regime == "special":
        return REGIMES["special"](rng, shape, "offset", seed)
    bits = compose(random_words(rng, int(np.prod(shape))).reshape(shape), bell_table())
    # A power of two scales and rounds nothing: what is multiplied by it shows as it is.
    return bits & np.uint32(0xFF800000) if regime in ("ties", "cancel") else bits


def undoing_gradient(
    values: Floats, lse_values: Floats, entropy_values: Floats, dentropy: Floats
) -> Floats:
    """The dlogprob that undoes dentropy at the row's middle column, [M]."""
    if not values.shape[1]:
        return np.zeros(values.shape[0])
    middle = values[:, values.shape[1] // 2]
    return -dentropy * ((middle - lse_values) + entropy_values)
