"""``observing()``: jit kernels on tensors, in one's own process."""

import pytest
import torch

from kernelsmith.devices import cpu
from kernelsmith.errors import InputError
from tests.observed import kernels
from tests.observed.conftest import line_of


def test_launches_are_observed_and_told_in_a_line() -> None:
    x, y = torch.arange(100, dtype=torch.int32), torch.zeros(100, dtype=torch.int32)
    with cpu.observing() as found:
        kernels.copy[(7,)](x, y, 100, BLOCK=16)
        assert found == []
        assert torch.equal(x, y)
        kernels.tail_read[(7,)](x, y, 100, BLOCK=16)
        kernels.same_word[(3,)](x, y, 100, BLOCK=16)
    line = line_of("tail_read", "x = tl.load").partition(":")[2]
    assert [str(one) for one in found] == [
        f"out of bounds: program 6 of tail_read reads bytes 400 to 447 of x_ptr at line {line}; "
        "x_ptr has 400 bytes (12 accesses)",
        "race: program 1 of same_word writes bytes 12 to 15 of y_ptr at line "
        f"{line_of('same_word', 'tl.store').partition(':')[2]}, which program 0 writes at line "
        f"{line_of('same_word', 'tl.store').partition(':')[2]} (2 accesses)",
    ]


def test_the_usual_builds_are_back_afterwards() -> None:
    x, y = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    with cpu.activated():
        kernels.copy[(4,)](x, y, 64, BLOCK=16)
        with cpu.observing() as found:
            kernels.copy[(4,)](x, y, 64, BLOCK=16)
        y.zero_()
        kernels.copy[(4,)](x, y, 64, BLOCK=16)
    assert torch.equal(x, y)
    assert found == []


def test_a_view_may_reach_its_whole_storage_and_no_more() -> None:
    whole = torch.zeros(64, dtype=torch.int32)
    with cpu.observing() as found:
        kernels.tail_write[(2,)](whole[32:], whole[:32], 20, BLOCK=16)
        assert found == []
        kernels.tail_write[(3,)](whole[:32], whole[32:], 20, BLOCK=16)
    assert [(one.begin, one.end) for one in found] == [(256, 320)]


def test_an_address_cannot_be_observed() -> None:
    y = torch.zeros(64, dtype=torch.int32)
    with cpu.observing(), pytest.raises(InputError, match="x_ptr is an address"):
        kernels.copy.run(_Address(y), y, 64, BLOCK=16, grid=(1,), warmup=False)


class _Address:
    """What Triton takes for a pointer without being a tensor."""

    dtype = torch.int32
    is_cpu = True

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def data_ptr(self) -> int:
        return self._tensor.data_ptr()
