"""Compares bytes and says what differs. No tolerance, and no place to put one."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kernelsmith.errors import EvidenceError
from kernelsmith.model import ITEMSIZE_BYTES
from kernelsmith.numerics import bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two tensors differ. ``first_index`` is the first differing element in row-major order;
    ``ulp_distance`` is None where one of the two is a NaN."""

    count: int
    total: int
    first_index: tuple[int, ...]
    expected_bits: str
    actual_bits: str
    expected: float | int
    actual: float | int
    ulp_distance: int | None

    def line(self) -> str:
        """One line for people: count, index, both patterns, both values, distance."""
        far = "NaN" if self.ulp_distance is None else f"{self.ulp_distance} ulp apart"
        return (
            f"{self.count} of {self.total} elements differ, first at {list(self.first_index)}: "
            f"expected {self.expected_bits} ({self.expected}), "
            f"actual {self.actual_bits} ({self.actual}), {far}"
        )

    def evidence(self) -> dict[str, Any]:
        """JSON-able; numbers that JSON cannot hold (NaN, infinities) as text."""
        fields = asdict(self)
        for name in ("expected", "actual"):
            number = fields[name]
            if isinstance(number, float) and not np.isfinite(number):
                fields[name] = str(number)
        return fields


def difference(
    expected: bytes, actual: bytes, *, shape: tuple[int, ...], dtype: str
) -> Difference | None:
    """Compares two tensors byte for byte.

    Args:
        expected: contiguous bytes of the reference.
        actual: contiguous bytes of what is judged.
        shape: of both.
        dtype: of both.

    Returns:
        None if every byte is equal (NaN payloads, signs of zeros and subnormals included).

    Raises:
        EvidenceError: either holds another number of bytes than shape and dtype say: nothing can
            be compared, and an empty comparison must not pass.
    """
    total = int(np.prod(shape, dtype=np.int64))
    nbytes = total * ITEMSIZE_BYTES[dtype]
    if len(expected) != nbytes or len(actual) != nbytes:
        raise EvidenceError(
            f"cannot compare {dtype}{list(shape)} of {nbytes} bytes: "
            f"the reference has {len(expected)}, the other {len(actual)}"
        )
    if expected == actual:
        return None
    words_expected, words_actual = bits.words(expected, dtype), bits.words(actual, dtype)
    differing = np.flatnonzero(words_expected != words_actual)
    first = int(differing[0])
    a, b = int(words_expected[first]), int(words_actual[first])
    return Difference(
        count=int(differing.size),
        total=total,
        first_index=tuple(int(i) for i in np.unravel_index(first, shape)),
        expected_bits=bits.pattern(a, dtype),
        actual_bits=bits.pattern(b, dtype),
        expected=bits.value(a, dtype),
        actual=bits.value(b, dtype),
        ulp_distance=bits.ulp_distance(a, b, dtype),
    )


def take_rows(data: bytes, shape: tuple[int, ...], dtype: str, rows: tuple[int, ...]) -> bytes:
    """Gathers rows (indices along the first axis) of a contiguous tensor."""
    table = bits.words(data, dtype).reshape(shape)
    return np.ascontiguousarray(table[np.asarray(rows, dtype=np.int64)]).tobytes()
