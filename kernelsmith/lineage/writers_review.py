"""What a review and an export write. Called by ``store.append`` inside its transaction."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from kernelsmith.errors import InfrastructureError, InputError
from kernelsmith.lineage import reviews
from kernelsmith.lineage.models import CandidateRow, ExportRow, ReviewRow
from kernelsmith.lineage.step import StepWriter

Payload = Mapping[str, Any]
MOST_NOTE_CHARACTERS = 4000
MOST_NAME_CHARACTERS = 100


def write_review(writer: StepWriter, payload: Payload) -> str:
    """A person's decision. Payload: ``record``, ``decision`` ("approve", "reject", "undo"),
    ``reviewer``, ``note``. What may be decided is asked here too, inside the transaction.

    Raises:
        InputError: the candidate may not be approved; nothing stands that could be taken back.
    """
    record, decision = payload["record"], payload["decision"]
    if decision not in ("approve", "reject", "undo"):
        raise InfrastructureError(f"{decision!r} is no decision")
    _require_words(payload["note"], payload["reviewer"])
    found = writer.connection.execute(
        select(CandidateRow.id, CandidateRow.run_id).where(CandidateRow.record == record)
    ).first()
    if found is None:
        raise InfrastructureError(f"candidate record {record} is not in this database")
    reason = reviews.why_not_approvable(writer.connection, record)
    if decision == "approve" and reason:
        raise InputError(
            f"candidate {found.id} cannot be approved: {reason}",
            hint=f"`kernelsmith show {found.id}` shows its record; "
            f"`kernelsmith gate --again {found.id}` judges and times it anew",
        )
    if decision == "undo" and reviews.standing(writer.connection, record) is None:
        raise InputError(
            f"no decision about candidate {found.id} stands: there is nothing to undo",
            hint="`kernelsmith review` lists what waits",
        )
    identity = writer.identity()
    row = {"id": identity, "step": writer.seq, "record": record, "run_id": found.run_id}
    said = {name: payload[name] for name in ("decision", "reviewer", "note")}
    writer.run_id = found.run_id
    writer.add(ReviewRow, {**row, **said, "at": writer.at})
    return identity


def _require_words(note: str, reviewer: str) -> None:
    """Raises InputError for what a list of decisions could not show, or SQLite not keep."""
    if len(note) > MOST_NOTE_CHARACTERS:
        raise InputError(
            f"the note has {len(note):,} characters, {MOST_NOTE_CHARACTERS:,} are the most",
            hint="say why in short, and where the rest is",
        )
    if len(reviewer) > MOST_NAME_CHARACTERS or not reviewer.isprintable():
        raise InputError(
            f"no reviewer is called {reviewer[:MOST_NAME_CHARACTERS]!r}",
            hint=f"one line of at most {MOST_NAME_CHARACTERS} printable characters: --reviewer",
        )
    if any("\ud800" <= each <= "\udfff" for each in note):
        raise InputError("the note is not UTF-8", hint="write it in UTF-8")


def write_export(writer: StepWriter, payload: Payload) -> str:
    """A certificate that was written into a library. Payload: ``record``, ``folder``,
    ``certificate_hash``. Run and task are the record's."""
    record = payload["record"]
    found = writer.connection.execute(
        select(CandidateRow.run_id, CandidateRow.task).where(CandidateRow.record == record)
    ).first()
    if found is None:
        raise InfrastructureError(f"candidate record {record} is not in this database")
    identity = writer.identity()
    writer.run_id = found.run_id
    row = {"id": identity, "step": writer.seq, "record": record, "run_id": found.run_id}
    kept = {name: payload[name] for name in ("folder", "certificate_hash")}
    writer.add(ExportRow, {**row, "task": found.task, **kept, "at": writer.at})
    return identity
