"""Conversations with a model: sessions, calls, answers, tool results, ends, submissions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds tables; those of the first schema stay as they are."""
    _sessions()
    _calls()
    _answers()
    _tools()
    op.create_table(
        "submissions",
        _text("record", "candidates.record", key=True),
        _text("session_id"),
        _text("tool_use_id"),
    )
    op.create_index("ix_submissions_session", "submissions", ["session_id"])


def _text(name: str, target: str | None = None, *, key: bool = False) -> sa.Column[str]:
    refers = [sa.ForeignKey(target)] if target else []
    return sa.Column(name, sa.String(), *refers, nullable=False, primary_key=key)


def _integer(name: str, *, null: bool = False, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=null, primary_key=key, autoincrement=False)


def _real(name: str, *, null: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=null)


def _sessions() -> None:
    op.create_table(
        "sessions",
        _text("id", key=True),
        _integer("step"),
        _text("run_id", "runs.id"),
        _text("task"),
        _integer("ordinal"),
        *(_text(name) for name in ("parent", "model", "prompt")),
        _text("prefix", "blobs.hash"),
        _text("opening", "blobs.hash"),
        _text("facts"),
        _text("started_at"),
    )
    op.create_index("ix_sessions_run", "sessions", ["run_id", "step"])


def _calls() -> None:
    op.create_table(
        "model_calls",
        _text("id", key=True),
        _integer("step"),
        _text("run_id"),
        _text("session_id"),
        _integer("turn", null=True),
        _integer("attempt", null=True),
        *(_text(name) for name in ("method", "path", "headers", "dropped", "manifest")),
        _text("request_sha256"),
        _integer("request_bytes"),
        _text("sent_at"),
    )
    op.create_index("ix_model_calls_run", "model_calls", ["run_id", "step"])
    op.create_index("ix_model_calls_session", "model_calls", ["session_id", "run_id", "step"])


def _answers() -> None:
    op.create_table(
        "model_answers",
        _text("call_id", "model_calls.id", key=True),
        _integer("step"),
        _integer("status", null=True),
        _text("headers"),
        _text("body", "blobs.hash"),
        _integer("complete"),
        _integer("delivered_bytes"),
        _text("error"),
        _real("first_byte_s", null=True),
        _real("seconds"),
        *(_text(name) for name in ("message_id", "model", "stop_reason")),
        _integer("input_tokens"),
        _integer("output_tokens"),
        _integer("cache_read_tokens"),
        _integer("cache_write_5m_tokens"),
        _integer("cache_write_1h_tokens"),
        _text("answered_at"),
    )


def _tools() -> None:
    op.create_table(
        "tool_results",
        _text("session_id", "sessions.id", key=True),
        _integer("turn", key=True),
        _integer("ordinal", key=True),
        _integer("step"),
        _text("tool_use_id"),
        _text("name"),
        _text("text", "blobs.hash"),
        _integer("is_error"),
        _real("seconds"),
        _text("facts"),
        _text("done_at"),
    )
    op.create_table(
        "session_ends",
        _text("session_id", "sessions.id", key=True),
        _integer("step"),
        *(_text(name) for name in ("reason", "message", "ended_at")),
    )
