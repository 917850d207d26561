"""What every test stands on: a Triton cache that no other checkout or earlier run wrote to, and
Ctrl-C as a terminal leaves it."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> Iterator[None]:
    """A shell that starts pytest in the background has it and all that tests start ignore SIGINT;
    a program that a test interrupts would go on, and the test wait for it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
