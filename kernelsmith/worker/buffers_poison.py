"""Patterns that make unwritten, stale and out-of-bounds memory visible.

Odd seeds give 16-bit lanes that are NaN read as bfloat16, float16 and float32, and as the high
lane of a float64 (0x7ff1-0x7fff, 0xfff1-0xffff): whatever arithmetic touches them is NaN. Even
seeds give large finite values of both signs: they show where a maximum or a comparison would
have dropped a NaN. As integers both are far out of range. Neither holds the device's canonical
NaN, so an output that nobody wrote cannot equal a computed one under two seeds.

Two seeds are set apart: ZEROS and ONES fill with one byte, for results that hang on memory being
clear.
"""

import functools

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

PATTERN_BYTES = 1 << 16
ZEROS, ONES = 0, 255
CONSTANT = {ZEROS: 0x00, ONES: 0xFF}
# What checked runs use, and so timed replays too: a kernel cannot tell one from the other.
CHECKED_SEEDS = (1, 2, 3)


@functools.lru_cache(maxsize=8)
def pattern(seed: int) -> Bytes:
    """The repeating pattern of ``seed``, PATTERN_BYTES of uint8; deterministic."""
    if seed in CONSTANT:
        return np.full(PATTERN_BYTES, CONSTANT[seed], np.uint8)
    draw = np.random.Generator(np.random.PCG64(seed))
    lanes = PATTERN_BYTES // 2
    if seed % 2:
        values = draw.integers(0x7FF1, 0x8000, lanes, dtype=np.uint16)
    else:
        values = draw.integers(0x4B00, 0x5B00, lanes, dtype=np.uint16)
    signs = draw.integers(0, 2, lanes, dtype=np.uint16) << np.uint16(15)
    return (values | signs).view(np.uint8)


def fill(view: Bytes, seed: int, salt: int) -> None:
    """Fills ``view`` with the pattern of ``seed``, started at a place that ``salt`` decides."""
    turned = _turned(seed, salt)
    whole = view.size // PATTERN_BYTES * PATTERN_BYTES
    view[:whole].reshape(-1, PATTERN_BYTES)[:] = turned
    view[whole:] = turned[: view.size - whole]


@functools.lru_cache(maxsize=64)
def _turned(seed: int, salt: int) -> Bytes:
    # A copy of one buffer's poison into another must not pass for the other's own.
    return np.roll(pattern(seed), salt * 1016 % PATTERN_BYTES)
