"""Conformance cases against their oracles, on the device as Triton launches it.

Each family's cheap cases are drawn with a fixed seed; ``make proof-conformance`` runs all, on every
Triton version, CPU level, program order and thread count.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import triton

from kernelsmith.devices.cpu import activated
from kernelsmith.errors import CompileError
from tests.conformance.case import Case, digest, faults, launch
from tests.conformance.families import cases_of
from tests.conformance.refused import refusal

A_FAMILY = 10  # cases a family, of those that run
SEED = 5


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        yield


def drawn() -> list[Case]:
    """A seeded draw from each family that has an example of every op it can."""
    rng = random.Random(SEED)
    families: dict[str, list[Case]] = {}
    for case in cases_of(triton.__version__):
        if not refusal(case):
            families.setdefault(case.family, []).append(case)
    return [
        case
        for cases in families.values()
        for case in sorted(rng.sample(cases, min(A_FAMILY, len(cases))), key=lambda each: each.id)
    ]


DRAWN = drawn()
REFUSED = [case for case in cases_of(triton.__version__) if refusal(case)]


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated:UserWarning")
@pytest.mark.parametrize("case", DRAWN, ids=[case.id for case in DRAWN])
def test_a_case_is_as_its_oracle_says_in_every_program_order(case: Case) -> None:
    with activated(threads=1):
        first = launch(case).outputs
    assert not faults(case, first)
    with activated(threads=1, order="descending"):
        assert digest(launch(case).outputs) == digest(first)


@pytest.mark.parametrize("case", REFUSED, ids=[case.id for case in REFUSED])
def test_what_is_not_lowered_says_so(case: Case) -> None:
    refused = (CompileError, triton.compiler.errors.CompilationError)
    with activated(threads=1), pytest.raises(refused) as raised:
        launch(case)
    assert refusal(case) in str(raised.value)
