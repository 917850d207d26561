"""What was asked of a running run about pauses, and what it answered: events of its record.

``kernelsmith pause`` and ``thaw`` write what is asked; the run's own process looks for it, does it,
and writes what came of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from kernelsmith.lineage.models import Event
from kernelsmith.lineage.store import LineageStore, open_store

ASKED = ("pause_requested", "thaw_requested")
ANSWERED = ("paused", "pause_failed", "thawed", "thaw_failed")
_KINDS = ("started", "resumed", *ASKED, *ANSWERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseWord:
    """The latest word on a run's pauses, or that its process started. ``step`` tells it from all
    others."""

    kind: str
    payload: Mapping[str, Any]
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBook:
    """A run's record as the thread that looks after its pauses uses it."""

    store: LineageStore
    run_id: str

    def latest(self) -> PauseWord:
        """The latest word on pauses.

        Raises:
            DatabaseError, StorageError: it cannot be read now.
        """
        with self.store.database.reading() as connection:
            return latest_word(connection, self.run_id)

    def append(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Puts an event on record.

        Raises:
            DatabaseError, StorageError: it could not be.
        """
        self.store.append(self.run_id, kind, payload)

    def close(self) -> None:
        self.store.close()


def open_book(path: Path, run_id: str) -> PauseBook:
    """Opens the record; the thread that opens it uses it.

    Raises:
        DatabaseError, StorageError: see ``database.open_for_writing``.
    """
    return PauseBook(store=open_store(path), run_id=run_id)


def latest_word(connection: Connection, run_id: str) -> PauseWord:
    """The latest word on a run's pauses; its start, if there was none since."""
    row = connection.execute(
        select(Event.kind, Event.payload, Event.step)
        .where(Event.run_id == run_id, Event.kind.in_(_KINDS))
        .order_by(Event.step.desc())
        .limit(1)
    ).one()
    return PauseWord(kind=row.kind, payload=json.loads(row.payload), step=row.step)
