"""Regimes: how a tensor's values are drawn so that differences in arithmetic reach the output.

Plain random bfloat16 inputs hide a changed order of summation behind the last rounding. Each
regime makes one kind of difference visible:

=========  =====================================================================================
normal     bell-shaped magnitudes, full mantissas; cheap, also used for timing
cancel     wide exponents, the second half of each sum mirrors the first with the opposite sign:
           what is left is the rounding noise itself, in every bit of the output
absorb     a few large terms that cancel in the end, and small ones between a quarter and half an
           ulp of them: which of these are lost depends on the order alone
logspace   magnitudes from 2**-31 to 2**13, rows of very different scale: in some a usual epsilon
           weighs as much as the row
ties       small integers: exact sums, outputs that lie half way between two bfloat16 values,
           and offsets that move them just off it
pairs      rows that are zero but for two elements half a row apart: where a sum has a lane for
           both, its one addition is the whole sum, and contraction shows in it
constant   all elements of a row equal
special    rows with infinities, NaNs with payloads, subnormals and zeros of both signs
huge       rows with finite values from 2**62 to 2**127: where squares, sums and exponentials
           overflow or nearly do, and where a branch on large values would be taken
tiny       columns of zeros of one sign or both, subnormals, beside the smallest normals and beside
           their root: sums that are zero or tiny, where flushing, a start other than +0 and an
           added constant show
each       every one of the 65,536 bfloat16 patterns about equally often, for functions of one
           element: a branch on any one value is taken where a tensor has as many elements
=========  =====================================================================================

A tensor has one of the roles ``token`` (a row a token; sums run along the row), ``matrix``
(weights of a product; sums run along either axis), ``vector`` (one weight a column) and
``offset`` (a bias). All return float32 patterns.
"""

from collections.abc import Callable

import numpy as np

from kernelsmith.numerics.recipes_float import (
    Bits,
    Shape,
    bell_table,
    compose,
    exponent_table,
    generator,
    random_words,
    scale_exponent,
)

_SIGN = np.uint32(0x80000000)
_ONE = np.uint32(0x3F800000)
_BIG = np.uint32(0x45800000)  # 2**12; its square is 2**24, whose ulp is 2


def _words(rng: np.random.Generator, shape: Shape) -> Bits:
    return random_words(rng, int(np.prod(shape))).reshape(shape)


def _mirror(bits: Bits, axis: int, flip: bool) -> Bits:
    """Makes element n-1-i of an axis equal element i, with the opposite sign if ``flip``."""
    size = bits.shape[axis]
    half = size // 2
    moved = np.moveaxis(bits, axis, -1)
    front = moved[..., :half][..., ::-1]
    moved[..., size - half :] = front ^ _SIGN if flip else front
    return bits


