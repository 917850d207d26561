"""A lineage and its journal; lets tests import ``tests.loop.fakes`` however pytest was started."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.lineage.journal import LineageJournal, open_journal  # noqa: E402
from kernelsmith.lineage.store import LineageStore, open_store  # noqa: E402


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[LineageStore]:
    opened = open_store(path)
    yield opened
    opened.close()


@pytest.fixture
def journal(path: Path, store: LineageStore) -> Iterator[LineageJournal]:
    opened = open_journal(path)
    yield opened
    opened.close()
