"""Random elementwise, reduction and scan programs, to the bit against numpy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelsmith.devices.cpu import activated
from tests.conformance.case import faults, launch
from tests.conformance.programs import REDUCTIONS, SCANS, SHAPES, Step, case_of, steps

FLOATS = ("fp32", "bf16", "fp16", "fp64")
WIDE = ("fp32", "int32", "fp64", "int64")
DRAWS = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module", autouse=True)
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        with activated(threads=1):
            yield


def check(dtype: str, shape: tuple[int, int], program: list[Step]) -> None:
    case = case_of(dtype, shape, program)
    found = faults(case, launch(case).outputs)
    assert not found, f"{found}\n{case.kernel}"


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int8", "uint16", "int64"])
def test_elementwise_programs(dtype: str) -> None:
    @DRAWS
    @given(shape=st.sampled_from(SHAPES), program=steps(dtype))
    def run(shape: tuple[int, int], program: list[Step]) -> None:
        check(dtype, shape, program)

    run()


@pytest.mark.parametrize("dtype", WIDE)
def test_programs_with_reductions(dtype: str) -> None:
    @DRAWS
    @given(shape=st.sampled_from(SHAPES), program=steps(dtype, *REDUCTIONS))
    def run(shape: tuple[int, int], program: list[Step]) -> None:
        check(dtype, shape, program)

    run()


@pytest.mark.parametrize("dtype", WIDE)
def test_programs_with_scans_and_reductions(dtype: str) -> None:
    @DRAWS
    @given(shape=st.sampled_from(SHAPES), program=steps(dtype, *SCANS, *SCANS, *REDUCTIONS))
    def run(shape: tuple[int, int], program: list[Step]) -> None:
        check(dtype, shape, program)

    run()
