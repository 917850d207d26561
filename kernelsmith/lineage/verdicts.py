"""A candidate's whole record, read back as nouns."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.orm import aliased

from kernelsmith.lineage import records, reviews
from kernelsmith.lineage.histories import gain_of
from kernelsmith.lineage.models import (
    Blob,
    CandidateRow,
    CheckRow,
    Event,
    Parent,
    TimingSession,
    VerdictRow,
)
from kernelsmith.lineage.queries import is_rehearsed, load_candidate
from kernelsmith.model import Candidate, CheckResult, Gain, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRecord:
    """All that is on record of a candidate. ``verdict`` is None while it waits, for a seed, and
    for one that was set aside (``set_aside`` says why). ``final``: (holds, gain) against the seed.
    ``unsupported``: what an accepted one's evidence lacks; ``decision``: a person's that stands.
    ``parents``: (id, record). ``raw_sessions``: how many raw timing sessions are kept.
    ``rehearsal``: scripted replies wrote it, not a model."""

    record: str
    run_id: str
    proposed_at: str
    candidate: Candidate
    parents: tuple[tuple[str, str], ...]
    verdict: Verdict | None
    verdict_id: str | None
    judged_at: str | None
    seconds: float | None
    gain_vs_seed: float | None
    set_aside: str | None
    final: tuple[bool, Gain] | None
    unsupported: str | None
    decision: reviews.Standing | None
    raw_sessions: int
    rehearsal: bool


def candidate_record(connection: Connection, record: str) -> CandidateRecord:
    """Reads everything about one candidate but the raw samples."""
    row = (
        connection.execute(select(CandidateRow).where(CandidateRow.record == record))
        .mappings()
        .one()
    )
    candidate = load_candidate(connection, record)
    parent = aliased(CandidateRow)
    parents = connection.execute(
        select(parent.id, parent.record)
        .join(Parent, Parent.parent == parent.record)
        .where(Parent.record == record)
        .order_by(Parent.ordinal)
    )
    found = connection.execute(select(VerdictRow).where(VerdictRow.record == record)).first()
    is_accepted = found is not None and found.status == "ACCEPTED"
    return CandidateRecord(
        record=record,
        run_id=row["run_id"],
        proposed_at=row["proposed_at"],
        candidate=candidate,
        parents=tuple((each.id, each.record) for each in parents),
        verdict=None if found is None else _verdict(connection, found, candidate.id),
        verdict_id=None if found is None else found.id,
        judged_at=None if found is None else found.judged_at,
        seconds=None if found is None else found.seconds,
        gain_vs_seed=None if found is None else found.gain_vs_seed,
        set_aside=None if found else _set_aside(connection, row["run_id"], candidate),
        final=reviews.final_timing(connection, record),
        unsupported=reviews.why_unsupported(connection, record) if is_accepted else None,
        decision=reviews.standing(connection, record),
        raw_sessions=0 if found is None else _sessions(connection, found.id),
        rehearsal=is_rehearsed(connection, record),
    )


def raw_sessions(connection: Connection, verdict_id: str) -> list[dict[str, Any]]:
    """Raw samples of a verdict's timing sessions, in order."""
    rows = connection.execute(
        select(Blob.zstd)
        .join(TimingSession, TimingSession.samples == Blob.hash)
        .where(TimingSession.verdict_id == verdict_id)
        .order_by(TimingSession.ordinal)
    )
    return [json.loads(records.decompress(packed)) for (packed,) in rows]


def newest(connection: Connection, run_id: str, count: int) -> list[dict[str, Any]]:
    """The run's newest candidates: id, task, author, changes, status, gain_vs_seed, message."""
    query = _brief().where(CandidateRow.run_id == run_id).order_by(CandidateRow.step.desc())
    return _briefly(connection, query.limit(count))


def accepted(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """The run's accepted candidates, oldest first, in the form of :func:`newest`."""
    query = _brief().where(VerdictRow.run_id == run_id, VerdictRow.status == "ACCEPTED")
    return _briefly(connection, query.order_by(VerdictRow.step))


def _brief() -> Any:  # Select's parameters differ between SQLAlchemy 2.0 and 2.1
    return select(
        CandidateRow.id,
        CandidateRow.task,
        CandidateRow.author,
        CandidateRow.changes,
        VerdictRow.status,
        VerdictRow.gain_vs_seed,
        VerdictRow.message,
    ).outerjoin(VerdictRow, VerdictRow.record == CandidateRow.record)


def _briefly(connection: Connection, query: Any) -> list[dict[str, Any]]:
    rows = connection.execute(query).mappings()
    return [{**row, "changes": json.loads(row["changes"])} for row in rows]


def _verdict(connection: Connection, row: Any, candidate_id: str) -> Verdict:
    checks = connection.execute(
        select(CheckRow).where(CheckRow.verdict_id == row.id).order_by(CheckRow.ordinal)
    )
    device = connection.execute(select(Blob.zstd).where(Blob.hash == row.device)).scalar_one()
    return Verdict(
        candidate=candidate_id,
        task=row.task,
        status=row.status,
        checks=tuple(
            CheckResult(
                name=check.name,
                status=check.status,
                seconds=check.seconds,
                message=check.message,
                evidence=json.loads(check.evidence),
            )
            for check in checks
        ),
        gain=gain_of(row.gain),
        unchecked=tuple(json.loads(row.unchecked)),
        epoch=row.epoch,
        device=json.loads(records.decompress(device)),
    )


def _set_aside(connection: Connection, run_id: str, candidate: Candidate) -> str | None:
    rows = connection.execute(
        select(Event.payload).where(
            Event.run_id == run_id, Event.kind == "set_aside", Event.task == candidate.task
        )
    )
    for (text,) in rows:
        payload = json.loads(text)
        if payload["candidate"] == candidate.id:
            return str(payload["error"])
    return None


def _sessions(connection: Connection, verdict_id: str) -> int:
    query = select(func.count()).where(TimingSession.verdict_id == verdict_id)
    return int(connection.execute(query).scalar_one())
