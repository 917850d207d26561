"""The CPU device for every test here."""

from collections.abc import Iterator

import pytest

from kernelsmith.devices.cpu import activated


@pytest.fixture(scope="module", autouse=True)
def device() -> Iterator[None]:
    with activated(threads=2):
        yield
