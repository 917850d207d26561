"""The journal of conversations: any thread appends, one thread writes, waiting entries share a
transaction. A future that resolved stands for bytes on the disk."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from sqlalchemy import Connection

from kernelsmith.errors import InfrastructureError
from kernelsmith.lineage import conversations, database
from kernelsmith.lineage.entries import Batch, Remembered, require_no_credentials
from kernelsmith.model import CallSent, JournalEntry, SessionRecord, Usage

MAX_BATCH = 256

_Waiting = tuple[JournalEntry, "Future[str]"]


@dataclass(slots=True, kw_only=True)
class LineageJournal:
    """``ports.Journal`` on a lineage; :func:`open_journal` makes one."""

    path: Path
    busy_timeout_s: float
    patience: database.Patience = database.NO_PATIENCE
    _queue: "SimpleQueue[_Waiting | None]" = field(default_factory=SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False
    _thread: threading.Thread | None = None

    def append(self, entry: JournalEntry) -> "Future[str]":
        """Queues one entry; the future gives its id once it is durable. It cannot be cancelled:
        what happened is recorded, whether someone still waits for it or not.

        Raises:
            EvidenceError: the entry holds a credential.
            InfrastructureError: the journal is closed.
        """
        if isinstance(entry, CallSent):
            require_no_credentials(entry)
        future: Future[str] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._closed:
                raise InfrastructureError("the journal is closed: nothing more can be recorded")
            self._queue.put((entry, future))
        return future

    def sessions(self, run_id: str) -> Sequence[SessionRecord]:
        """All conversations of a run, in order of their beginning, with whole requests.

        Raises:
            DatabaseError: a request or an answer is not as it was recorded.
        """
        with self._reading() as connection:
            return conversations.sessions(connection, run_id)

    def resumable(self, run_id: str) -> tuple[Sequence[SessionRecord], Sequence[Usage]]:
        """What an agent goes on from: a run's own conversations, whole where they have not ended,
        and the tokens of every answer of the run.

        Raises:
            DatabaseError: a request or an answer is not as it was recorded.
        """
        with self._reading() as connection:
            return (
                conversations.resumable(connection, run_id),
                conversations.usage_of_run(connection, run_id),
            )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """One view, by a connection of its own: any thread may ask."""
        opened = database.open_for_reading(self.path, self.busy_timeout_s)
        try:
            with opened.reading() as connection:
                yield connection
        finally:
            opened.close()

    def close(self) -> None:
        """Writes what is queued, then ends. Closing again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()


def open_journal(
    path: Path,
    busy_timeout_s: float = database.BUSY_TIMEOUT_S,
    patience: database.Patience = database.NO_PATIENCE,
) -> LineageJournal:
    """Opens (creates, upgrades) the lineage and starts the writer.

    Args:
        patience: how much longer a transaction waits for a lock.

    Raises:
        DatabaseError, StorageError: as ``database.open_for_writing`` says.
    """
    journal = LineageJournal(path=path, busy_timeout_s=busy_timeout_s, patience=patience)
    opened: Future[None] = Future()
    thread = threading.Thread(
        target=_write, args=(journal, opened), name="lineage-journal", daemon=True
    )
    journal._thread = thread
    thread.start()
    opened.result()
    return journal


def _write(journal: LineageJournal, opened: "Future[None]") -> None:
    """The writer's thread: SQLite's connection is born, used and closed here."""
    try:
        lineage = database.open_for_writing(journal.path, journal.busy_timeout_s)
    except BaseException as error:
        opened.set_exception(error)
        return
    opened.set_result(None)
    remembered = Remembered()
    try:
        while (first := journal._queue.get()) is not None:
            batch, more = _drain(journal._queue, first)
            _commit(lineage, remembered, batch, journal.patience)
            if not more:
                break
    finally:
        _refuse_what_is_left(journal)
        lineage.close()


def _refuse_what_is_left(journal: LineageJournal) -> None:
    """Nobody may wait for ever: should the writer end early, what is queued fails."""
    with journal._lock:
        journal._closed = True
    while not journal._queue.empty():
        left = journal._queue.get()
        if left is not None:
            error = InfrastructureError("the journal's writer ended before this was recorded")
            left[1].set_exception(error)


def _drain(queue: "SimpleQueue[_Waiting | None]", first: _Waiting) -> tuple[list[_Waiting], bool]:
    """All that waits now; False when the end was among it (nothing follows the end)."""
    batch = [first]
    while len(batch) < MAX_BATCH:
        try:
            following = queue.get_nowait()
        except Empty:
            break
        if following is None:
            return batch, False
        batch.append(following)
    return batch, True


def _commit(
    lineage: database.Database,
    remembered: Remembered,
    waiting: list[_Waiting],
    patience: database.Patience,
) -> None:
    """One transaction for all; if one entry fails, one for each, so that it fails alone."""
    began = False
    try:
        with lineage.transaction(patience) as connection:
            began = True
            batch = Batch(connection=connection, remembered=remembered)
            identities = [batch.write(entry) for entry, _ in waiting]
    except Exception as error:
        if began and len(waiting) > 1:
            for each in waiting:
                _commit(lineage, remembered, [each], patience)
            return
        for _, future in waiting:  # no lock to be had: each alone would only wait again
            future.set_exception(error)
        return
    for name, request in batch.fresh.items():
        remembered.put(name, request)
    for (_, future), identity in zip(waiting, identities, strict=True):
        future.set_result(identity)
