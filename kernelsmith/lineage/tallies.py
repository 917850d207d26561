"""Counts over a run's record: what rejected, how long checks took, what went wrong around it."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, func, select

from kernelsmith.lineage.histories import words_of
from kernelsmith.lineage.models import CandidateRow, CheckRow, Event, VerdictRow

ORDINARY = (
    *("started", "proved", "duplicate", "retiming_begun", "stop_requested", "pause_requested"),
    *("thaw_requested", "thawed", "call_stalled", "room_again", "finished", "interrupted"),
    "failed",
)
"""Kinds of events that belong to a night without incidents, or that a run's state tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A kind of event that is no part of an ordinary night. ``last``: the latest's words."""

    count: int
    last_at: str
    last: str


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


def incidents(connection: Connection, run_id: str) -> dict[str, Incident]:
    """Kind -> what went wrong around the candidates, in order of the latest."""
    rows = connection.execute(
        select(Event.kind, func.count(), func.max(Event.step))
        .where(Event.run_id == run_id, Event.kind.not_in(ORDINARY))
        .group_by(Event.kind)
        .order_by(func.max(Event.step))
    ).all()
    found = {}
    for kind, count, step in rows:
        event = connection.execute(
            select(Event.at, Event.payload).where(Event.run_id == run_id, Event.step == step)
        ).one()
        words = words_of(json.loads(event.payload))
        found[kind] = Incident(count=count, last_at=event.at, last=words)
    return found


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
