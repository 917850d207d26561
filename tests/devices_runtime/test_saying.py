"""``tl.device_print`` and ``tl.device_assert`` through Triton's own launch path."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.devices.cpu import activate, deactivate
from kernelsmith.errors import DeviceAssertError


@pytest.fixture(autouse=True)
def _active() -> Iterator[None]:
    activate(threads=1)
    yield
    deactivate()


@triton.jit
def says(x_ptr, n):
    for k in range(n):
        value = tl.load(x_ptr + k)
        if value > 2:
            tl.device_print("large", k, value)
        tl.device_assert(value < 8, "too large")
        tl.store(x_ptr + k, 0.0)


def test_a_kernel_prints_while_it_runs(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([1.0, 3.5, 9.0])
    says[(1,)](x, 3)
    assert capfd.readouterr().err.splitlines() == [
        "pid (0, 0, 0) large: (operand 0) 1",
        "pid (0, 0, 0) large: (operand 1) 3.5",
        "pid (0, 0, 0) large: (operand 0) 2",
        "pid (0, 0, 0) large: (operand 1) 9.0",
    ]
    assert x.tolist() == [0, 0, 0]  # without debug there are no assertions


def test_a_failed_assertion_is_an_exception_that_names_its_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    x = torch.tensor([1.0, 9.0, 1.0])
    with pytest.raises(DeviceAssertError, match="too large") as caught:
        says[(4,)](x, 3, debug=True)
    path, _, number = caught.value.line.rpartition(":")
    assert path == __file__
    line = Path(path).read_text().splitlines()[int(number) - 1]
    assert "tl.device_assert" in line
    assert x.tolist() == [0, 9, 1]  # nothing ran on, in this program or in the next
    assert "large" in capfd.readouterr().err


@triton.jit
def adds(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr) + tl.load(x_ptr + 1))


def test_debug_finds_an_integer_that_overflows() -> None:
    x, y = torch.tensor([2**31 - 1, 1], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    adds[(1,)](x, y)
    assert y[0] == -(2**31)
    with pytest.raises(DeviceAssertError, match="int32 overflow detected for operation add"):
        adds[(1,)](x, y, debug=True)
    adds[(1,)](x, y, debug=True, sanitize_overflow=False)
