"""Log-probs as they are stored: integers, and what storage may do to them.

Decisions, each tested:

- Equal means equal as integers of one dtype. −0 and +0 differ.
- Where two dtypes meet, the narrower is *widened exactly* (every bfloat16 and float16 is a
  float32, every float32 a float64), then the integers are compared. Nothing is ever rounded to make
  two values equal. That they were stored differently is named beside the verdict.
- A JSON number is the float64 that it parses to. A dump that declares a narrower dtype gets its
  numbers narrowed to it where that is exact; one that is not exact is named and kept as float64.
- NaN is no log-prob: it equals nothing, itself included. It is named and never averaged.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelsmith.numerics import bits
from kernelsmith.onpolicy.model import Dtype, LogProbs, Words

Floats = npt.NDArray[np.float64]

_NUMPY: dict[Dtype, npt.DTypeLike] = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}


def from_array(values: npt.NDArray[Any]) -> LogProbs:
    """The log-probs of a numpy array of floats, bit by bit.

    Raises:
        ValueError: not float16, float32 or float64.
    """
    for dtype in _NUMPY:
        if values.dtype.name == dtype:
            stored = np.ascontiguousarray(values)
            return LogProbs(words=stored.view(f"u{stored.itemsize}"), dtype=dtype)
    raise ValueError(f"log-probs are {values.dtype.name}, not floats")


def from_words(data: bytes, dtype: Dtype) -> LogProbs:
    """The log-probs that little-endian bytes hold."""
    return LogProbs(words=bits.words(data, dtype), dtype=dtype)


def from_numbers(values: Sequence[float | None], declared: Dtype | None) -> tuple[LogProbs, int]:
    """The log-probs of JSON numbers (``null`` is a NaN), and how many are none of ``declared``.

    Raises:
        ValueError, TypeError: a value is no number.
    """
    wide = np.asarray(values, dtype=np.float64)
    if wide.ndim != 1:
        raise ValueError("log-probs are not one flat list")
    stored = from_array(wide)
    if declared is None or declared == "float64":
        return stored, 0
    narrow = narrowed(wide, declared)
    inexact = int(np.count_nonzero((numbers(narrow) != wide) & ~np.isnan(wide)))
    return (stored, inexact) if inexact else (narrow, 0)


def numbers(logprobs: LogProbs) -> Floats:
    """Their values, exactly."""
    if logprobs.dtype == "bfloat16":
        with np.errstate(invalid="ignore"):
            return _single(logprobs.words).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a signalling NaN is told like any other
        return logprobs.words.view(_NUMPY[logprobs.dtype]).astype(np.float64)


def json_record(fields: Mapping[str, Any]) -> str:
    """A record as one line of JSON, without the line's end. Each of its :class:`LogProbs` becomes a
    list of the float64 that they widen to, NaN as ``null``."""
    plain = {name: value for name, value in fields.items() if not isinstance(value, LogProbs)}
    parts = [json.dumps(plain, separators=(",", ":"))[1:-1]] if plain else []
    for name, value in fields.items():
        if isinstance(value, LogProbs):
            held = [None if math.isnan(each) else each for each in numbers(value).tolist()]
            # JSON knows no infinity; a number too large for float64 is read as one, everywhere.
            text = json.dumps(held, separators=(",", ":")).replace("Infinity", "1e999")
            parts.append(f"{json.dumps(name)}:{text}")
    return f"{{{','.join(parts)}}}"


def meeting(a: Dtype, b: Dtype) -> Dtype:
    """The narrowest dtype that holds every value of both."""
    if a == b:
        return a
    return "float64" if "float64" in (a, b) else "float32"


def widened(logprobs: LogProbs, dtype: Dtype) -> Words:
    """The integers of the same values in a dtype that holds them all."""
    if logprobs.dtype == dtype:
        return logprobs.words
    if dtype == "float32" and logprobs.dtype == "bfloat16":
        return logprobs.words.astype(np.uint32) << np.uint32(16)
    wide = numbers(logprobs)
    if dtype == "float32":
        return wide.astype(np.float32).view(np.uint32)
    return wide.view(np.uint64)


def narrowed(values: Floats, dtype: Dtype) -> LogProbs:
    """Values rounded to nearest, ties to even: for asking what storage explains, never for a
    comparison that decides."""
    if dtype == "bfloat16":
        # By way of float32, as torch's own conversion goes.
        with np.errstate(over="ignore", invalid="ignore"):
            words = values.astype(np.float32).view(np.uint32)
        rounded = words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))
        rounded = np.where(np.isnan(values), words | np.uint32(0x00400000), rounded)
        return LogProbs(words=(rounded >> np.uint32(16)).astype(np.uint16), dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return from_array(values.astype(_NUMPY[dtype]))


def narrowest(value: float) -> Dtype:
    """The narrowest dtype that holds a value exactly (bfloat16 before float16)."""
    one = np.array([value])
    order: tuple[Dtype, ...] = ("bfloat16", "float16", "float32")
    for dtype in order:
        if numbers(narrowed(one, dtype))[0] == value:
            return dtype
    return "float64"


def _single(words: Words) -> npt.NDArray[np.float32]:
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)
