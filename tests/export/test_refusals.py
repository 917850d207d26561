"""What an export refuses: each candidate is named with what is missing, and nothing is written."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.errors import EvidenceError, InputError
from kernelsmith.library import layout
from kernelsmith.library.export import export
from kernelsmith.library.selection import REQUIRED
from kernelsmith.lineage.store import open_store
from kernelsmith.model import CheckResult
from kernelsmith.wiring import real
from tests.export.lineages import Lineage, builders, quiet
from tests.lineage.asking import counted


def refused(lineage: Lineage, folder: Path, run_id: str | None = None, **parts: Any) -> InputError:
    """What the export says; nothing was written and nothing recorded."""
    before = sorted(folder.rglob("*")) if folder.exists() else None
    with closing(open_store(lineage.path)) as store, pytest.raises(InputError) as caught:
        export(store, folder, run_id, builders(**parts), quiet)
    assert (sorted(folder.rglob("*")) if folder.exists() else None) == before
    assert counted(lineage.path, "exports") == 0
    return caught.value


def test_nothing_accepted(lineage: Lineage, tmp_path: Path) -> None:
    said = refused(lineage, tmp_path / "out")
    assert "no candidate of this database is approved, and none waits" in said.message


def test_not_approved_names_the_candidate_and_how_to_approve_it(
    lineage: Lineage, tmp_path: Path
) -> None:
    candidate, _ = lineage.accepted("# a\n")
    lineage.timed(candidate)
    said = refused(lineage, tmp_path / "out", lineage.run_id)
    assert said.message == f"nothing to export: not approved yet: rms_norm {candidate.id}"
    assert said.hint == f"`kernelsmith review --approve {candidate.id}`"


@pytest.mark.parametrize(
    "edit",
    [
        "update blobs set zstd = (select zstd from blobs order by hash limit 1)",
        "update reviews set reviewer = 'Mallory'",
        "update retimings set gain = replace(gain, '1.5', '99')",
        "update steps set digest = '0' where seq = 2",
    ],
    ids=["source", "reviewer", "gain", "chain"],
)
def test_a_lineage_that_was_edited_is_no_evidence(
    lineage: Lineage, tmp_path: Path, edit: str
) -> None:
    candidate, record = lineage.accepted("# a\n")
    lineage.timed(candidate)
    lineage.decide(record)
    with closing(sqlite3.connect(lineage.path)) as connection, connection:
        assert connection.execute(edit).rowcount
    with closing(open_store(lineage.path)) as store, pytest.raises(EvidenceError) as caught:
        export(store, tmp_path / "out", None, builders(), quiet)
    assert "the lineage was edited after it was recorded" in caught.value.message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("decision", ["reject", "undo"])
def test_an_approval_that_no_longer_stands(lineage: Lineage, tmp_path: Path, decision: str) -> None:
    candidate, record = lineage.accepted("# a\n")
    lineage.timed(candidate)
    lineage.decide(record)
    lineage.decide(record, decision)
    assert "nothing to export" in refused(lineage, tmp_path / "out").message


def test_a_winner_that_a_later_timing_did_not_support(lineage: Lineage, tmp_path: Path) -> None:
    candidate, record = lineage.accepted("# a\n")
    lineage.timed(candidate)
    lineage.decide(record)
    lineage.timed(candidate, holds=False)
    said = refused(lineage, tmp_path / "out")
    assert f"rms_norm {candidate.id}: it is not faster than the seed" in said.message


@pytest.mark.parametrize("missing", REQUIRED)
def test_a_check_that_is_not_on_record(lineage: Lineage, tmp_path: Path, missing: str) -> None:
    checks = tuple(
        CheckResult(name=name, status="pass", seconds=0.1) for name in REQUIRED if name != missing
    )
    candidate, record = lineage.accepted("# a\n", checks=checks)
    lineage.timed(candidate)
    lineage.decide(record)
    said = refused(lineage, tmp_path / "out")
    assert said.message.endswith(f"rms_norm {candidate.id}: evidence is missing: {missing}")


@pytest.mark.parametrize("change", [{"gain": None}, {"samples": ()}])
def test_a_verdict_without_its_timing(
    lineage: Lineage, tmp_path: Path, change: dict[str, Any]
) -> None:
    candidate, record = lineage.accepted("# a\n", **change)
    lineage.timed(candidate)
    lineage.decide(record)
    said = refused(lineage, tmp_path / "out")
    assert f"{candidate.id}: evidence is missing: its timing sessions" in said.message


def test_one_refused_winner_holds_back_the_others_and_both_are_named(
    lineage: Lineage, tmp_path: Path
) -> None:
    good, good_record = lineage.accepted("# a\n")
    bad, bad_record = lineage.accepted("# b\n", samples=())
    worse, worse_record = lineage.accepted("# c\n", gain=None)
    for candidate, record in ((good, good_record), (bad, bad_record), (worse, worse_record)):
        lineage.timed(candidate)
        lineage.decide(record)
    said = refused(lineage, tmp_path / "out")
    assert bad.id in said.message
    assert worse.id in said.message
    assert good.id not in said.message


@dataclass(frozen=True)
class OtherMachine:
    """The CPU device, on a machine that compiles otherwise."""

    name: str = "cpu"

    def describe(self) -> dict[str, Any]:
        return {**real().device("cpu").describe(), "key": "0123456789abcdef"}


def test_winners_of_another_epoch_are_left_out_by_name(lineage: Lineage, tmp_path: Path) -> None:
    candidate, record = lineage.accepted("# a\n")
    lineage.timed(candidate)
    lineage.decide(record)
    said = refused(lineage, tmp_path / "out", device=lambda name: OtherMachine())
    assert f"nothing to export: rms_norm {candidate.id}: it was judged in epoch" in said.message


def test_a_folder_of_other_things_is_no_place_for_a_library(
    lineage: Lineage, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    said = refused(lineage, folder)
    assert said.message == f"{folder} exists and is no library: it holds thesis.txt"
    assert "is a file" in refused(lineage, folder / "thesis.txt").message
    assert "is no folder" in refused(lineage, folder / "a" / "b").message


def test_a_damaged_index_is_not_written_over(lineage: Lineage, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / layout.INDEX).write_text('{"schema": "kernelsmith.library/1", "ops": {"a": 1}}')
    assert f"{folder / layout.INDEX} is damaged: ops.a" in refused(lineage, folder).message
