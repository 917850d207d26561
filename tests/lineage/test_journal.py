"""The journal: durable when it says so, one transaction for what waits, a bad entry fails alone."""

import os
import random
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelsmith.errors import (
    DatabaseError,
    InfrastructureError,
    KernelsmithError,
    StorageError,
)
from kernelsmith.lineage.journal import LineageJournal, open_journal
from kernelsmith.lineage.store import LineageStore
from kernelsmith.model import JournalEntry
from tests.lineage import talks
from tests.lineage.asking import counted, files_end_at, intact

# ----------------------------------------------------------------------- transactions and failure


def commits(path: Path) -> int:
    """Transactions in the write-ahead log: its frames that end one say the file's size."""
    log = path.with_name(path.name + "-wal").read_bytes()
    (page_bytes,) = struct.unpack(">I", log[8:12])
    salt, found = log[16:24], 0
    for at in range(32, len(log), 24 + page_bytes):
        found += log[at + 4 : at + 8] != bytes(4) and log[at + 8 : at + 16] == salt
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Someone else holds the write lock."""
    holder = sqlite3.connect(path, isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        yield
    finally:
        holder.close()


def held_back(
    path: Path, journal: LineageJournal, entries: list[JournalEntry]
) -> list[Future[str]]:
    """Entries that all wait, behind a lock, before the first of them is written."""
    with locked(path):
        futures = [journal.append(entry) for entry in entries]
        assert not futures[0].done()
    wait(futures)
    return futures


def test_entries_that_wait_share_one_transaction(
    store: LineageStore, journal: LineageJournal, path: Path
) -> None:
    run_id = talks.begin_run(store)
    before = commits(path)
    entries: list[JournalEntry] = [talks.sent(run_id, n, b"%d" % n) for n in range(60)]
    futures = held_back(path, journal, entries)
    assert len({future.result() for future in futures}) == 60
    assert commits(path) - before <= 2  # the first may have been taken up alone
    turns = [call.sent.turn for call in journal.sessions(run_id)[0].calls]
    assert turns == list(range(60))
    assert intact(store).steps == 61


def test_a_bad_entry_fails_alone(store: LineageStore, journal: LineageJournal, path: Path) -> None:
    run_id = talks.begin_run(store)
    bodies = talks.long_talk(4)
    entries: list[JournalEntry] = [
        talks.sent(run_id, 0, bodies[0]),
        talks.sent(run_id, 1, bodies[1]),
        talks.answered("no such call", b"stray"),
        talks.done(0, 0, "toolu_1", "of no session"),
        talks.sent(run_id, 2, bodies[2]),
    ]
    futures = held_back(path, journal, entries)
    failed = [future.exception() for future in futures]
    assert [error is None for error in failed] == [True, True, False, False, True]
    assert "call no such call is not on record" in str(failed[2])
    assert isinstance(failed[3], DatabaseError)
    journal.append(talks.sent(run_id, 3, bodies[3])).result()
    assert [call.sent.request for call in journal.sessions(run_id)[0].calls] == bodies
    intact(store)


def test_a_second_answer_of_a_call_is_refused(store: LineageStore, journal: LineageJournal) -> None:
    call = journal.append(talks.sent(talks.begin_run(store), 0, b"{}")).result()
    journal.append(talks.answered(call, b"first")).result()
    with pytest.raises(DatabaseError, match="already holds this record"):
        journal.append(talks.answered(call, b"second")).result()
    intact(store)


def test_a_lock_that_stays_fails_what_waits_and_the_journal_goes_on(
    store: LineageStore, path: Path
) -> None:
    run_id = talks.begin_run(store)
    journal = open_journal(path, busy_timeout_s=0.05)
    with locked(path):
        futures = [journal.append(talks.sent(run_id, n, b"{}")) for n in range(5)]
        assert all("locked" in str(future.exception()) for future in futures)
    journal.append(talks.sent(run_id, 9, b"{}")).result()
    journal.close()
    assert intact(store).steps == 2


def test_a_full_disk_is_told_and_the_journal_goes_on(
    store: LineageStore, journal: LineageJournal, path: Path
) -> None:
    run_id = talks.begin_run(store)
    request = random.Random(1).randbytes(300_000)
    wal = path.with_name("runs.db-wal")
    with files_end_at(wal.stat().st_size + 100_000):
        error = journal.append(talks.sent(run_id, 0, request)).exception()
    assert isinstance(error, StorageError)
    journal.append(talks.sent(run_id, 0, request)).result()
    assert journal.sessions(run_id)[0].calls[0].sent.request == request
    intact(store)


def test_nobody_can_cancel_what_happened(
    store: LineageStore, journal: LineageJournal, path: Path
) -> None:
    run_id = talks.begin_run(store)
    with locked(path):
        future = journal.append(talks.sent(run_id, 0, b"{}"))
        assert not future.cancel()
    assert future.result() == journal.sessions(run_id)[0].calls[0].id


def test_closing_writes_what_is_queued_and_takes_nothing_more(
    store: LineageStore, path: Path
) -> None:
    run_id = talks.begin_run(store)
    journal = open_journal(path)
    futures = [journal.append(talks.sent(run_id, n, b"{}")) for n in range(300)]
    journal.close()
    journal.close()
    assert all(future.done() for future in futures)
    assert counted(path, "model_calls") == 300
    with pytest.raises(InfrastructureError, match="closed"):
        journal.append(talks.sent(run_id, 0, b"{}"))


def test_a_database_that_does_not_open_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "letter.db").write_bytes(b"Dear reader, " * 100)
    with pytest.raises(KernelsmithError, match="not a SQLite database"):
        open_journal(tmp_path / "letter.db")


# ------------------------------------------------------------------------- together, and a kill


def test_the_loop_and_many_sessions_write_side_by_side(
    store: LineageStore, journal: LineageJournal, path: Path
) -> None:
    run_id = talks.begin_run(store)
    bodies = talks.long_talk(10)
    names = [f"s{number:011x}" for number in range(4)]

    def talk(name: str) -> None:
        journal.append(talks.start(run_id, name)).result()
        for turn, request in enumerate(bodies):
            call = journal.append(talks.sent(run_id, turn, request, session_id=name)).result()
            journal.append(talks.answered(call, b"answer %d" % turn)).result()

    threads = [threading.Thread(target=talk, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    notes = 0
    while any(thread.is_alive() for thread in threads):
        store.append(run_id, "note", {"number": notes})
        notes += 1
    for thread in threads:
        thread.join()
    found = journal.sessions(run_id)
    assert sorted(each.id for each in found) == names
    for each in found:
        assert [call.sent.request for call in each.calls] == bodies
        assert [call.answer.body for call in each.calls if call.answer] == [
            b"answer %d" % turn for turn in range(10)
        ]
    assert notes > 0
    assert intact(store).steps == 1 + notes + 4 * (1 + 2 * 10)


CHILD = """
import os, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from kernelsmith.lineage.journal import open_journal
from tests.lineage import talks
journal = open_journal(Path(sys.argv[1]))
bodies = talks.long_talk(40)
def talk(name):
    for turn, request in enumerate(bodies * 1000):
        call = journal.append(talks.sent(sys.argv[3], turn, request, session_id=name)).result()
        os.write(1, f"call {call}\\n".encode())
        journal.append(talks.answered(call, os.urandom(2000))).result()
        os.write(1, f"answer {call}\\n".encode())
for number in range(3):
    threading.Thread(target=talk, args=(f"s{number:011x}",)).start()
"""


@pytest.mark.parametrize("lines", [7, 60])
def test_what_was_said_to_be_recorded_outlives_a_kill(
    store: LineageStore, path: Path, lines: int
) -> None:
    run_id = talks.begin_run(store)
    root = str(Path(__file__).parents[2])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), root, run_id], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(lines)]
    os.kill(child.pid, signal.SIGKILL)
    said += child.stdout.read().splitlines()
    child.stdout.close()
    child.wait()
    told = [line.decode().split() for line in said if line.strip()]
    intact(store)
    journal = open_journal(path)
    calls = [call for each in journal.sessions(run_id) for call in each.calls]
    journal.close()
    assert {name for kind, name in told if kind == "call"} <= {call.id for call in calls}
    answered = {call.id for call in calls if call.answer is not None}
    assert {name for kind, name in told if kind == "answer"} <= answered
    assert len(told) >= lines
