"""One proxy before one upstream for most tests; both are told anew what to do by each test."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.capture.parts import Rig

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


@pytest.fixture(scope="session")
def _shared_rig() -> Iterator["Rig"]:
    from kernelsmith.capture import running
    from tests.capture.parts import MemoryJournal, RawUpstream, Rig

    journal: MemoryJournal = MemoryJournal()
    said: list[str] = []
    with RawUpstream() as upstream, running(journal, upstream.url, say=said.append) as base:
        yield Rig(base=base, upstream=upstream, journal=journal, said=said)


@pytest.fixture
def rig(_shared_rig: "Rig") -> "Rig":
    _shared_rig.upstream.forget()
    _shared_rig.journal.forget()
    _shared_rig.said.clear()
    return _shared_rig
