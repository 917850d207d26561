"""``doctor --db``: what it finds, what it exits with, and the copy that it makes."""

import json
import sqlite3
from pathlib import Path

import pytest

from kernelsmith.cli.main import main
from kernelsmith.errors import EvidenceError, StorageError
from kernelsmith.lineage import health
from kernelsmith.lineage.store import open_store
from tests.lineage.asking import files_end_at, intact, spoil_page
from tests.loop import fakes
from tests.loop.fake_wiring import fake_wiring


def filled(path: Path) -> None:
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    for number in range(20):
        store.append(run_id, "note", {"text": f"{number}" * 300})
    store.close()


def edited(path: Path, statement: str) -> None:
    plain = sqlite3.connect(path, isolation_level=None)
    plain.execute(statement)
    plain.close()


def examined(
    path: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, bool], dict[str, object]]:
    code = main(["doctor", "--db", str(path), "--json", *words], wiring=fake_wiring())
    document = json.loads(capsys.readouterr().out)
    return code, {each["name"]: each["ok"] for each in document["checks"]}, document


def test_a_sound_lineage_is_copied_into_one_file_that_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    code, checks, document = examined(path, capsys)
    assert (code, document["ok"]) == (0, True)
    assert checks == dict.fromkeys(
        ("schema", "structure", "keys", "record", "blobs", "space"), True
    )
    backup = document["backup"]
    assert isinstance(backup, dict)
    assert Path(backup["path"]).name.startswith("runs.db.backup-2")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        ["runs.db", Path(backup["path"]).name]
    )
    copy = open_store(Path(backup["path"]))
    assert intact(copy).head == document["head"] == backup["head"]
    copy.close()


def test_a_run_that_goes_on_is_copied_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    backup = health.back_up(path, tmp_path / "copy.db")
    store.append(run_id, "note", {})
    copied = health.examine(tmp_path / "copy.db")
    assert (copied.head, copied.steps, copied.ok) == (backup.head, 1, True)
    store.close()


@pytest.mark.parametrize(
    ("statement", "name", "code"),
    [
        ("UPDATE events SET kind = 'finished' WHERE kind = 'note'", "record", 5),
        ("UPDATE blobs SET zstd = zeroblob(30)", "blobs", 5),
        ("DELETE FROM runs", "keys", 5),
    ],
)
def test_what_was_edited_is_named_and_not_copied(
    statement: str, name: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    edited(path, statement)
    ended, checks, document = examined(path, capsys)
    assert (ended, document["ok"], document["backup"]) == (code, False, None)
    assert not checks[name]
    assert [each.name for each in tmp_path.iterdir()] == ["runs.db"]


def test_damaged_pages_are_told_and_not_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    spoil_page(path)
    code, checks, document = examined(path, capsys)
    assert (code, checks["structure"], document["backup"]) == (2, False, None)


def test_a_copy_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "runs.db")
    place = tmp_path / "small"
    place.mkdir()
    with files_end_at(8192), pytest.raises(StorageError):
        health.back_up(tmp_path / "runs.db", place / "copy.db")
    assert list(place.iterdir()) == []


def test_a_copy_with_another_record_is_not_kept(tmp_path: Path) -> None:
    filled(tmp_path / "runs.db")
    edited(tmp_path / "runs.db", "UPDATE events SET kind = 'finished' WHERE kind = 'note'")
    with pytest.raises(EvidenceError, match="not sound"):
        health.back_up(tmp_path / "runs.db", tmp_path / "copy.db")
    assert [each.name for each in tmp_path.iterdir()] == ["runs.db"]


def test_a_file_that_is_there_is_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    (tmp_path / "mine").write_text("mine")
    for words, says in (
        (("--db", str(path), "--to", str(tmp_path / "mine")), "is there already"),
        (("--db", str(path), "--to", str(tmp_path / "nowhere" / "x")), "is no folder"),
        (("--db", str(path), "--to", "x", "--no-backup"), "contradict"),
        (("--to", "x"), "doctor --db"),
        ((str(path),), "doctor --db"),
        (("--db", "--gate"), "the lineage alone"),
    ):
        assert main(["doctor", *words], wiring=fake_wiring()) == 2
        assert says in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "mine"
