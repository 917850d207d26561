"""Files that are no lineage of this version: one line and a hint from every command, not a byte
changed, whatever is pending in them."""

import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelsmith.cli.main import main
from kernelsmith.errors import StorageError
from kernelsmith.lineage import database
from kernelsmith.lineage.store import open_store
from tests.lineage.asking import spoil_page
from tests.loop import fakes
from tests.loop.fake_wiring import fake_wiring

ID = "0123456789abcdef"
COMMANDS = (
    ("runs", "--json"),
    ("show", "latest"),
    ("diff", ID),
    ("review",),
    ("review", "--approve", ID, "--note", "fine"),
    ("export", "--to", "library"),
    ("merge", ID, "fedcba9876543210"),
    ("replay", ID),
    ("lineage", "verify"),
    ("resume", "latest"),
    ("stop", "latest"),
    ("stop", "--all"),
    ("pause", "latest"),
    ("thaw", "latest"),
    ("watch", "--json"),
    ("summary",),
    ("gate", "--again", ID),
    ("proxy", "--upstream", "http://127.0.0.1:9"),
    ("doctor", "--db"),
    ("run", "toy", "--max-candidates", "1"),
)


def filled(path: Path) -> None:
    store = open_store(path)
    store.append("", "run", fakes.run_payload([fakes.make_task()]))
    store.close()


def left_open(path: Path, *statements: str) -> None:
    """What a program leaves that was killed after these statements."""
    script = "import os, sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    script += "for each in sys.argv[2:]:\n    c.execute(each)\nos._exit(0)\n"
    subprocess.run([sys.executable, "-c", script, str(path), *statements], check=True)


def changed(path: Path, *statements: str) -> None:
    plain = sqlite3.connect(path, isolation_level=None)
    for each in statements:
        plain.execute(each)
    plain.close()


def text(path: Path) -> None:
    path.write_bytes(b"Dear reader, " * 1000)


def truncated(path: Path) -> None:
    filled(path)
    os.truncate(path, path.stat().st_size // 2)


def page_of_noise(path: Path) -> None:
    filled(path)
    spoil_page(path)


def folder(path: Path) -> None:
    path.mkdir()


def foreign(path: Path) -> None:
    changed(path, "CREATE TABLE notes (text)")


def foreign_log(path: Path) -> None:
    made = ("PRAGMA journal_mode=WAL", "CREATE TABLE notes (text)", "INSERT INTO notes VALUES (1)")
    left_open(path, *made)


def foreign_journal(path: Path) -> None:
    changed(path, "CREATE TABLE notes (text)", "INSERT INTO notes VALUES (zeroblob(99999))")
    left_open(path, "PRAGMA cache_size=1", "BEGIN", "UPDATE notes SET text = zeroblob(88888)")
    assert path.with_name("runs.db-journal").stat().st_size > 0


def newer(path: Path) -> None:
    filled(path)
    changed(path, "UPDATE alembic_version SET version_num = '9999'")


def newer_log(path: Path) -> None:
    newer(path)
    left_open(path, "CREATE TABLE later (text)")


STRANGE = {
    "text": (text, "not a SQLite database"),
    "truncated": (truncated, "is damaged"),
    "page_of_noise": (page_of_noise, "is damaged"),
    "folder": (folder, "is a folder"),
    "foreign": (foreign, "another program"),
    "foreign_log": (foreign_log, "another program"),
    "foreign_journal": (foreign_journal, "another program"),
    "newer": (newer, "newer than this version"),
    "newer_log": (newer_log, "newer than this version"),
}


def state(place: Path) -> dict[str, str]:
    """Every file by its hash; SQLite's index beside a log is memory that has a name."""
    return {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else "folder"
        for each in place.iterdir()
        if not each.name.endswith("-shm")
    }


@pytest.mark.parametrize("name", STRANGE)
def test_every_command_says_what_it_is_in_one_line_and_leaves_it_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, says = STRANGE[name]
    place = tmp_path / "place"
    place.mkdir()
    path = place / "runs.db"
    make(path)
    before = state(place)
    monkeypatch.setenv("KERNELSMITH_DB", str(path))
    for command in COMMANDS:
        if (name, command[0]) == ("page_of_noise", "watch"):
            continue  # it reads other pages, and goes on as the run may
        code = main(command, wiring=fake_wiring())
        said = capsys.readouterr()
        lines = said.err.splitlines()
        if name == "page_of_noise" and code == 0:  # it read other pages
            assert command[0] in ("runs", "show", "review", "lineage", "summary")
        elif name == "page_of_noise" and command == ("doctor", "--db"):
            assert (code, "✗ structure" in said.out) == (2, True)
        else:
            assert code == 2, (command, said)
            assert [line.split(":")[0] for line in lines] == ["error", "hint"], (command, said)
            sought = "no candidate" if name == "page_of_noise" and ID in command else says
            assert says in lines[0] or sought in lines[0], (command, said)
        assert state(place) == before, command


@pytest.mark.parametrize("command", [("runs",), ("show", "latest"), ("resume", "latest")])
def test_a_record_that_makes_no_sense_is_damage_and_no_fault_of_the_program(
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    changed(path, "UPDATE runs SET options = '{\"time_limit_s\":'")
    monkeypatch.setenv("KERNELSMITH_DB", str(path))
    assert main(command, wiring=fake_wiring()) == 2
    assert capsys.readouterr().err.startswith(f"error: database {path} is damaged: runs 01")


def test_what_the_reader_does_wrong_is_not_blamed_on_the_record(tmp_path: Path) -> None:
    filled(tmp_path / "runs.db")
    opened = database.open_for_reading(tmp_path / "runs.db")
    with pytest.raises(ValueError, match="mine"), opened.reading():
        raise ValueError("mine")
    opened.close()


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.rename(path.with_name("moved"))])
def test_nothing_is_written_into_a_file_that_lost_its_name(
    lose: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    lose(path)
    with pytest.raises(StorageError, match="moved or deleted") as caught:
        store.append(run_id, "note", {})
    assert "resume" in str(caught.value.hint)
    store.close()


def test_a_run_waits_longer_for_a_lock_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    told: list[str] = []
    holder = sqlite3.connect(path, isolation_level=None)

    def notice(line: str) -> None:
        told.append(line)
        holder.execute("ROLLBACK")

    store = open_store(path, 0.01, database.Patience(seconds=60.0, notice=notice))
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    holder.execute("BEGIN IMMEDIATE")
    store.append(run_id, "note", {})
    assert told == [
        f"database {path} is locked by another program; waiting for it, 1 minutes at most"
    ]
    holder.close()
    store.close()
