"""The server on loopback, and a plain client for it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import anthropic
import httpx2
import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.loopback import serving  # noqa: E402
from kernelsmith.rehearsal.delivery import Delivery  # noqa: E402
from kernelsmith.rehearsal.server import application  # noqa: E402

Server = Callable[..., httpx2.Client]
Library = Callable[..., anthropic.Anthropic]


@pytest.fixture
def server() -> Iterator[Server]:
    """Starts a server of a script and gives a client of it."""
    with ExitStack() as stack:

        def start(script: str = "night", delivery: Delivery | None = None) -> httpx2.Client:
            url = stack.enter_context(serving(application(script, delivery)))
            return stack.enter_context(_client(url))

        yield start


@pytest.fixture(scope="session")
def night() -> Iterator[httpx2.Client]:
    """A client of one server for all tests that do not care which try a request is."""
    with serving(application("night")) as url, _client(url) as client:
        yield client


@pytest.fixture(scope="session")
def minute() -> Iterator[httpx2.Client]:
    """As ``night``, of the script without troubles."""
    with serving(application("minute")) as url, _client(url) as client:
        yield client


def _client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, trust_env=False, timeout=20.0)


@pytest.fixture
def library() -> Iterator[Library]:
    """The real client library on the server of a plain client, its own retries off."""
    with ExitStack() as stack:

        def of(client: httpx2.Client, api_key: str = "any") -> anthropic.Anthropic:
            url = str(client.base_url)
            made = anthropic.Anthropic(base_url=url, api_key=api_key, max_retries=0)
            return stack.enter_context(made)

        yield of
