"""Lets tests import ``tests.loop.fakes`` however pytest was started; a scripted server."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


@pytest.fixture(scope="package")
def server() -> Any:
    """Plays what ``play`` is told."""
    from tests.agent.scripted import Scripted

    return Scripted()


@pytest.fixture(scope="package")
def address(server: Any) -> Iterator[str]:
    """Where the scripted server listens, up to the run."""
    from kernelsmith.loopback import serving
    from tests.agent.scripted import RUN, app

    with serving(app(server)) as base:
        yield f"{base}/k/{RUN}"
