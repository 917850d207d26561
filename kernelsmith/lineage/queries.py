"""What commands read: runs, candidates by prefix, a candidate's whole record.

Every query here is answered by an index; ``benchmarks/lineage_scale.py`` times them.
"""

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.orm import aliased

from kernelsmith.errors import InputError
from kernelsmith.lineage.histories import candidate_of
from kernelsmith.lineage.models import (
    Blob,
    CandidateRow,
    ModelAnswer,
    ModelCall,
    Parent,
    Run,
    RunTask,
    SessionRow,
    Submission,
)
from kernelsmith.model import SCRIPTED_HEADER, SCRIPTED_MODEL, Candidate


def run_ids(connection: Connection, prefix: str = "") -> list[str]:
    """Ids of runs that begin with ``prefix``, newest first."""
    query = select(Run.id).where(*_starts(Run.id, prefix)).order_by(Run.step.desc())
    return list(connection.execute(query).scalars())


def find_run(connection: Connection, prefix: str) -> str:
    """The one run that ``prefix`` (or "latest") names.

    Raises:
        InputError: none, or several.
    """
    _require_text(prefix, "run")
    found = run_ids(connection, "" if prefix == "latest" else prefix)
    if prefix == "latest" and found:
        return found[0]
    return _only(found, prefix, "run", "`kernelsmith runs` lists them")


def candidate_ids(connection: Connection, prefix: str) -> list[str]:
    """Ids of candidates that begin with ``prefix``, each once."""
    query = select(CandidateRow.id).where(*_starts(CandidateRow.id, prefix)).distinct()
    return list(connection.execute(query.order_by(CandidateRow.id)).scalars())


def find_candidate(connection: Connection, prefix: str, run_id: str | None = None) -> str:
    """The record of the one candidate that ``prefix`` names ("latest": the latest run's newest);
    where several runs hold it, the newest run's, unless ``run_id`` names one.

    Raises:
        InputError: none, or several.
    """
    _require_text(prefix, "candidate")
    within = [] if run_id is None else [CandidateRow.run_id == run_id]
    if prefix == "latest":
        record = newest_record(connection, run_id or find_run(connection, "latest"))
        return _only([record] if record else [], prefix, "candidate", "nothing was proposed yet")
    rows = connection.execute(
        select(CandidateRow.id, CandidateRow.record)
        .where(*_starts(CandidateRow.id, prefix), *within)
        .order_by(CandidateRow.step)
    ).all()
    by_id = {row.id: row.record for row in rows}
    hint = "`kernelsmith show RUN` lists a run's candidates"
    return str(by_id[_only(sorted(by_id), prefix, "candidate", hint)])


def newest_record(connection: Connection, run_id: str) -> str | None:
    """The record of a run's newest candidate; None: nothing was proposed yet."""
    newest = (
        select(CandidateRow.record)
        .where(CandidateRow.run_id == run_id, CandidateRow.author != "seed")
        .order_by(CandidateRow.step.desc())
        .limit(1)
    )
    return connection.execute(newest).scalar()


def session_names(connection: Connection, prefix: str) -> list[tuple[str, str]]:
    """(session, run) of conversations whose id begins with ``prefix``, as they began; a foreign
    client's may occur in several runs."""
    own = connection.execute(
        select(SessionRow.id, SessionRow.run_id, SessionRow.step).where(
            *_starts(SessionRow.id, prefix)
        )
    )
    called = connection.execute(
        select(ModelCall.session_id, ModelCall.run_id, func.min(ModelCall.step))
        .where(ModelCall.session_id >= prefix, ModelCall.session_id < prefix + "\U0010ffff")
        .group_by(ModelCall.session_id, ModelCall.run_id)
    )
    began = {(row[0], row[1]): row[2] for row in (*called, *own)}
    return sorted(began, key=lambda name: began[name])


def find_session(connection: Connection, prefix: str, run_id: str | None = None) -> tuple[str, str]:
    """(session, run) of the one conversation that ``prefix`` names; where several runs hold it,
    the newest, unless ``run_id`` names one.

    Raises:
        InputError: none, or several.
    """
    found = session_names(connection, prefix)
    within = {name: run for name, run in found if run_id in (None, run)}
    exact = [prefix] if prefix in within else sorted(within)
    hint = "`kernelsmith show RUN` lists a run's sessions"
    name = _only(exact, prefix, "session", hint)
    return name, within[name]


