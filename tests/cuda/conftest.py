"""A driver that is not there; see ``stand_in``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.cuda.stand_in import Fake, build, why_not  # noqa: E402


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Fake:
    problem = why_not()
    if problem:
        pytest.skip(f"the stand-in for a GPU cannot be built: {problem}")
    return Fake(build(tmp_path_factory.mktemp("stand_in")))


@pytest.fixture
def fake(built: Fake) -> Iterator[Fake]:
    built.reset()
    yield built
    built.reset()
