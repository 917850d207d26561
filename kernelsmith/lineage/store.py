"""The store that the loop writes to: every append is one transaction and one link of the chain."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsmith.lineage import database, histories, occurrences
from kernelsmith.lineage.database import NO_PATIENCE, Patience
from kernelsmith.lineage.step import StepWriter
from kernelsmith.lineage.writers import WRITERS, write_event
from kernelsmith.model import Candidate
from kernelsmith.ports import Judged

_LOG = logging.getLogger(__name__)
_WORTH_A_LOOK = (
    *("retry", "set_aside", "machine_fault", "room_short", "slowed", "pause_failed"),
    *("agent_ended", "interrupted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageStore:
    """``ports.Store`` on a :class:`~kernelsmith.lineage.database.Database` open for writing."""

    database: database.Database
    patience: Patience = NO_PATIENCE

    def append(self, run_id: str, kind: str, payload: Mapping[str, Any]) -> str:
        """Records one step and returns the id of what was recorded.

        ``kind`` "run", "candidate", "verdict", "retiming" and "duplicate" take the nouns that
        ``lineage.writers`` names; any other kind is an event with a JSON payload.

        Raises:
            DatabaseError, StorageError: nothing of the step was recorded.
        """
        with self.database.transaction(self.patience) as connection:
            writer = StepWriter(connection=connection, kind=kind, run_id=run_id)
            write = WRITERS.get(kind)
            identity = write(writer, payload) if write else write_event(writer, kind, payload)
            writer.finish()
        _log(identity if kind == "run" else run_id, kind, payload)
        return identity

    def history(self, run_id: str, task: str) -> Sequence[Judged]:
        """Everything proposed so far, in order, without what still waits for its verdict."""
        with self.database.reading() as connection:
            return histories.history(connection, run_id, task)

    def pending(self, run_id: str, task: str) -> Sequence[Candidate]:
        """Candidates that were recorded but neither judged nor set aside, in order."""
        with self.database.reading() as connection:
            return histories.pending(connection, run_id, task)

    def stop_requested(self, run_id: str) -> bool:
        """Whether someone asked this run to stop since it was last started or resumed."""
        with self.database.reading() as connection:
            return histories.stop_requested(connection, run_id)

    def close(self) -> None:
        self.database.close()


def open_store(
    path: Path,
    busy_timeout_s: float = database.BUSY_TIMEOUT_S,
    patience: Patience = NO_PATIENCE,
) -> LineageStore:
    """Opens (and creates) the lineage for writing; see ``database.open_for_writing``.

    Args:
        patience: how much longer an append waits for a lock.
    """
    opened = database.open_for_writing(path, busy_timeout_s)
    return LineageStore(database=opened, patience=patience)


def open_existing(path: Path, patience: Patience = NO_PATIENCE) -> LineageStore:
    """:func:`open_store` of a lineage that is there; never creates one.

    Raises:
        DatabaseError: there is none; as :func:`open_store` says.
    """
    database.require_there(path)
    return open_store(path, patience=patience)


def _log(run_id: str, kind: str, payload: Mapping[str, Any]) -> None:
    """What is on record is told to the log, too: never more, and never before."""
    level = logging.WARNING if kind in _WORTH_A_LOOK else logging.INFO
    if kind == "failed":
        level = logging.ERROR
    if not _LOG.isEnabledFor(level):
        return
    said = occurrences.fields(occurrences.of_payload(run_id, kind, payload))
    event, message = said.pop("event"), said.pop("message", "")
    _LOG.log(level, message or event, extra={"event": event, "facts": said})
