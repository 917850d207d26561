"""Counts over a run's record: what rejected, how long checks took, what went wrong around it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, func, select

from kernelsmith.lineage.models import CandidateRow, CheckRow, Event, VerdictRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How long something took: ``counts`` of those at most each bound, then of all; the sum."""

    counts: tuple[int, ...]
    sum_s: float


def rejections(connection: Connection, run_id: str) -> dict[str, dict[str, int]]:
    """Task -> check -> candidates that it rejected, the most first."""
    rows = connection.execute(
        select(VerdictRow.task, CheckRow.name, func.count().label("count"))
        .join(CheckRow, CheckRow.verdict_id == VerdictRow.id)
        .where(VerdictRow.run_id == run_id, CheckRow.status == "fail")
        .group_by(VerdictRow.task, CheckRow.name)
        .order_by(func.count().desc(), CheckRow.name)
    )
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for task, check, count in rows:
        found[task][check] = count
    return dict(found)


def judging_s(connection: Connection, run_id: str, bounds_s: Sequence[float]) -> dict[str, Spread]:
    """Check -> how long it took, over all candidates that it judged."""
    within = [
        func.coalesce(func.sum(case((CheckRow.seconds <= bound, 1), else_=0)), 0)
        for bound in bounds_s
    ]
    rows = connection.execute(
        select(CheckRow.name, func.sum(CheckRow.seconds), *within, func.count())
        .join(VerdictRow, VerdictRow.id == CheckRow.verdict_id)
        .where(VerdictRow.run_id == run_id, CheckRow.status != "unchecked")
        .group_by(CheckRow.name)
    )
    return {row[0]: Spread(counts=tuple(map(int, row[2:])), sum_s=float(row[1])) for row in rows}


def used_s(connection: Connection, run_id: str) -> dict[str, float]:
    """Task -> seconds spent on candidates that have a verdict."""
    rows = connection.execute(
        select(VerdictRow.task, func.sum(VerdictRow.seconds))
        .where(VerdictRow.run_id == run_id)
        .group_by(VerdictRow.task)
    )
    return {row[0]: float(row[1]) for row in rows}


def events(connection: Connection, run_id: str) -> Mapping[str, int]:
    """Kind of event -> how many are on record."""
    rows = connection.execute(
        select(Event.kind, func.count()).where(Event.run_id == run_id).group_by(Event.kind)
    )
    return {row[0]: int(row[1]) for row in rows}


def latest(connection: Connection, run_id: str, kind: str) -> tuple[str, str] | None:
    """(time, payload) of a run's latest event of a kind."""
    row = connection.execute(
        select(Event.at, Event.payload)
        .where(Event.run_id == run_id, Event.kind == kind)
        .order_by(Event.step.desc())
        .limit(1)
    ).first()
    return None if row is None else (row.at, row.payload)


def last_at(connection: Connection, run_id: str) -> str:
    """When anything of a run's loop came on record last; "" if nothing did."""
    tables: Sequence[tuple[Any, Any]] = (
        (CandidateRow, CandidateRow.proposed_at),
        (VerdictRow, VerdictRow.judged_at),
        (Event, Event.at),
    )
    found = [
        connection.execute(
            select(at).where(table.run_id == run_id).order_by(table.step.desc()).limit(1)
        ).scalar()
        for table, at in tables
    ]
    return max(str(each or "") for each in found)
