"""What happened in a run, one step at a time: what a log says of it and what a watcher sees.

An occurrence is made of what has just been recorded, or is read back from the record by whoever
watches a run of another process. Both say the same of the same step.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import RowMapping

from kernelsmith.lineage.histories import gain_of, words_of
from kernelsmith.lineage.models import CandidateRow, CheckRow, Event, Retiming, Step, VerdictRow
from kernelsmith.model import Candidate, CheckResult, Gain, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One step of a run. ``kind``: the step's. ``candidate``: one that was proposed; it and
    ``verdict`` when read back come without source, parents, evidence and device. ``gain``,
    ``holds``: a final timing's.
    ``message``: what an event says in words. ``seq`` is 0 and ``at`` "" where it is not known."""

    kind: str
    run_id: str
    task: str = ""
    candidate_id: str = ""
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    gain: Gain | None = None
    holds: bool | None = None
    message: str = ""
    seconds: float | None = None
    elapsed_s: float | None = None
    seq: int = 0
    at: str = ""


def fields(what: Occurrence) -> dict[str, Any]:
    """What there is to say of it as JSON types, ``event`` first."""
    found: dict[str, Any] = {"event": what.kind, "run": what.run_id}
    words = {"task": what.task, "candidate": what.candidate_id, "message": what.message}
    gain = what.gain
    if what.candidate is not None:
        words["author"] = what.candidate.author
        words["changes"] = ", ".join(what.candidate.changes)
        words["note"] = what.candidate.note
    if what.verdict is not None:
        failing = next((each for each in what.verdict.checks if each.status == "fail"), None)
        words["status"] = what.verdict.status
        words["check"] = failing.name if failing else ""
        words["message"] = failing.message if failing else ""
        gain = what.verdict.gain
    found |= {name: word for name, word in words.items() if word}
    for name, value in (("seconds", what.seconds), ("elapsed_s", what.elapsed_s)):
        if value is not None:
            found[name] = round(value, 3)
    if what.holds is not None:
        found["holds"] = what.holds
    if gain is not None:
        found["gain"] = {
            "geomean": gain.geomean,
            "low": gain.low,
            "high": gain.high,
            "sessions": gain.sessions,
            "against": gain.against,
        }
    return found


def of_payload(run_id: str, kind: str, payload: Mapping[str, Any]) -> Occurrence:
    """What ``store.append`` has put on record. Of an event only its task, candidate, time and
    words are passed on: a payload may hold what belongs in no log."""
    candidate: Candidate | str = payload.get("candidate", "")
    verdict: Verdict | None = payload.get("verdict") if kind == "verdict" else None
    if isinstance(candidate, Candidate):
        duplicate_of = payload.get("of")
        return Occurrence(
            kind=kind,
            run_id=run_id,
            task=candidate.task,
            candidate_id=candidate.id,
            candidate=candidate,
            message=f"the same program as {duplicate_of}" if duplicate_of else "",
            elapsed_s=payload.get("elapsed_s"),
        )
    timed = kind == "retiming"
    return Occurrence(
        kind=kind,
        run_id=run_id,
        task=verdict.task if verdict else str(payload.get("task", "")),
        candidate_id=verdict.candidate if verdict else str(candidate),
        verdict=verdict,
        gain=payload["gain"] if timed else None,
        holds=bool(payload["holds"]) if timed else None,
        message=words_of(payload),
        seconds=payload.get("seconds"),
        elapsed_s=payload.get("elapsed_s"),
    )


def since(connection: Connection, run_id: str, seq: int) -> list[Occurrence]:
    """What is on record of a run after a step, oldest first."""
    steps = connection.execute(
        select(Step.seq, Step.at, Step.kind)
        .where(Step.run_id == run_id, Step.seq > seq)
        .order_by(Step.seq)
    ).all()
    return [_read(connection, run_id, *step) for step in steps]


def before_the_last(connection: Connection, run_id: str, count: int) -> int:
    """The step after which a run's last ``count`` steps follow; 0: it has no more than those."""
    steps = select(Step.seq).where(Step.run_id == run_id).order_by(Step.seq.desc())
    return int(connection.execute(steps.offset(count).limit(1)).scalar() or 0)


def _read(connection: Connection, run_id: str, seq: int, at: str, kind: str) -> Occurrence:
    place: dict[str, Any] = {"kind": kind, "run_id": run_id, "seq": seq, "at": at}
    tables: Mapping[str, Any] = {
        "candidate": CandidateRow,
        "verdict": VerdictRow,
        "retiming": Retiming,
    }
    table = tables.get(kind, Event)
    found = select(table).where(table.run_id == run_id, table.step == seq)
    row = connection.execute(found).mappings().first()
    if row is None or kind == "run":  # a conversation's step: what it says is told elsewhere
        return Occurrence(**place)
    if kind == "candidate":
        candidate = _candidate(row)
        return Occurrence(task=row["task"], candidate_id=candidate.id, candidate=candidate, **place)
    if table is Event:
        return _event(row, place)
    of_record = select(CandidateRow.id).where(CandidateRow.record == row["record"])
    name = connection.execute(of_record).scalar_one()
    place |= {"task": row["task"], "candidate_id": name, "elapsed_s": row["elapsed_s"]}
    if kind == "verdict":
        verdict = _verdict(connection, name, row)
        return Occurrence(verdict=verdict, seconds=row["seconds"], **place)
    return Occurrence(gain=gain_of(row["gain"]), holds=bool(row["holds"]), **place)


def _event(row: RowMapping, place: Mapping[str, Any]) -> Occurrence:
    payload = json.loads(row["payload"])
    name, candidate, message = str(payload.get("candidate", "")), None, words_of(payload)
    dropped = payload.get("dropped")
    if dropped is not None:
        changes = json.dumps(dropped["changes"])
        candidate = _candidate({**dropped, "task": row["task"], "changes": changes})
        name, message = candidate.id, f"the same program as {dropped['of']}"
    return Occurrence(
        task=row["task"],
        candidate_id=name,
        candidate=candidate,
        message=message,
        seconds=payload.get("seconds"),
        elapsed_s=row["elapsed_s"] or None,
        **place,
    )


def _candidate(row: Mapping[Any, Any]) -> Candidate:
    return Candidate(
        id=row["id"],
        task=row["task"],
        source="",
        parents=(),
        author=row["author"],
        changes=tuple(json.loads(row["changes"])),
        note=row["note"],
    )


def _verdict(connection: Connection, candidate: str, row: RowMapping) -> Verdict:
    checks = connection.execute(
        select(CheckRow.name, CheckRow.status, CheckRow.seconds, CheckRow.message)
        .where(CheckRow.verdict_id == row["id"])
        .order_by(CheckRow.ordinal)
    ).mappings()
    return Verdict(
        candidate=candidate,
        task=row["task"],
        status=row["status"],
        checks=tuple(CheckResult(**each) for each in checks),
        gain=gain_of(row["gain"]),
        unchecked=tuple(json.loads(row["unchecked"])),
        epoch=row["epoch"],
        device={},
    )
