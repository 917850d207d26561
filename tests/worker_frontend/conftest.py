"""Where the checkout is."""

from pathlib import Path

import pytest


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parent.parent.parent