def load_candidate(connection: Connection, record: str) -> Candidate:
    """The candidate of a record."""
    row = (
        connection.execute(
            select(CandidateRow, Blob.zstd, Submission.session_id, Submission.tool_use_id)
            .join(Blob, Blob.hash == CandidateRow.source)
            .outerjoin(Submission, Submission.record == CandidateRow.record)
            .where(CandidateRow.record == record)
        )
        .mappings()
        .one()
    )
    parent = aliased(CandidateRow)
    parents = connection.execute(
        select(parent.id)
        .join(Parent, Parent.parent == parent.record)
        .where(Parent.record == record)
        .order_by(Parent.ordinal)
    ).scalars()
    return candidate_of(row, row["zstd"], list(parents))


def place_of(connection: Connection, record: str) -> tuple[str, str]:
    """(run, task) of a candidate's record."""
    query = select(CandidateRow.run_id, CandidateRow.task).where(CandidateRow.record == record)
    row = connection.execute(query).one()
    return row.run_id, row.task


def is_rehearsed(connection: Connection, record: str) -> bool:
    """Whether scripted replies wrote a candidate, not a model: its run was started as a rehearsal,
    or its session was answered by a rehearsal's server. What a later run judges again is what it
    was where it was proposed."""
    query = (
        select(CandidateRow.author, CandidateRow.id, CandidateRow.step, Run.options)
        .join(Run, Run.id == CandidateRow.run_id)
        .where(CandidateRow.record == record)
    )
    row = connection.execute(query).one()
    if row.author != "agent":
        return False
    agent = json.loads(row.options).get("agent")
    if not agent:  # a run without an agent took it from an earlier one
        earlier = select(CandidateRow.record).where(
            CandidateRow.id == row.id, CandidateRow.step < row.step
        )
        records = list(connection.execute(earlier).scalars())
        return any(is_rehearsed(connection, each) for each in records)
    if agent.get("rehearsal"):
        return True
    played = (
        select(ModelAnswer.call_id)
        .join(ModelCall, ModelCall.id == ModelAnswer.call_id)
        .join(Submission, Submission.session_id == ModelCall.session_id)
        .where(
            Submission.record == record,
            (ModelAnswer.model == SCRIPTED_MODEL) | ModelAnswer.headers.contains(SCRIPTED_HEADER),
        )
        .limit(1)
    )
    return connection.execute(played).first() is not None


def parent_records(connection: Connection, record: str) -> list[str]:
    """Records of a candidate's parents, in order."""
    query = select(Parent.parent).where(Parent.record == record).order_by(Parent.ordinal)
    return list(connection.execute(query).scalars())


def seed_record(connection: Connection, record: str) -> str:
    """The record of the seed of a candidate's run and task."""
    query = (
        select(RunTask.seed_record)
        .join(
            CandidateRow,
            (CandidateRow.run_id == RunTask.run_id) & (CandidateRow.task == RunTask.task),
        )
        .where(CandidateRow.record == record)
    )
    return connection.execute(query).scalar_one()


def run_row(connection: Connection, run_id: str) -> dict[str, Any]:
    """A run's own row, JSON columns parsed, and its ``seeds``: task -> seed id, in order."""
    row = dict(connection.execute(select(Run).where(Run.id == run_id)).mappings().one())
    for name in ("device_facts", "sandbox", "versions", "options"):
        row[name] = json.loads(row[name])
    seeds = connection.execute(
        select(RunTask.task, CandidateRow.id)
        .join(CandidateRow, CandidateRow.record == RunTask.seed_record)
        .where(RunTask.run_id == run_id)
        .order_by(RunTask.ordinal)
    )
    row["seeds"] = {row[0]: row[1] for row in seeds}
    return row


def _starts(column: Any, prefix: str) -> list[ColumnElement[bool]]:
    """Range conditions that an index answers (LIKE would scan); ids are lower-case ASCII."""
    prefix = prefix.lower()
    return [column >= prefix, column < prefix + "\x7f"] if prefix else []


def _require_text(prefix: str, what: str) -> None:
    """An empty beginning is that of every id: a script whose variable is not set would name one.

    Raises:
        InputError: there is nothing but spaces.
    """
    if not prefix.strip():
        raise InputError(f"the {what} {prefix!r} names none", hint="give its id, or `latest`")


def _only(found: list[str], prefix: str, what: str, hint: str) -> str:
    if not found:
        raise InputError(f"no {what} {prefix!r} in this database", hint=hint)
    if len(found) > 1:
        some = ", ".join(found[:4]) + (", …" if len(found) > 4 else "")
        raise InputError(f"{what} {prefix!r} is ambiguous: {some}", hint="give more of the id")
    return found[0]
