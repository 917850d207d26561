"""Opening databases that are not there, not ours, damaged, locked, too new, or out of room."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from kernelsmith.errors import DatabaseError, KernelsmithError, StorageError
from kernelsmith.lineage import database, models
from kernelsmith.lineage.store import open_store
from tests.lineage.asking import counted, files_end_at
from tests.loop import fakes

MIGRATIONS = Path(database.__file__).parent / "migrations"


def filled(path: Path) -> str:
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    store.close()
    return run_id


def test_closed_it_is_one_file_and_its_wal_is_folded_in(tmp_path: Path) -> None:
    filled(tmp_path / "runs.db")
    assert [each.name for each in tmp_path.iterdir()] == ["runs.db"]
    plain = sqlite3.connect(tmp_path / "runs.db")
    assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert plain.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    plain.close()


def test_foreign_keys_are_on_and_every_commit_is_synced(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    with store.database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
    store.close()


def test_migrations_and_models_say_the_same(tmp_path: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == models.HEAD_REVISION
    store = open_store(tmp_path / "runs.db")
    with store.database.reading() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, models.Base.metadata) == []
    store.close()


def test_reading_never_creates(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="no database at"):
        database.open_for_reading(tmp_path / "runs.db")
    assert list(tmp_path.iterdir()) == []


def test_reading_leaves_one_file_even_after_a_kill_left_a_wal(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    script = (
        "import os, signal, sys; from pathlib import Path;"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r});"
        "from kernelsmith.lineage.store import open_store; from tests.loop import fakes;"
        "store = open_store(Path(sys.argv[1]));"
        "store.append('', 'run', fakes.run_payload([fakes.make_task()]));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert (tmp_path / "runs.db-wal").stat().st_size > 0
    opened = database.open_for_reading(path)
    with opened.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM runs").scalar() == 1
    opened.close()
    assert [each.name for each in tmp_path.iterdir()] == ["runs.db"]


def test_who_reads_beside_a_writer_takes_none_of_its_locks(tmp_path: Path) -> None:
    """POSIX drops a process's locks on a file as soon as it closes any descriptor of it: another
    process would then fold in and delete the log that the writer goes on writing to."""
    path = tmp_path / "runs.db"
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    database.open_for_reading(path).close()
    script = (
        "import sys; from pathlib import Path; from kernelsmith.lineage import database;"
        "database.open_for_reading(Path(sys.argv[1])).close()"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    store.append(run_id, "note", {})
    seen = sqlite3.connect(path)
    assert seen.execute("SELECT count(*) FROM events WHERE kind = 'note'").fetchone() == (1,)
    seen.close()
    store.close()


@pytest.mark.slow
def test_who_comes_while_others_write_and_leave_sees_no_damage(tmp_path: Path) -> None:
    """Each folds the log in as it leaves, into a file that the next may be reading as it lies."""
    path = tmp_path / "runs.db"
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    for _ in range(1000):
        store.append(run_id, "note", {"text": os.urandom(4000).hex()})
    store.close()
    script = (
        "import os, sys; from pathlib import Path; from kernelsmith.lineage.store import *\n"
        "for _ in range(25):\n"
        "    store = open_existing(Path(sys.argv[1]))\n"
        "    store.append(sys.argv[2], 'note', {'text': os.urandom(3000).hex()})\n"
        "    store.close()\n"
    )
    words = [sys.executable, "-c", script, str(path), run_id]
    others = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [each.communicate(timeout=120)[1] for each in others] == ["", "", ""]
    assert counted(path, "events") == 1 + 1000 + 3 * 25


def test_a_checkpoint_that_a_full_disk_cut_off_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = open_store(path)
    store.append("", "run", fakes.run_payload([fakes.make_task()]))
    with files_end_at(8192):
        store.close()
    assert path.stat().st_size == 8192 < path.with_name("runs.db-wal").stat().st_size
    opened = database.open_for_reading(path)
    with opened.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM runs").scalar() == 1
    opened.close()
    open_store(path).close()


def refused(path: Path, *, reading: bool) -> KernelsmithError:
    opener = database.open_for_reading if reading else database.open_for_writing
    with pytest.raises(KernelsmithError) as caught:
        opener(path, 0.05)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("reading", [True, False])
def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path, reading: bool) -> None:
    path = tmp_path / "theirs.db"
    theirs = sqlite3.connect(path)
    theirs.execute("CREATE TABLE notes (text)")
    theirs.commit()
    theirs.close()
    before = path.read_bytes()
    assert "another program" in refused(path, reading=reading).message
    assert path.read_bytes() == before


@pytest.mark.parametrize("reading", [True, False])
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, reading: bool
) -> None:
    path = tmp_path / "letter.db"
    path.write_bytes(b"Dear reader, " * 1000)
    error = refused(path, reading=reading)
    assert (error.exit_code, "not a SQLite database" in error.message) == (2, True)
    assert path.read_bytes() == b"Dear reader, " * 1000


def test_a_damaged_database_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(data)
    error = refused(path, reading=True)
    assert isinstance(error, DatabaseError)
    assert "damaged" in error.message


@pytest.mark.parametrize("reading", [True, False])
def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path, reading: bool) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    plain = sqlite3.connect(path)
    plain.execute("UPDATE alembic_version SET version_num = '9999'")
    plain.commit()
    plain.close()
    error = refused(path, reading=reading)
    assert (error.exit_code, error.hint) == (2, "upgrade kernelsmith")


def test_a_locked_database_says_so_after_waiting(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    run_id = filled(path)
    store = open_store(path, busy_timeout_s=0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseError, match="locked by another program"):
        store.append(run_id, "note", {})
    with pytest.raises(DatabaseError, match="locked by another program"):
        store.database.require_writable()
    holder.execute("ROLLBACK")
    store.append(run_id, "note", {})  # and it goes on
    holder.close()
    store.close()


def test_who_comes_while_another_makes_the_file_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN IMMEDIATE")
    later = threading.Timer(0.3, maker.execute, ("ROLLBACK",))
    later.start()
    open_store(path).close()
    later.join()
    maker.close()


def test_an_exclusively_locked_database_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA journal_mode=DELETE")
    holder.execute("BEGIN EXCLUSIVE")
    for reading in (True, False):
        assert "locked" in refused(path, reading=reading).message
    holder.close()


@pytest.mark.parametrize("place", ["/proc/runs.db", "missing/folder/runs.db", "."])
def test_a_place_where_nothing_can_be_made_is_refused(tmp_path: Path, place: str) -> None:
    path = Path(place) if place.startswith("/") else tmp_path / place
    assert refused(path, reading=False).exit_code == 2


def test_a_read_only_folder_can_be_read_and_refuses_writing(tmp_path: Path) -> None:
    filled(tmp_path / "runs.db")
    (tmp_path / "runs.db").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write anywhere")
        database.open_for_reading(tmp_path / "runs.db").close()
        assert "write" in refused(tmp_path / "runs.db", reading=False).message
        assert "read-only" in refused(tmp_path / "new.db", reading=False).message
    finally:
        tmp_path.chmod(0o755)


def test_a_full_disk_loses_only_the_step_that_did_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = open_store(path)
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    kept: list[str] = []

    def fill() -> None:
        for number in range(10_000):
            note = {"text": fakes.sha(str(number)) * 10}
            kept.append(store.append(run_id, "note", note))

    room = path.with_name("runs.db-wal").stat().st_size + 200_000
    with files_end_at(room), pytest.raises(StorageError) as caught:
        fill()
    assert caught.value.exit_code == 4
    assert "free some disk space" in str(caught.value.hint)
    assert len(kept) > 5
    store.append(run_id, "note", {"text": "and it goes on"})
    store.close()
    plain = sqlite3.connect(path)
    notes = plain.execute("SELECT count(*) FROM events WHERE kind = 'note'").fetchone()
    assert notes == (len(kept) + 1,)
    plain.close()


def test_a_full_disk_shows_before_anything_is_to_be_recorded(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    filled(path)
    store = open_store(path)
    with files_end_at(1), pytest.raises(StorageError):
        store.database.require_writable()
    store.database.require_writable()
    store.close()


def test_a_database_at_its_page_limit_is_a_full_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    run_id = store.append("", "run", fakes.run_payload([fakes.make_task()]))
    driver = store.database.connection.connection.driver_connection
    assert driver is not None
    pages = driver.execute("PRAGMA page_count").fetchone()[0]
    driver.execute(f"PRAGMA max_page_count={pages + 2}")
    with pytest.raises(StorageError, match="full"):
        store.append(run_id, "note", {"text": os.urandom(100_000).hex()})
    store.close()
