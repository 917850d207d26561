"""What each kind of step writes. Called by ``store.append`` inside its transaction."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import func, select

from kernelsmith.errors import InfrastructureError
from kernelsmith.lineage import records
from kernelsmith.lineage.models import (
    CandidateRow,
    CheckRow,
    Event,
    Parent,
    Retiming,
    Run,
    RunTask,
    Submission,
    TimingSession,
    VerdictRow,
)
from kernelsmith.lineage.step import StepWriter
from kernelsmith.lineage.writers_review import write_export, write_review
from kernelsmith.model import Candidate, Verdict

Payload = Mapping[str, Any]


def write_run(writer: StepWriter, payload: Payload) -> str:
    """A run with its tasks and their seeds, and its event "started". Payload: ``proposer``,
    ``seed``, ``secret_seed``, ``device``, ``device_facts``, ``sandbox``, ``versions``,
    ``options``, ``seeds`` (a Candidate a task), ``normal_hashes`` (one a seed), ``process``, and
    ``definitions``, a Task each: kept as blobs, whose hashes join the options."""
    run_id = writer.identity()
    writer.run_id = run_id
    facts = ("device_facts", "sandbox", "versions")
    definitions = {
        task.name: writer.add_blob(records.canonical(task).encode())
        for task in payload.get("definitions", ())
    }
    options = {**payload["options"], **({"definitions": definitions} if definitions else {})}
    writer.add(
        Run,
        {
            "id": run_id,
            "step": writer.seq,
            "started_at": writer.at,
            "proposer": payload["proposer"],
            "seed": payload["seed"],
            "secret_seed": str(payload["secret_seed"]),
            "device": payload["device"],
            **{name: records.canonical(payload[name]) for name in facts},
            "options": records.canonical(options),
        },
    )
    seeds = zip(payload["seeds"], payload["normal_hashes"], strict=True)
    for ordinal, (seed, normal_hash) in enumerate(seeds):
        record = _add_candidate(writer, seed, normal_hash)
        writer.add(
            RunTask,
            {"run_id": run_id, "ordinal": ordinal, "task": seed.task, "seed_record": record},
        )
    write_event(writer, "started", {"process": payload["process"]})
    return run_id


def write_candidate(writer: StepWriter, payload: Payload) -> str:
    """Payload: ``candidate``, ``normal_hash``. Returns the record hash. A candidate with an
    ``origin`` gets a row in ``submissions``."""
    return _add_candidate(writer, payload["candidate"], payload["normal_hash"])


def write_verdict(writer: StepWriter, payload: Payload) -> str:
    """Payload: ``verdict``, ``seconds``, ``elapsed_s``, ``gain_vs_seed``. Returns its id."""
    verdict: Verdict = payload["verdict"]
    identity = writer.identity()
    confirmed = any(c.name == "confirm" and c.status != "unchecked" for c in verdict.checks)
    failing = [check.message for check in verdict.checks if check.status == "fail"]
    writer.add(
        VerdictRow,
        {
            "id": identity,
            "step": writer.seq,
            "record": record_of(writer, verdict.task, verdict.candidate),
            "run_id": writer.run_id,
            "task": verdict.task,
            "status": verdict.status,
            "message": failing[0] if failing else "",
            "epoch": verdict.epoch,
            "device": writer.add_blob(records.canonical(verdict.device).encode()),
            "gain": None if verdict.gain is None else records.canonical(verdict.gain),
            "gain_vs_seed": payload["gain_vs_seed"],
            "unchecked": records.canonical(verdict.unchecked),
            "reached_confirm": int(confirmed),
            "seconds": float(payload["seconds"]),
            "elapsed_s": float(payload["elapsed_s"]),
            "judged_at": writer.at,
        },
    )
    checks = [
        {
            "verdict_id": identity,
            "ordinal": ordinal,
            "name": check.name,
            "status": check.status,
            "seconds": float(check.seconds),
            "message": check.message,
            "evidence": records.canonical(check.evidence),
        }
        for ordinal, check in enumerate(verdict.checks)
    ]
    writer.add(CheckRow, *checks)
    blobs = [writer.add_blob(records.canonical(each).encode()) for each in verdict.samples]
    sessions = [
        {"verdict_id": identity, "ordinal": ordinal, "samples": blob}
        for ordinal, blob in enumerate(blobs)
    ]
    writer.add(TimingSession, *sessions)
    return identity


def write_retiming(writer: StepWriter, payload: Payload) -> str:
    """Payload: ``task``, ``candidate`` (id), ``holds``, ``gain``, ``evidence``, ``elapsed_s``."""
    identity = writer.identity()
    writer.add(
        Retiming,
        {
            "id": identity,
            "step": writer.seq,
            "record": record_of(writer, payload["task"], payload["candidate"]),
            "run_id": writer.run_id,
            "task": payload["task"],
            "holds": int(payload["holds"]),
            "gain": records.canonical(payload["gain"]),
            "evidence": writer.add_blob(records.canonical(payload["evidence"]).encode()),
            "elapsed_s": float(payload["elapsed_s"]),
            "timed_at": writer.at,
        },
    )
    return identity


def write_duplicate(writer: StepWriter, payload: Payload) -> str:
    """A proposal dropped before any work. Payload: ``candidate``, ``of`` (the earlier one's id),
    ``elapsed_s``. Its source is kept, so that a proposer sees the same history again."""
    candidate: Candidate = payload["candidate"]
    source = writer.add_blob(candidate.source.encode())
    kept = {
        "id": candidate.id,
        "parents": candidate.parents,
        "author": candidate.author,
        "changes": candidate.changes,
        "note": candidate.note,
        "origin": candidate.origin,
        "source": source,
        "of": payload["of"],
    }
    event = {"task": candidate.task, "elapsed_s": payload["elapsed_s"], "dropped": kept}
    return write_event(writer, "duplicate", event)


def write_event(writer: StepWriter, kind: str, payload: Payload) -> str:
    """Any other kind; ``task`` and ``elapsed_s`` of the payload become columns."""
    identity = writer.identity()
    rest = {k: v for k, v in payload.items() if k not in ("task", "elapsed_s")}
    writer.add(
        Event,
        {
            "id": identity,
            "step": writer.seq,
            "run_id": writer.run_id,
            "at": writer.at,
            "kind": kind,
            "task": payload.get("task", ""),
            "elapsed_s": float(payload.get("elapsed_s", 0.0)),
            "payload": records.canonical(rest),
        },
    )
    return identity


WRITERS: Mapping[str, Callable[[StepWriter, Payload], str]] = {
    "run": write_run,
    "candidate": write_candidate,
    "verdict": write_verdict,
    "retiming": write_retiming,
    "duplicate": write_duplicate,
    "review": write_review,
    "export": write_export,
}


def record_of(writer: StepWriter, task: str, candidate_id: str) -> str:
    """The record of a candidate of this run, else of the newest run that has it.

    Raises:
        InfrastructureError: when no run has it.
    """
    rows = (
        select(CandidateRow.record)
        .where(CandidateRow.id == candidate_id, CandidateRow.task == task)
        .order_by((CandidateRow.run_id == writer.run_id).desc(), CandidateRow.step.desc())
        .limit(1)
    )
    record = writer.connection.execute(rows).scalar()
    if record is None:
        raise InfrastructureError(f"candidate {candidate_id} of task {task} was never recorded")
    return record


def candidate_record(values: Mapping[str, Any], parents: list[str]) -> str:
    """A candidate's record hash: its row (without place in the file) and its parents' records."""
    kept = {k: v for k, v in values.items() if k not in ("record", "step")}
    return records.sha256(records.canonical([kept, parents]))


def _add_candidate(writer: StepWriter, candidate: Candidate, normal_hash: str) -> str:
    if candidate.id != records.sha256(candidate.source)[:16]:
        raise InfrastructureError(f"candidate id {candidate.id} is not the hash of its source")
    parents = [record_of(writer, candidate.task, parent) for parent in candidate.parents]
    last = writer.connection.execute(
        select(func.max(CandidateRow.position)).where(
            CandidateRow.run_id == writer.run_id, CandidateRow.task == candidate.task
        )
    ).scalar()
    values = {
        "run_id": writer.run_id,
        "id": candidate.id,
        "task": candidate.task,
        "position": 0 if last is None else last + 1,
        "author": candidate.author,
        "changes": records.canonical(candidate.changes),
        "note": candidate.note,
        "source": writer.add_blob(candidate.source.encode()),
        "normal_hash": normal_hash,
        "proposed_at": writer.at,
    }
    record = candidate_record(values, parents)
    writer.add(CandidateRow, {"record": record, "step": writer.seq, **values})
    numbered = enumerate(parents)
    links = [{"record": record, "ordinal": number, "parent": each} for number, each in numbered]
    writer.add(Parent, *links)
    if candidate.origin:
        session_id, _, tool_use_id = candidate.origin.partition("/")
        origin = {"session_id": session_id, "tool_use_id": tool_use_id}
        writer.add(Submission, {"record": record, **origin})
    return record
