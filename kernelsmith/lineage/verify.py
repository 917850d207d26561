"""Finds rows that were edited, deleted or slipped in after they were recorded.

Every step lists its rows with their hashes and carries the digest of the step before. Someone who
rewrites all later steps as well, or cuts off the file's newest steps, leaves a chain that holds in
itself: compare :attr:`Report.head` with one that was noted before to see that too.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, select

from kernelsmith.errors import DatabaseError, EvidenceError, InputError
from kernelsmith.lineage import conversations, manifests, records
from kernelsmith.lineage.models import Base, Blob, CandidateRow, ModelCall, Parent, Step
from kernelsmith.lineage.reviews import has_table
from kernelsmith.lineage.writers import candidate_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it was recorded. ``key`` is the row's primary key."""

    table: str
    key: tuple[Any, ...]
    problem: str
    step: int | None = None

    def line(self) -> str:
        """For people: ``verdicts 019a…: edited (recorded in step 12)``."""
        key = ", ".join(str(part) for part in self.key)
        place = "" if self.step is None else f" (recorded in step {self.step})"
        return f"{self.table} {key}: {self.problem}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``head`` is the digest of the last step: it stands for everything before it."""

    steps: int
    rows: int
    head: str
    findings: tuple[Finding, ...]


def verify(connection: Connection, noted_head: str | None = None) -> Report:
    """Checks the chain of steps, every row against its step, and every blob, record and request
    hash.

    Args:
        noted_head: a head that was noted before, or its first digits, 16 or more: one of the
            steps must have it.

    Raises:
        InputError: ``noted_head`` is no such thing; fewer digits would fit by chance.
    """
    if noted_head is not None and not re.fullmatch(r"[0-9a-f]{16,64}", noted_head):
        raise InputError(
            f"{noted_head!r} is not a head: 16 to 64 of the digits 0-9 and a-f",
            hint="copy the `head` line that `kernelsmith lineage verify` printed",
        )
    findings: list[Finding] = []
    expected: dict[str, dict[tuple[Any, ...], tuple[str, int]]] = {}
    head, steps, noted = "", 0, noted_head is None
    for step in connection.execute(select(Step).order_by(Step.seq)):
        steps += 1
        if step.seq != steps:
            problem = f"steps {steps} to {step.seq - 1} are missing"
            findings.append(Finding(table="steps", key=(steps,), problem=problem))
            steps = step.seq
        elif step.digest != records.chain_hash(
            head, step.seq, step.at, step.kind, step.run_id, step.manifest
        ):
            findings.append(Finding(table="steps", key=(step.seq,), problem="edited"))
        head = step.digest
        noted = noted or head.startswith(noted_head or "")
        for table, key, digest in json.loads(step.manifest):
            expected.setdefault(table, {})[tuple(key)] = (digest, step.seq)
    if not noted:
        problem = "no step has this digest: newer steps were cut off, or all were rewritten"
        findings.append(Finding(table="steps", key=(noted_head,), problem=problem))
    count = 0
    for name, table in Base.metadata.tables.items():
        if name != "steps":
            found, rows = _check_table(connection, table, expected.pop(name, {}))
            findings += found
            count += rows
    findings += _check_blobs(connection)
    findings += _check_records(connection)
    findings += _check_requests(connection)
    return Report(steps=steps, rows=count, head=head, findings=tuple(findings))


def require_intact(connection: Connection) -> None:
    """Refuses to act on a record that was edited behind its back: what follows from it would be
    vouched for by nothing.

    Raises:
        EvidenceError: something is not as it was recorded; the first is named.
    """
    found = verify(connection).findings
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise EvidenceError(
            f"the lineage was edited after it was recorded: {found[0].line()}{more}",
            hint="`kernelsmith lineage verify` lists all; restore the file from a backup",
        )


def _check_table(
    connection: Connection, table: Table, expected: dict[tuple[Any, ...], tuple[str, int]]
) -> tuple[list[Finding], int]:
    keys = [column.name for column in table.primary_key]
    findings, count = [], 0
    is_here = has_table(connection, table.name)  # else of a later schema, or dropped since
    for row in connection.execute(select(table)).mappings() if is_here else ():
        count += 1
        key = tuple(row[name] for name in keys)
        digest, step = expected.pop(key, ("", None))
        if step is None:
            problem = "no step recorded it"
        elif records.row_hash(dict(row)) != digest:
            problem = "edited"
        else:
            continue
        findings.append(Finding(table=table.name, key=key, problem=problem, step=step))
    for key, (_, step) in expected.items():
        findings.append(Finding(table=table.name, key=key, problem="deleted", step=step))
    return findings, count


def _check_blobs(connection: Connection) -> Iterator[Finding]:
    for name, packed in connection.execute(select(Blob.hash, Blob.zstd)):
        try:
            good = records.sha256(records.decompress(packed)) == name
        except DatabaseError:
            good = False
        if not good:
            yield Finding(table="blobs", key=(name,), problem="its bytes do not have its hash")


def _check_records(connection: Connection) -> Iterator[Finding]:
    """A candidate's record must be the hash of its row and of its parents' records."""
    parents: dict[str, list[str]] = {}
    for row in connection.execute(select(Parent).order_by(Parent.record, Parent.ordinal)):
        parents.setdefault(row.record, []).append(row.parent)
    for found in connection.execute(select(CandidateRow)).mappings():
        values: Mapping[str, Any] = {str(name): value for name, value in found.items()}
        record = values["record"]
        if candidate_record(values, parents.get(record, [])) != record:
            problem = "its record is not the hash of its row and its parents' records"
            yield Finding(table="candidates", key=(record,), problem=problem)


def _check_requests(connection: Connection) -> Iterator[Finding]:
    """The pieces of every request must make up the bytes that were sent."""
    rows = connection.execute(
        select(
            ModelCall.id, ModelCall.session_id, ModelCall.manifest, ModelCall.request_sha256
        ).order_by(ModelCall.session_id, ModelCall.step)
    )
    session_id, blob = None, conversations.blobs(connection)
    for row in rows:
        if row.session_id != session_id:  # blobs are shared within a session: read them once
            session_id, blob = row.session_id, conversations.blobs(connection)
        try:
            segments = [(name, start, stop) for name, start, stop in json.loads(row.manifest)]
            manifests.reassemble(segments, row.request_sha256, row.id, blob)
        except (DatabaseError, ValueError, TypeError):
            problem = "its request's pieces do not have its hash"
            yield Finding(table="model_calls", key=(row.id,), problem=problem)
