"""First tables: runs, candidates, verdicts with their checks, timings, events and the chain."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates every table of the first schema."""
    _chain()
    _runs()
    _candidates()
    _verdicts()
    _timings()
    _events()


def _text(
    name: str, target: str | None = None, *, null: bool = False, key: bool = False
) -> sa.Column[str]:
    refers = [sa.ForeignKey(target)] if target else []
    return sa.Column(name, sa.String(), *refers, nullable=null, primary_key=key)


def _integer(name: str, *, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, primary_key=key, autoincrement=False)


def _real(name: str, *, null: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=null)


def _chain() -> None:
    op.create_table(
        "steps",
        _integer("seq", key=True),
        *(_text(name) for name in ("at", "kind", "run_id", "manifest", "digest")),
    )
    op.create_table(
        "blobs",
        _text("hash", key=True),
        _integer("nbytes"),
        sa.Column("zstd", sa.LargeBinary(), nullable=False),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        _text("id", key=True),
        _integer("step"),
        _text("started_at"),
        _text("proposer"),
        _integer("seed"),
        *(
            _text(name)
            for name in ("secret_seed", "device", "device_facts", "sandbox", "versions", "options")
        ),
    )


def _candidates() -> None:
    op.create_table(
        "candidates",
        _text("record", key=True),
        _integer("step"),
        _text("run_id", "runs.id"),
        _text("id"),
        _text("task"),
        _integer("position"),
        *(_text(name) for name in ("author", "changes", "note")),
        _text("source", "blobs.hash"),
        _text("normal_hash"),
        _text("proposed_at"),
        sa.UniqueConstraint("run_id", "task", "id"),
    )
    op.create_index("ix_candidates_id", "candidates", ["id"])
    op.create_index("ix_candidates_step", "candidates", ["run_id", "step"])
    op.create_index("ix_candidates_order", "candidates", ["run_id", "task", "position"])
    op.create_table(
        "parents",
        _text("record", "candidates.record", key=True),
        _integer("ordinal", key=True),
        _text("parent", "candidates.record"),
    )
    op.create_index("ix_parents_parent", "parents", ["parent"])
    op.create_table(
        "run_tasks",
        _text("run_id", "runs.id", key=True),
        _integer("ordinal", key=True),
        _text("task"),
        _text("seed_record", "candidates.record"),
    )


def _verdicts() -> None:
    op.create_table(
        "verdicts",
        _text("id", key=True),
        _integer("step"),
        sa.Column("record", sa.String(), sa.ForeignKey("candidates.record"), nullable=False),
        _text("run_id", "runs.id"),
        _text("task"),
        sa.Column("status", sa.String(16), nullable=False),
        _text("message"),
        _text("epoch"),
        _text("device", "blobs.hash"),
        _text("gain", null=True),
        _real("gain_vs_seed", null=True),
        _text("unchecked"),
        _integer("reached_confirm"),
        _real("seconds"),
        _real("elapsed_s"),
        _text("judged_at"),
        sa.UniqueConstraint("record"),
    )
    op.create_index("ix_verdicts_step", "verdicts", ["run_id", "step"])
    op.create_index("ix_verdicts_tally", "verdicts", ["run_id", "task", "status", "step"])
    op.create_table(
        "checks",
        _text("verdict_id", "verdicts.id", key=True),
        _integer("ordinal", key=True),
        _text("name"),
        _text("status"),
        _real("seconds"),
        _text("message"),
        _text("evidence"),
    )


def _timings() -> None:
    op.create_table(
        "timing_sessions",
        _text("verdict_id", "verdicts.id", key=True),
        _integer("ordinal", key=True),
        _text("samples", "blobs.hash"),
    )
    op.create_table(
        "retimings",
        _text("id", key=True),
        _integer("step"),
        _text("record", "candidates.record"),
        _text("run_id", "runs.id"),
        _text("task"),
        _integer("holds"),
        _text("gain"),
        _text("evidence", "blobs.hash"),
        _real("elapsed_s"),
        _text("timed_at"),
    )
    op.create_index("ix_retimings_record", "retimings", ["record"])
    op.create_index("ix_retimings_run", "retimings", ["run_id", "task", "step"])


def _events() -> None:
    op.create_table(
        "events",
        _text("id", key=True),
        _integer("step"),
        _text("run_id", "runs.id"),
        _text("at"),
        _text("kind"),
        _text("task"),
        _real("elapsed_s"),
        _text("payload"),
    )
    op.create_index("ix_events_kind", "events", ["run_id", "kind", "task", "step"])
    op.create_index("ix_events_step", "events", ["run_id", "step"])
