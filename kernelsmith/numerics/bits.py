"""Bit patterns of tensors: equality is equality of bytes, floats are looked at as integers.

Pure functions on numpy arrays and bytes. Nothing here knows a tolerance.
"""

import numpy as np
import numpy.typing as npt

from kernelsmith.model import ITEMSIZE_BYTES

Words = npt.NDArray[np.unsignedinteger]

_WORD = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_EXPONENT_BITS = {"bfloat16": 8, "float16": 5, "float32": 8, "float64": 11}
"""Width of the exponent field of every floating dtype; other dtypes are integers."""


def words(data: bytes, dtype: str) -> Words:
    """Views bytes as unsigned integers, one an element.

    Args:
        data: contiguous storage of a tensor.
        dtype: a name in ``model.ITEMSIZE_BYTES``.

    Returns:
        A read-only one-dimensional view without a copy.
    """
    return np.frombuffer(data, dtype=_WORD[ITEMSIZE_BYTES[dtype]])


def is_floating(dtype: str) -> bool:
    """Whether ``dtype`` is a floating dtype."""
    return dtype in _EXPONENT_BITS


def pattern(word: int, dtype: str) -> str:
    """The bit pattern as people write it: ``0x3f80`` for a bfloat16 one."""
    return f"0x{word:0{2 * ITEMSIZE_BYTES[dtype]}x}"


def value(word: int, dtype: str) -> float | int:
    """The number that a bit pattern stands for (a float for NaN and infinities too)."""
    nbytes = ITEMSIZE_BYTES[dtype]
    raw = int(word).to_bytes(nbytes, "little")
    if dtype == "bfloat16":
        return float(np.frombuffer(b"\0\0" + raw, dtype=np.float32)[0])
    if dtype == "bool":
        return int(word)
    scalar = np.frombuffer(raw, dtype=np.dtype(dtype))[0]
    return float(scalar) if is_floating(dtype) else int(scalar)


def is_nan(word: int, dtype: str) -> bool:
    """Whether a pattern is a NaN of any payload and sign; False for integer dtypes."""
    if not is_floating(dtype):
        return False
    width = 8 * ITEMSIZE_BYTES[dtype]
    mantissa_bits = width - 1 - _EXPONENT_BITS[dtype]
    magnitude = word & ((1 << (width - 1)) - 1)
    return magnitude > ((1 << _EXPONENT_BITS[dtype]) - 1) << mantissa_bits


def ulp_distance(a: int, b: int, dtype: str) -> int | None:
    """How many representable numbers lie between two patterns.

    −0 and +0 are one apart although they compare equal as numbers. For integer dtypes this is the
    distance of the values. None if either is a NaN: then there is no distance.
    """
    if is_nan(a, dtype) or is_nan(b, dtype):
        return None
    if not is_floating(dtype):
        return abs(int(value(a, dtype)) - int(value(b, dtype)))
    sign = 1 << (8 * ITEMSIZE_BYTES[dtype] - 1)
    rank_a, rank_b = (-1 - (w & (sign - 1)) if w & sign else w for w in (a, b))
    return abs(rank_a - rank_b)
