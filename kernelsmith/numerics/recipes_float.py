"""Building blocks of input recipes: random words, and floats put together from bit fields.

Everything here is integer arithmetic on float32 bit patterns (bfloat16 is the upper half of
them), so the same seed gives the same bytes on every machine. Magnitudes are said as binary
exponents.
"""

import hashlib

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint32]
Shape = tuple[int, ...]

_BLOCK = 1 << 15
_BIAS = 127


def generator(*key: object) -> np.random.Generator:
    """A counter-based generator for a key: equal keys, equal streams, in any process."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def random_words(rng: np.random.Generator, count: int) -> Bits:
    """``count`` random 32-bit words.

    Beyond 2**15 words the block is repeated, each time combined with a word of its own, which
    costs a fifth of drawing every word and keeps each word uniform.
    """
    head = min(count, _BLOCK)
    # Full-range integers are the raw stream, which NumPy keeps stable across releases.
    block = rng.integers(0, 1 << 64, (head + 1) // 2, dtype=np.uint64).view(np.uint32)[:head]
    if count <= _BLOCK:
        return block
    repeats = -(-count // _BLOCK)
    turns = rng.integers(0, 1 << 64, repeats, dtype=np.uint64).astype(np.uint32)
    return np.bitwise_xor(block[None, :], turns[:, None]).reshape(-1)[:count]


def compose(words: Bits, exponents: npt.NDArray[np.int64]) -> Bits:
    """Floats with a random sign and mantissa whose binary exponent is drawn from a table.

    Args:
        words: random words: 1 bit sign, 8 bits index into the table, 23 bits mantissa.
        exponents: 256 binary exponents in [-126, 127].
    """
    table = ((exponents + _BIAS) << 23).astype(np.uint32)
    index = (words >> np.uint32(23)) & np.uint32(0xFF)
    bits: Bits = table[index] | (words & np.uint32(0x807FFFFF))
    return bits


def exponent_table(low: int, high: int) -> npt.NDArray[np.int64]:
    """256 entries: every exponent of [low, high] about equally often."""
    return low + np.arange(256, dtype=np.int64) * (high - low + 1) // 256


def bell_table(shift: int = 0) -> npt.NDArray[np.int64]:
    """256 entries that give magnitudes about those of a normal distribution of scale 2**shift."""
    counts = {1: 12, 0: 69, -1: 78, -2: 47, -3: 25, -4: 12, -5: 6, -6: 3, -7: 2, -8: 1, -9: 1}
    return np.repeat(np.array(list(counts), np.int64), list(counts.values())) + shift


def scale_exponent(bits: Bits, shift: npt.NDArray[np.int64] | int) -> Bits:
    """Multiplies normal floats by 2**shift; the result must be normal too."""
    return (bits.astype(np.int64) + (np.asarray(shift, np.int64) << 23)).astype(np.uint32)


def to_float64(array: npt.NDArray[np.generic], dtype: str) -> npt.NDArray[np.float64]:
    """Values of storage words (bfloat16 as uint16, others in their own dtype). Exact."""
    with np.errstate(invalid="ignore"):  # signalling NaNs become quiet
        if dtype == "bfloat16":
            wide = array.astype(np.uint16).astype(np.uint32) << np.uint32(16)
            return wide.view(np.float32).astype(np.float64)
        return array.astype(np.float64)


def from_float64(array: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[np.generic]:
    """Storage of the nearest representable values, ties to even, rounded once.

    NaNs become the quiet NaN of the dtype with the sign kept.
    """
    if dtype != "bfloat16":
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return array.astype(np.dtype(dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        # float32 rounded to odd keeps what the second rounding must know.
        near = array.astype(np.float32)
        back = near.astype(np.float64)
        bits = near.view(np.uint32).copy()
        overshoot = np.abs(back) > np.abs(array)
        inexact = np.isfinite(back) & (back != array)
        bits = np.where(inexact & overshoot, bits - np.uint32(1), bits)
        bits = np.where(inexact, bits | np.uint32(1), bits)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) & np.uint32(0x8000) | np.uint32(0x7FC0)
    return np.where(np.isnan(array), quiet, rounded).astype(np.uint16)


def from_bits(bits: Bits, dtype: str) -> npt.NDArray[np.generic]:
    """Storage of float32 patterns in ``dtype``; bfloat16 keeps the upper half of each pattern."""
    if dtype == "float32":
        return bits.view(np.float32)
    if dtype == "bfloat16":
        return (bits >> np.uint32(16)).astype(np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        return bits.view(np.float32).astype(np.dtype(dtype))
