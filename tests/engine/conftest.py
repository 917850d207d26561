"""Containers of a real engine; where none answers, or it has no image, all tests here skip by name.

``tests/ci/engine.sh COMMAND`` runs a command with an engine.
"""

from collections.abc import Iterator

import pytest

from kernelsmith.errors import MissingError
from kernelsmith.sandbox.docker import Docker, open_docker


@pytest.fixture(scope="session")
def docker() -> Iterator[Docker]:
    """One sandbox for all tests that leave it as it was."""
    found = opened()
    yield found
    found.close()


def opened() -> Docker:
    try:
        return open_docker()
    except MissingError as error:
        pytest.skip(f"docker: {error.message}")
