"""What there is to review: a run's accepted candidates and where each stands."""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, select

from kernelsmith.lineage import queries, reviews
from kernelsmith.lineage.models import CandidateRow, ExportRow, VerdictRow
from kernelsmith.model import Gain

Place = Literal["stands", "unsupported", "superseded", "not timed"]
"""``stands``: its task's winner, faster than the seed by the final timing. ``unsupported``: that
timing failed, or an ancestor was rejected after it. ``superseded``: a faster one was accepted
after it. ``not timed``: the winner so far of a run whose final timing is still to come."""
_ORDER = ("stands", "not timed", "unsupported", "superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewItem:
    """An accepted candidate. ``final``: (holds, gain) against the seed; ``by``: the candidate
    that superseded it; ``why_not``: why nobody may approve it; ``rehearsal``: whoever proposed it
    was no model, but replies from a script."""

    record: str
    id: str
    run_id: str
    task: str
    device: str
    author: str
    judged_at: str
    place: Place
    by: str | None
    final: tuple[bool, Gain] | None
    why_not: str | None
    decided: reviews.Standing | None
    rehearsal: bool


def accepted_items(connection: Connection, run_id: str | None = None) -> list[ReviewItem]:
    """All accepted candidates of a run (of every run, newest first), those that stand first."""
    runs = queries.run_ids(connection) if run_id is None else [run_id]
    return [item for each in runs for item in _of_run(connection, each)]


def item_of(connection: Connection, record: str) -> ReviewItem | None:
    """One accepted candidate; None: it was not accepted."""
    run_id = connection.execute(
        select(CandidateRow.run_id).where(CandidateRow.record == record)
    ).scalar_one()
    found = [item for item in _of_run(connection, run_id) if item.record == record]
    return found[0] if found else None


def exports_of(connection: Connection, record: str) -> list[dict[str, Any]]:
    """Where a candidate went: folder, certificate_hash, at; oldest first."""
    if not reviews.has_table(connection, "exports"):
        return []
    columns = (ExportRow.folder, ExportRow.certificate_hash, ExportRow.at)
    query = select(*columns).where(ExportRow.record == record).order_by(ExportRow.step)
    return [dict(row) for row in connection.execute(query).mappings()]


def _of_run(connection: Connection, run_id: str) -> list[ReviewItem]:
    row = queries.run_row(connection, run_id)
    found: list[ReviewItem] = []
    for task in row["seeds"]:
        for place, by, each, final in _placed(connection, run_id, task):
            found.append(
                ReviewItem(
                    record=each["record"],
                    id=each["id"],
                    run_id=run_id,
                    task=task,
                    device=row["device"],
                    author=each["author"],
                    judged_at=each["judged_at"],
                    place=place,
                    by=by,
                    final=final,
                    why_not=reviews.why_not_approvable(connection, each["record"]),
                    decided=reviews.standing(connection, each["record"]),
                    rehearsal=queries.is_rehearsed(connection, each["record"]),
                )
            )
    return sorted(found, key=lambda item: _ORDER.index(item.place))


def _placed(
    connection: Connection, run_id: str, task: str
) -> list[tuple[Place, str | None, dict[str, Any], tuple[bool, Gain] | None]]:
    """The task's accepted candidates, newest first. The newest without a failed final timing is
    the one that stands, as ``standings`` says too."""
    rows = connection.execute(
        select(CandidateRow.record, CandidateRow.id, CandidateRow.author, VerdictRow.judged_at)
        .join(VerdictRow, VerdictRow.record == CandidateRow.record)
        .where(
            VerdictRow.run_id == run_id,
            VerdictRow.task == task,
            VerdictRow.status == "ACCEPTED",
        )
        .order_by(VerdictRow.step.desc())
    ).mappings()
    found: list[tuple[Place, str | None, dict[str, Any], tuple[bool, Gain] | None]] = []
    winner: str | None = None
    for row in rows.all():
        final = reviews.final_timing(connection, row["record"])
        place: Place
        if final is not None and reviews.why_unsupported(connection, row["record"]) is not None:
            place, by = "unsupported", None
        elif winner is not None:
            place, by = "superseded", winner
        else:
            place, by = ("not timed" if final is None else "stands"), None
        if winner is None and (final is None or final[0]):
            winner = row["id"]
        found.append((place, by, dict(row), final))
    return found
