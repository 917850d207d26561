"""Tables of the lineage. Every row is written once, in a step, and never changed.

A step is one transaction; its row lists what the transaction wrote, with a hash of each row, and
carries the digest of the step before. ``candidates.record`` hashes a candidate together with the
records of its parents.
"""

from sqlalchemy import ForeignKey, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from kernelsmith.lineage.models_base import Base
from kernelsmith.lineage.models_conversation import (
    ModelAnswer,
    ModelCall,
    SessionEndRow,
    SessionRow,
    Submission,
    ToolResult,
)
from kernelsmith.lineage.models_review import ExportRow, ReviewRow

__all__ = [
    "APPLICATION_ID",
    "HEAD_REVISION",
    "OLDEST_READABLE",
    "Base",
    "Blob",
    "CandidateRow",
    "CheckRow",
    "Event",
    "ExportRow",
    "ModelAnswer",
    "ModelCall",
    "Parent",
    "Retiming",
    "ReviewRow",
    "Run",
    "RunTask",
    "SessionEndRow",
    "SessionRow",
    "Step",
    "Submission",
    "TimingSession",
    "ToolResult",
    "VerdictRow",
]

APPLICATION_ID = 0x6B736D74  # "ksmt", in the header of our SQLite files
HEAD_REVISION = "0003"
OLDEST_READABLE = "0002"  # what came later only added tables


class Step(Base):
    """One transaction. ``manifest``: JSON list of [table, key, row hash]."""

    __tablename__ = "steps"
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[str]
    kind: Mapped[str]
    run_id: Mapped[str]
    manifest: Mapped[str]
    digest: Mapped[str]


class Blob(Base):
    """Bytes by their SHA-256; ``zstd`` holds them compressed."""

    __tablename__ = "blobs"
    hash: Mapped[str] = mapped_column(primary_key=True)
    nbytes: Mapped[int]
    zstd: Mapped[bytes] = mapped_column(LargeBinary)


class Run(Base):
    """A run: what it was asked for and on what it ran. ``secret_seed`` draws hidden inputs and is
    never shown to a proposer."""

    __tablename__ = "runs"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    started_at: Mapped[str]
    proposer: Mapped[str]
    seed: Mapped[int]
    secret_seed: Mapped[str]
    device: Mapped[str]
    device_facts: Mapped[str]
    sandbox: Mapped[str]
    versions: Mapped[str]
    options: Mapped[str]


class RunTask(Base):
    """A task of a run and its seed."""

    __tablename__ = "run_tasks"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    task: Mapped[str]
    seed_record: Mapped[str] = mapped_column(ForeignKey("candidates.record"))


class CandidateRow(Base):
    """A candidate of a run (a task's seed is its first). ``position`` counts within the
    run's task."""

    __tablename__ = "candidates"
    record: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    id: Mapped[str]
    task: Mapped[str]
    position: Mapped[int]
    author: Mapped[str]
    changes: Mapped[str]
    note: Mapped[str]
    source: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))
    normal_hash: Mapped[str]
    proposed_at: Mapped[str]
    __table_args__ = (
        UniqueConstraint("run_id", "task", "id"),
        Index("ix_candidates_order", "run_id", "task", "position"),
        Index("ix_candidates_step", "run_id", "step"),
        Index("ix_candidates_id", "id"),
    )


class Parent(Base):
    """A candidate's parent, by the parent's record hash."""

    __tablename__ = "parents"
    record: Mapped[str] = mapped_column(ForeignKey("candidates.record"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    parent: Mapped[str] = mapped_column(ForeignKey("candidates.record"))
    __table_args__ = (Index("ix_parents_parent", "parent"),)


class VerdictRow(Base):
    """What the gate decided. ``gain_vs_seed`` is the product of gains along the incumbents, an
    estimate for ranking; ``elapsed_s`` the run's active time when it was recorded."""

    __tablename__ = "verdicts"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    record: Mapped[str] = mapped_column(ForeignKey("candidates.record"), unique=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    task: Mapped[str]
    status: Mapped[str] = mapped_column(String(16))
    message: Mapped[str]
    epoch: Mapped[str]
    device: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))
    gain: Mapped[str | None]
    gain_vs_seed: Mapped[float | None]
    unchecked: Mapped[str]
    reached_confirm: Mapped[int]
    seconds: Mapped[float]
    elapsed_s: Mapped[float]
    judged_at: Mapped[str]
    __table_args__ = (
        Index("ix_verdicts_tally", "run_id", "task", "status", "step"),
        Index("ix_verdicts_step", "run_id", "step"),
    )


class CheckRow(Base):
    """One check of a verdict with its evidence as JSON."""

    __tablename__ = "checks"
    verdict_id: Mapped[str] = mapped_column(ForeignKey("verdicts.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    status: Mapped[str]
    seconds: Mapped[float]
    message: Mapped[str]
    evidence: Mapped[str]


class Retiming(Base):
    """An incumbent timed against its seed at the end of a run."""

    __tablename__ = "retimings"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    record: Mapped[str] = mapped_column(ForeignKey("candidates.record"))
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    task: Mapped[str]
    holds: Mapped[int]
    gain: Mapped[str]
    evidence: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))
    elapsed_s: Mapped[float]
    timed_at: Mapped[str]
    __table_args__ = (
        Index("ix_retimings_run", "run_id", "task", "step"),
        Index("ix_retimings_record", "record"),
    )


class TimingSession(Base):
    """Raw samples of one timing session of a verdict, as JSON in a blob."""

    __tablename__ = "timing_sessions"
    verdict_id: Mapped[str] = mapped_column(ForeignKey("verdicts.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    samples: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))


class Event(Base):
    """Anything else that happened in a run: start, resume, stop, duplicates, failures, end."""

    __tablename__ = "events"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    at: Mapped[str]
    kind: Mapped[str]
    task: Mapped[str]
    elapsed_s: Mapped[float]
    payload: Mapped[str]
    __table_args__ = (
        Index("ix_events_kind", "run_id", "kind", "task", "step"),
        Index("ix_events_step", "run_id", "step"),
    )
