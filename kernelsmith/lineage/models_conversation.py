"""Tables of conversations with a model: sessions, calls with their answers, tool results, ends.

``model_calls.run_id`` and ``.session_id`` refer to nothing: a foreign client that talks through
``kernelsmith proxy`` names both as it likes.
"""

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelsmith.lineage.models_base import Base


class SessionRow(Base):
    """A conversation about one task. ``prefix`` and ``opening`` begin all of its requests."""

    __tablename__ = "sessions"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    task: Mapped[str]
    ordinal: Mapped[int]
    parent: Mapped[str]
    model: Mapped[str]
    prompt: Mapped[str]
    prefix: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))
    opening: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))
    facts: Mapped[str]
    started_at: Mapped[str]
    __table_args__ = (Index("ix_sessions_run", "run_id", "step"),)


class ModelCall(Base):
    """A request, recorded before it goes out. ``manifest``: JSON list of [blob, start, stop], the
    pieces that make up the body; ``request_sha256`` and ``request_bytes`` are the whole body's."""

    __tablename__ = "model_calls"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    run_id: Mapped[str]
    session_id: Mapped[str]
    turn: Mapped[int | None]
    attempt: Mapped[int | None]
    method: Mapped[str]
    path: Mapped[str]
    headers: Mapped[str]
    dropped: Mapped[str]
    manifest: Mapped[str]
    request_sha256: Mapped[str]
    request_bytes: Mapped[int]
    sent_at: Mapped[str]
    __table_args__ = (
        Index("ix_model_calls_run", "run_id", "step"),
        Index("ix_model_calls_session", "session_id", "run_id", "step"),
    )


class ModelAnswer(Base):
    """What came back for a call; ``body`` as received. Token counts are the server's."""

    __tablename__ = "model_answers"
    call_id: Mapped[str] = mapped_column(ForeignKey("model_calls.id"), primary_key=True)
    step: Mapped[int]
    status: Mapped[int | None]
    headers: Mapped[str]
    body: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))
    complete: Mapped[int]
    delivered_bytes: Mapped[int]
    error: Mapped[str]
    first_byte_s: Mapped[float | None]
    seconds: Mapped[float]
    message_id: Mapped[str]
    model: Mapped[str]
    stop_reason: Mapped[str]
    input_tokens: Mapped[int]
    output_tokens: Mapped[int]
    cache_read_tokens: Mapped[int]
    cache_write_5m_tokens: Mapped[int]
    cache_write_1h_tokens: Mapped[int]
    answered_at: Mapped[str]


class ToolResult(Base):
    """A tool call's result; ``text`` is what the model was given."""

    __tablename__ = "tool_results"
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"), primary_key=True)
    turn: Mapped[int] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int]
    tool_use_id: Mapped[str]
    name: Mapped[str]
    text: Mapped[str] = mapped_column(ForeignKey("blobs.hash"))
    is_error: Mapped[int]
    seconds: Mapped[float]
    facts: Mapped[str]
    done_at: Mapped[str]


class SessionEndRow(Base):
    """A session ended for good."""

    __tablename__ = "session_ends"
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"), primary_key=True)
    step: Mapped[int]
    reason: Mapped[str]
    message: Mapped[str]
    ended_at: Mapped[str]


class Submission(Base):
    """The tool call that submitted a candidate."""

    __tablename__ = "submissions"
    record: Mapped[str] = mapped_column(ForeignKey("candidates.record"), primary_key=True)
    session_id: Mapped[str]
    tool_use_id: Mapped[str]
    __table_args__ = (Index("ix_submissions_session", "session_id"),)
