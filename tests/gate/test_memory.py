"""What the memory check adds to what parity saw: clear memory, and a bound on scratch."""

from dataclasses import replace
from typing import Any

import pytest

from kernelsmith.gate import plans
from kernelsmith.model import Buffer, OutputRef, Plan, TensorMeta

META = TensorMeta(shape=(240,), strides=(1,), dtype="float32")
PLAN = Plan(
    buffers=(Buffer(nbytes=960, arg="x"), Buffer(nbytes=960)),
    launches=(),
    outputs=(OutputRef(buffer=1, offset_bytes=0, meta=META),),
)
MOST_BYTES = 16 * 1920 + 64 * 2**20


@pytest.mark.parametrize(("poison", "way"), [(0, "memory all zero"), (255, "memory all 0xFF")])
def test_a_result_that_hangs_on_clear_memory_is_rejected(kit: Any, poison: int, way: str) -> None:
    verdict = kit.judge(wrong_poison=poison)
    assert verdict.status == "MEMORY"
    assert verdict.checks[-1].name == "memory"
    assert f", {way} (reads memory that this call did not write)" in verdict.checks[-1].message


def test_a_crash_where_inputs_cannot_be_written_is_a_fault_of_memory(kit: Any) -> None:
    """Plain runs of it end well, so it is not its code that is broken."""
    verdict = kit.judge(crashes="CRASH", crashes_under=[255])
    assert (verdict.status, verdict.checks[-1].name) == ("MEMORY", "memory")
    assert "where inputs cannot be written" in verdict.checks[-1].message


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ((), None),
        ((MOST_BYTES,), None),
        ((MOST_BYTES + 1,), "MEMORY"),
        ((MOST_BYTES - 9, 10), "MEMORY"),
    ],
)
def test_scratch_is_bounded_by_what_the_case_reads_and_returns(
    pieces: tuple[int, ...], status: str | None
) -> None:
    scratch = tuple(Buffer(nbytes=nbytes) for nbytes in pieces)
    found = plans.scratch("case", replace(PLAN, buffers=(*PLAN.buffers, *scratch)))
    assert found.status == status
    if status:
        assert f"{sum(pieces)} bytes of scratch, at most {MOST_BYTES}" in found.message
