"""Byte equality and what is said when bytes differ."""

import struct

import numpy as np
import pytest

from kernelsmith.errors import EvidenceError
from kernelsmith.gate.compare import difference, take_rows
from kernelsmith.numerics import bits


def test_says_count_index_patterns_values_and_ulps() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = a.copy()
    b[1, 2] = np.nextafter(b[1, 2], np.float32(100))
    b[2, 3] = -1.0
    found = difference(a.tobytes(), b.tobytes(), shape=(3, 4), dtype="float32")
    assert found is not None
    assert (found.count, found.total, found.first_index, found.ulp_distance) == (2, 12, (1, 2), 1)
    assert found.line() == (
        "2 of 12 elements differ, first at [1, 2]: expected 0x40c00000 (6.0), "
        "actual 0x40c00001 (6.000000476837158), 1 ulp apart"
    )


def test_equal_bytes_are_equal_with_nan_and_empty() -> None:
    nan = np.array([np.nan, -0.0], dtype=np.float32).tobytes()
    assert difference(nan, nan, shape=(2,), dtype="float32") is None
    assert difference(b"", b"", shape=(0, 7), dtype="bfloat16") is None


@pytest.mark.parametrize(
    ("expected", "actual", "ulps"),
    [
        (0x0000, 0x8000, 1),  # +0 against -0
        (0x7FC0, 0x7FC1, None),  # two NaN payloads
        (0x7FC0, 0xFFC0, None),  # NaN signs
        (0x3F80, 0x3F81, 1),
        (0x0001, 0x8001, 3),  # subnormals on both sides of zero
        (0x7F80, 0x7F7F, 1),  # infinity and the largest finite
    ],
)
def test_what_compares_equal_as_numbers_still_differs(
    expected: int, actual: int, ulps: int | None
) -> None:
    found = difference(
        struct.pack("<H", expected), struct.pack("<H", actual), shape=(1,), dtype="bfloat16"
    )
    assert found is not None
    assert found.ulp_distance == ulps
    assert found.expected_bits == f"0x{expected:04x}"


def test_wrong_size_raises_instead_of_passing() -> None:
    with pytest.raises(EvidenceError, match="8 bytes"):
        difference(b"", b"", shape=(2,), dtype="float32")
    with pytest.raises(EvidenceError):
        difference(b"\0" * 8, b"\0" * 4, shape=(2,), dtype="float32")


def test_values_of_every_dtype() -> None:
    assert bits.value(0x3FC0, "bfloat16") == 1.5
    assert bits.value(0x3E00, "float16") == 1.5
    assert bits.value(0xFFFF, "int16") == -1
    assert bits.value(1, "bool") == 1
    assert bits.ulp_distance(0xFFFF, 0x0001, "int16") == 2
    assert bits.value(0x3FF8000000000000, "float64") == 1.5


def test_evidence_is_json_without_nan() -> None:
    found = difference(b"\xc0\x7f", b"\x80\x7f", shape=(1,), dtype="bfloat16")
    assert found is not None
    assert found.evidence()["expected"] == "nan"
    assert found.evidence()["actual"] == "inf"


def test_rows_are_gathered_by_bytes() -> None:
    table = np.arange(6, dtype=np.uint16).reshape(3, 2)
    got = take_rows(table.tobytes(), (3, 2), "bfloat16", (2, 0))
    assert np.frombuffer(got, np.uint16).tolist() == [4, 5, 0, 1]
