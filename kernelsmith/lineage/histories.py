"""A run's history as its loop and its proposer see it."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import aliased

from kernelsmith.lineage import records
from kernelsmith.lineage.models import (
    Blob,
    CandidateRow,
    CheckRow,
    Event,
    Parent,
    Submission,
    VerdictRow,
)
from kernelsmith.lineage.past import PastCandidate
from kernelsmith.model import Candidate, CaseGain, Gain


def history(connection: Connection, run_id: str, task: str) -> list[PastCandidate]:
    """Judged, set aside and dropped candidates in the order of their proposal."""
    aside = _set_aside(connection, run_id, task)
    past = list(_dropped(connection, run_id, task))
    for row in _proposed(connection, run_id, task):
        status, message = row["status"], row["message"] or ""
        if status is None:
            if row["id"] not in aside:
                continue
            status, message = "UNJUDGED", aside[row["id"]]
        judged = PastCandidate(
            candidate=row["candidate"],
            status=status,
            gain_vs_seed=row["gain_vs_seed"],
            message=message,
            check=row["failed"] or "",
            gain=gain_of(row["gain"]),
        )
        past.append((row["step"], judged))
    return [judged for _, judged in sorted(past, key=lambda item: item[0])]


def pending(connection: Connection, run_id: str, task: str) -> list[Candidate]:
    """Candidates without a verdict that were not set aside, in order."""
    aside = _set_aside(connection, run_id, task)
    rows = _proposed(connection, run_id, task)
    return [row["candidate"] for row in rows if row["status"] is None and row["id"] not in aside]


def last_of(connection: Connection, run_id: str, kinds: tuple[str, ...]) -> str | None:
    """The kind of the run's latest event among ``kinds``."""
    return connection.execute(
        select(Event.kind)
        .where(Event.run_id == run_id, Event.kind.in_(kinds))
        .order_by(Event.step.desc())
        .limit(1)
    ).scalar()


def stop_requested(connection: Connection, run_id: str) -> bool:
    """Whether someone asked a run to stop since it was last started or resumed."""
    kinds = ("started", "resumed", "stop_requested")
    return last_of(connection, run_id, kinds) == "stop_requested"


def gain_of(text: str | None) -> Gain | None:
    """A gain as it was recorded."""
    if text is None:
        return None
    kept = json.loads(text)
    cases = tuple(CaseGain(**case) for case in kept.pop("cases"))
    return Gain(cases=cases, **kept)


def words_of(payload: Mapping[str, Any]) -> str:
    """What an event says in words: an error, a reason."""
    words = (payload.get(name) for name in ("error", "reason", "message"))
    return next((word for word in words if isinstance(word, str)), "")


def _proposed(connection: Connection, run_id: str, task: str) -> list[dict[str, Any]]:
    parents = _parents(connection, run_id, task)
    failed = (
        select(CheckRow.name)
        .where(CheckRow.verdict_id == VerdictRow.id, CheckRow.status == "fail")
        .order_by(CheckRow.ordinal)
        .limit(1)
        .scalar_subquery()
    )
    rows = connection.execute(
        select(
            CandidateRow,
            Blob.zstd,
            VerdictRow.status,
            VerdictRow.gain_vs_seed,
            VerdictRow.message,
            VerdictRow.gain,
            failed.label("failed"),
            Submission.session_id,
            Submission.tool_use_id,
        )
        .join(Blob, Blob.hash == CandidateRow.source)
        .outerjoin(Submission, Submission.record == CandidateRow.record)
        .outerjoin(VerdictRow, VerdictRow.record == CandidateRow.record)
        .where(
            CandidateRow.run_id == run_id, CandidateRow.task == task, CandidateRow.author != "seed"
        )
        .order_by(CandidateRow.position)
    ).mappings()
    return [
        {**row, "candidate": candidate_of(row, row["zstd"], parents[row["record"]])} for row in rows
    ]


def candidate_of(row: Mapping[Any, Any], zstd: bytes, parents: list[str]) -> Candidate:
    """The noun of a row of ``candidates`` with its ``session_id`` and ``tool_use_id``."""
    return Candidate(
        id=row["id"],
        task=row["task"],
        source=records.decompress(zstd).decode(),
        parents=tuple(parents),
        author=row["author"],
        changes=tuple(json.loads(row["changes"])),
        note=row["note"],
        origin=f"{row['session_id']}/{row['tool_use_id']}" if row["session_id"] else "",
    )


def _parents(connection: Connection, run_id: str, task: str) -> dict[str, list[str]]:
    """Parents' ids of every candidate of the run's task, by the child's record."""
    parent = aliased(CandidateRow)
    rows = connection.execute(
        select(Parent.record, parent.id)
        .join(CandidateRow, CandidateRow.record == Parent.record)
        .join(parent, parent.record == Parent.parent)
        .where(CandidateRow.run_id == run_id, CandidateRow.task == task)
        .order_by(Parent.record, Parent.ordinal)
    )
    found: dict[str, list[str]] = defaultdict(list)
    for record, parent_id in rows:
        found[record].append(parent_id)
    return found


def _set_aside(connection: Connection, run_id: str, task: str) -> dict[str, str]:
    """Candidates on which the machine failed: id -> what went wrong."""
    rows = connection.execute(
        select(Event.payload).where(
            Event.run_id == run_id, Event.kind == "set_aside", Event.task == task
        )
    )
    payloads = [json.loads(payload) for (payload,) in rows]
    return {payload["candidate"]: payload["error"] for payload in payloads}


def _dropped(connection: Connection, run_id: str, task: str) -> Iterator[tuple[int, PastCandidate]]:
    rows = connection.execute(
        select(Event.step, Event.payload).where(
            Event.run_id == run_id, Event.kind == "duplicate", Event.task == task
        )
    ).all()
    for step, payload in rows:
        kept = json.loads(payload)["dropped"]
        zstd = connection.execute(select(Blob.zstd).where(Blob.hash == kept["source"])).scalar_one()
        session_id, _, tool_use_id = kept.get("origin", "").partition("/")
        row = {
            **kept,
            "task": task,
            "changes": json.dumps(kept["changes"]),
            "session_id": session_id,
            "tool_use_id": tool_use_id,
        }
        candidate = candidate_of(row, zstd, kept["parents"])
        message = f"the same program as {kept['of']}"
        past = PastCandidate(
            candidate=candidate, status="DUPLICATE", gain_vs_seed=None, message=message
        )
        yield step, past
