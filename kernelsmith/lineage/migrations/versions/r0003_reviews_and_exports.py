"""What people decided about candidates, and what was exported."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds tables; those that are there stay as they are, so their readers go on."""
    op.create_table(
        "reviews",
        _text("id", key=True),
        sa.Column("step", sa.Integer(), nullable=False),
        _text("record", "candidates.record"),
        _text("run_id", "runs.id"),
        sa.Column("decision", sa.String(16), nullable=False),
        *(_text(name) for name in ("reviewer", "note", "at")),
    )
    op.create_index("ix_reviews_record", "reviews", ["record", "step"])
    op.create_index("ix_reviews_run", "reviews", ["run_id", "step"])
    op.create_table(
        "exports",
        _text("id", key=True),
        sa.Column("step", sa.Integer(), nullable=False),
        _text("record", "candidates.record"),
        _text("run_id", "runs.id"),
        *(_text(name) for name in ("task", "folder", "certificate_hash", "at")),
    )
    op.create_index("ix_exports_record", "exports", ["record", "step"])
    op.create_index("ix_exports_run", "exports", ["run_id", "step"])


def _text(name: str, target: str | None = None, *, key: bool = False) -> sa.Column[str]:
    refers = [sa.ForeignKey(target)] if target else []
    return sa.Column(name, sa.String(), *refers, nullable=False, primary_key=key)
