"""Tables of what people decided about candidates, and of what left for a library."""

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from kernelsmith.lineage.models_base import Base


class ReviewRow(Base):
    """A person's word on a candidate. ``decision``: "approve", "reject", or "undo" (takes back the
    latest that still stands). ``lineage.reviews`` says which decision stands."""

    __tablename__ = "reviews"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    record: Mapped[str] = mapped_column(ForeignKey("candidates.record"))
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    decision: Mapped[str] = mapped_column(String(16))
    reviewer: Mapped[str]
    note: Mapped[str]
    at: Mapped[str]
    __table_args__ = (
        Index("ix_reviews_record", "record", "step"),
        Index("ix_reviews_run", "run_id", "step"),
    )


class ExportRow(Base):
    """An approved candidate was written into a library. ``certificate_hash``: SHA-256 of the
    certificate's bytes."""

    __tablename__ = "exports"
    id: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int]
    record: Mapped[str] = mapped_column(ForeignKey("candidates.record"))
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    task: Mapped[str]
    folder: Mapped[str]
    certificate_hash: Mapped[str]
    at: Mapped[str]
    __table_args__ = (
        Index("ix_exports_record", "record", "step"),
        Index("ix_exports_run", "run_id", "step"),
    )