def _large_positions(seed: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which indices of an axis carry the large terms: a function of the seed and the axis size,
    so that they meet in a product. One mirrored pair and a few more by chance: many would
    raise the sum until the small terms are lost in any order."""
    words = random_words(generator(seed, "large", size), size)
    large = words < np.uint32(1 << 23)
    half = size // 2
    large[size - half :] = large[:half][::-1]
    if half:
        chosen = int(words[0]) % half
        large[chosen] = large[size - 1 - chosen] = True
    return large


def normal(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Bell-shaped magnitudes with full mantissas; products' weights scaled by 2**-4."""
    shift = {"token": 0, "matrix": -4, "vector": 0, "offset": 0}[role]
    return compose(_words(rng, shape), bell_table(shift))


def cancel(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Wide exponents; along a sum, element n-1-i undoes element i."""
    bits = compose(_words(rng, shape), exponent_table(-6, 6))
    if role == "offset":
        return scale_exponent(bits, -16)
    bits = _mirror(bits, -1, flip=role == "token")
    if role == "matrix":
        bits = _mirror(bits, 0, flip=False)
    return bits


def absorb(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """A mirrored pair of large terms among small ones that it may swallow."""
    words = _words(rng, shape)
    # Small terms in [0.8, 1): their products and squares lie in [0.64, 1), ulp(2**24) being 2.
    small = np.uint32(0x3F4D0000) + words % np.uint32(0x00320000)
    if role == "offset":
        return small
    large = _large_positions(seed, shape[-1])
    if role == "token":
        bits = np.where(words < np.uint32(1 << 29), small | _SIGN, small)
        return _mirror_large(np.where(large, _BIG, bits), large)
    bits = np.where(words & np.uint32(0x01000000), small, _ONE)
    if role == "matrix":
        large = large[None, :] | _large_positions(seed, shape[0])[:, None]
    return np.where(large, _BIG, bits).astype(np.uint32)


def _mirror_large(bits: Bits, large: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Bits:
    size = bits.shape[-1]
    second = large & (np.arange(size) >= size - size // 2)
    return np.where(second, bits ^ _SIGN, bits).astype(np.uint32)


def logspace(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Log-uniform magnitudes; the scales of token rows go through 2**-24 to 2**6 in steps that
    leave none far from any other, so that ten rows reach all parts of the range."""
    if role == "vector":
        return compose(_words(rng, shape), exponent_table(-8, 8))
    bits = compose(_words(rng, shape), exponent_table(-7, 6))
    if role == "token":
        first = int(random_words(rng, 1)[0])
        per_row = (first % 31 + 7 * np.arange(shape[0])) % 31 - 24
        bits = scale_exponent(bits, per_row.reshape((-1,) + (1,) * (len(shape) - 1)))
    return bits


def ties(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Small integers; offsets are zero or 2**-10."""
    words = _words(rng, shape)
    if role == "offset":
        # Zero, or so small that it only moves a sum off the tie.
        tiny = np.uint32(0x3A800000) | (words & _SIGN)  # 2**-10
        return np.where(words & np.uint32(1), tiny, np.uint32(0))
    integers = (words >> np.uint32(28)).astype(np.int32) - 7
    return integers.astype(np.float32).view(np.uint32)


def pairs(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Token rows of two full-mantissa elements, half a row apart, among zeros of both signs.

    Of 32 pairs a row the first is taken whose squares sum to other bits when they are contracted.
    """
    if role != "token" or len(shape) != 2 or shape[-1] < 2:
        return normal(rng, shape, role, seed)
    words = _words(rng, shape)
    drawn = compose(_words(rng, (shape[0], 32, 2)), exponent_table(-1, 1))
    first, second = (drawn[..., side].view(np.float32) for side in (0, 1))
    exact = second.astype(np.float64) ** 2
    tells = first * first + second * second != (first * first + exact).astype(np.float32)
    chosen = drawn[np.arange(shape[0]), tells.argmax(axis=1)]
    half = shape[-1] // 2
    column = (words[:, :1] % np.uint32(half)).astype(np.int64)
    index = np.arange(shape[-1])
    bits = np.where(index == column, chosen[:, :1], words & _SIGN)
    return np.where(index == column + half, chosen[:, 1:], bits).astype(np.uint32)


def constant(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """One value a token row, one value a weight."""
    if role == "token":
        column = compose(_words(rng, shape[:1]), exponent_table(-3, 4))
        return np.repeat(column[:, None], int(np.prod(shape[1:])), axis=1).reshape(shape)
    return np.broadcast_to(compose(_words(rng, (1,)), bell_table()), shape).copy()


def special(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Token rows by turns normal, with infinities, with NaNs, subnormal, zero."""
    bits = normal(rng, shape, role, seed)
    words = _words(rng, shape)
    rare = words < np.uint32(1 << 27)
    if role != "token":
        # Weights meet every row: zeros and subnormals only, so that other rows stay telling.
        edge = np.where(words & np.uint32(1), words & np.uint32(0x803FFFFF), words & _SIGN)
        return np.where(rare, edge, bits).astype(np.uint32)
    kind = (np.arange(shape[0]) % 5).reshape((-1,) + (1,) * (len(shape) - 1))
    if len(shape) > 1 and shape[-1]:
        rare[..., shape[-1] // 3] = True
    infinite = np.where(rare, np.uint32(0x7F800000) | (words << np.uint32(31)), bits)
    payload = np.uint32(0x7F800000) | (words & np.uint32(0x807F0000)) | np.uint32(0x00010000)
    nan = np.where(rare, payload, bits)
    subnormal = words & np.uint32(0x807FFFFF)
    zero = words & _SIGN
    return np.select(
        [kind == 1, kind == 2, kind == 3, kind == 4], [infinite, nan, subnormal, zero], default=bits
    ).astype(np.uint32)


def huge(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Token rows by turns normal, with one huge element or a few, beside the root of the largest
    float, and all huge. Weights stay normal."""
    bits = normal(rng, shape, role, seed)
    if role != "token":
        return bits
    words = _words(rng, shape)
    largest = compose(_words(rng, shape), exponent_table(96, 127))
    root = compose(_words(rng, shape), exponent_table(62, 64))
    lone = words < np.uint32(1 << 25)
    if len(shape) > 1 and shape[-1]:
        lone[..., shape[-1] // 2] = True
    kind = (np.arange(shape[0]) % 4).reshape((-1,) + (1,) * (len(shape) - 1))
    return np.select(
        [kind == 1, kind == 2, kind == 3], [np.where(lone, largest, bits), root, largest], bits
    ).astype(np.uint32)


def tiny(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Token columns by turns -0, zeros of both signs, subnormal, from 2**-126 to 2**-110 and from
    2**-66 to 2**-60, whose products are beside the smallest normals; offsets by turns a zero and
    a tiny number. Weights stay normal."""
    if role in ("matrix", "vector"):
        return normal(rng, shape, role, seed)
    words = _words(rng, shape)
    least = compose(_words(rng, shape), exponent_table(-126, -110))
    if role == "offset":
        return np.where(np.arange(shape[-1]) % 2, least, words & _SIGN).astype(np.uint32)
    root = compose(_words(rng, shape), exponent_table(-66, -60))
    kind = np.broadcast_to(np.arange(shape[-1]) % 5, shape)
    return np.select(
        [kind == 0, kind == 1, kind == 2, kind == 3],
        [_SIGN, words & _SIGN, words & np.uint32(0x807FFFFF), least],
        root,
    ).astype(np.uint32)


def each(rng: np.random.Generator, shape: Shape, role: str, seed: int) -> Bits:
    """Token rows that hold all bfloat16 patterns in a drawn order, over and over."""
    if role != "token":
        return normal(rng, shape, role, seed)
    count = int(np.prod(shape))
    order = np.argsort(random_words(rng, 1 << 16), kind="stable").astype(np.uint32)
    return (np.resize(order, count) << np.uint32(16)).astype(np.uint32).reshape(shape)


Regime = Callable[[np.random.Generator, Shape, str, int], Bits]
REGIMES: dict[str, Regime] = {
    "normal": normal,
    "cancel": cancel,
    "absorb": absorb,
    "logspace": logspace,
    "ties": ties,
    "pairs": pairs,
    "constant": constant,
    "special": special,
    "huge": huge,
    "tiny": tiny,
    "each": each,
}
