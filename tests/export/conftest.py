"""One exported library of a small lineage, made once."""

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from kernelsmith.library.export import Export, export  # noqa: E402
from kernelsmith.lineage.store import open_store  # noqa: E402
from kernelsmith.ports import Sandbox  # noqa: E402
from kernelsmith.rehearsal import variants  # noqa: E402
from kernelsmith.sandbox.process import open_process  # noqa: E402
from tests.export.lineages import (  # noqa: E402
    Lineage,
    builders,
    quiet,
    small_task,
)


@dataclass(frozen=True)
class Shipped:
    """An export, the wall it ran behind, the lineage it came from, its folder."""

    done: Export
    sandbox: Sandbox
    lineage: Lineage
    folder: Path
    winner: str
    record: str


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    root = tmp_path_factory.mktemp("shipped")
    lineage = Lineage(path=root / "runs.db", task=small_task())
    lineage.begin()
    candidate, record = lineage.accepted(variants.winner("rms_norm"))
    lineage.timed(candidate)
    lineage.decide(record)
    folder = root / "our_kernels"
    with closing(open_store(lineage.path)) as store:
        sandbox = open_process()
        done = export(store, folder, None, builders(sandbox), quiet)
    yield Shipped(
        done=done,
        sandbox=sandbox,
        lineage=lineage,
        folder=folder,
        winner=candidate.id,
        record=record,
    )
    sandbox.close()


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    made = Lineage(path=tmp_path / "runs.db", task=small_task())
    made.begin()
    return made
