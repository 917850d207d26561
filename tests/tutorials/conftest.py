"""The CPU device for every test here, with a Triton cache of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith.devices.cpu import activated


@pytest.fixture(scope="module", autouse=True)
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        with activated(threads=2):
            yield
