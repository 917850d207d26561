"""Which decision about a candidate stands, and whether its evidence supports it.

Nothing is ever rewritten: a decision, its taking back and a later one are rows. What stands is
read from them here, the same for the review, the export and the transaction that writes.
"""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, select
from sqlalchemy.orm import aliased

from kernelsmith.lineage.histories import gain_of
from kernelsmith.lineage.models import CandidateRow, Parent, Retiming, ReviewRow, VerdictRow
from kernelsmith.model import Gain

Decision = Literal["approve", "reject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The decision that stands for a candidate, who took it, why and when."""

    decision: Decision
    reviewer: str
    note: str
    at: str
    step: int


def history(connection: Connection, record: str) -> list[dict[str, Any]]:
    """Every decision about a candidate, oldest first: decision, reviewer, note, at, step."""
    if not has_table(connection, "reviews"):
        return []
    columns = ("decision", "reviewer", "note", "at", "step")
    query = select(*(getattr(ReviewRow, name) for name in columns)).where(
        ReviewRow.record == record
    )
    rows = connection.execute(query.order_by(ReviewRow.step)).mappings()
    return [dict(row) for row in rows]


def standing(connection: Connection, record: str) -> Standing | None:
    """The latest decision about a candidate that was not taken back; None: it waits."""
    kept: list[dict[str, Any]] = []
    for row in history(connection, record):
        if row["decision"] != "undo":
            kept.append(row)
        elif kept:
            kept.pop()
    return Standing(**kept[-1]) if kept else None


def approved(connection: Connection, run_id: str | None = None) -> list[str]:
    """Records whose standing decision is to approve, in the order they were proposed; of one run,
    or of all; but for those whose program was rejected later, as another run's candidate. Ask
    :func:`why_unsupported` whether each still has the evidence it was approved on.
    """
    if not has_table(connection, "reviews"):
        return []
    within = [] if run_id is None else [ReviewRow.run_id == run_id]
    rows = connection.execute(
        select(CandidateRow.record)
        .join(ReviewRow, ReviewRow.record == CandidateRow.record)
        .where(*within)
        .distinct()
        .order_by(CandidateRow.step)
    ).scalars()
    found = [(record, standing(connection, record)) for record in rows.all()]
    return [
        record
        for record, decided in found
        if decided
        and decided.decision == "approve"
        and not _rejected_after(connection, record, decided.step)
    ]


def why_unsupported(connection: Connection, record: str) -> str | None:
    """What is missing of an accepted candidate's evidence, in words; None: nothing is.

    Its gain over the seed must have been shown by the latest timing against it, in whichever run
    of its epoch (`gate --again` makes one), and every ancestor that a person rejected must have
    been rejected before that timing.
    """
    timed = _timed(connection, record)
    if timed is None:
        return "it was not timed against the seed"
    if not timed.holds:
        return "it is not faster than the seed by the final timing"
    for ancestor in ancestors(connection, record):
        if _rejected_after(connection, ancestor, timed.step):
            name = select(CandidateRow.id).where(CandidateRow.record == ancestor)
            who = connection.execute(name).scalar_one()
            return f"its ancestor {who} was rejected after it was timed against the seed"
    return None


def why_not_approvable(connection: Connection, record: str) -> str | None:
    """Why nobody may approve a candidate, in words; None: someone may."""
    status = connection.execute(
        select(VerdictRow.status).where(VerdictRow.record == record)
    ).scalar()
    if status is None:
        return "it has no verdict"
    if status != "ACCEPTED":
        return f"its verdict is {status}"
    return why_unsupported(connection, record)


def final_timing(connection: Connection, record: str) -> tuple[bool, Gain] | None:
    """(holds, gain) of a candidate's latest timing against the seed; None: there is none."""
    row = _timed(connection, record)
    gain = None if row is None else gain_of(row.gain)
    return None if row is None or gain is None else (bool(row.holds), gain)


def ancestors(connection: Connection, record: str) -> list[str]:
    """Records of all that a candidate descends from, nearest first, each once, through every
    parent and across runs."""
    found: dict[str, None] = {}
    layer = [record]
    while layer:
        rows = connection.execute(
            select(Parent.parent)
            .where(Parent.record.in_(layer))
            .order_by(Parent.record, Parent.ordinal)
        ).scalars()
        layer = [each for each in dict.fromkeys(rows.all()) if each not in found]
        found.update(dict.fromkeys(layer))
    return list(found)


def _timed(connection: Connection, record: str) -> Any:
    """The latest timing against the seed of a candidate's program, in its epoch: a record of
    another run with the same source is the same program."""
    own, same = aliased(VerdictRow), aliased(VerdictRow)
    return connection.execute(
        select(Retiming.step, Retiming.holds, Retiming.gain)
        .join(same, same.record == Retiming.record)
        .join(own, own.epoch == same.epoch)
        .where(own.record == record, Retiming.record.in_(_same_program(record)))
        .order_by(Retiming.step.desc())
        .limit(1)
    ).first()


def _same_program(record: str) -> Any:
    """Selects the records, of any run, of the program that a record holds."""
    one = aliased(CandidateRow)
    return (
        select(CandidateRow.record)
        .join(one, (one.id == CandidateRow.id) & (one.task == CandidateRow.task))
        .where(one.record == record)
    )


def _rejected_after(connection: Connection, record: str, step: int) -> bool:
    """Whether a rejection that stands was said of a candidate's program after a step."""
    if not has_table(connection, "reviews"):
        return False
    query = select(ReviewRow.record).where(
        ReviewRow.record.in_(_same_program(record)),
        ReviewRow.decision == "reject",
        ReviewRow.step > step,
    )
    decided = [standing(connection, each) for each in connection.execute(query).scalars()]
    return any(d and d.decision == "reject" and d.step > step for d in decided)


def has_table(connection: Connection, name: str) -> bool:
    """Whether the file has a table of the newest schema: no newer version may have written to it
    yet."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.exec_driver_sql(query, (name,)).first() is not None
