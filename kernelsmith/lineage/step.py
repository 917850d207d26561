"""One step of the chain: the rows of one transaction, their hashes, the digest before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, insert, select

from kernelsmith.lineage import records
from kernelsmith.lineage.models import Base, Blob, Step

KEYS = {
    name: [column.name for column in table.primary_key]
    for name, table in Base.metadata.tables.items()
}


@dataclass(slots=True, kw_only=True)
class StepWriter:
    """Inserts rows and remembers what it inserted; ``finish`` adds the step's own row.

    Use it inside one transaction that holds the write lock: ``seq`` follows the last step's.
    """

    connection: Connection
    kind: str
    run_id: str
    at: str = field(default_factory=records.utc_now)
    seq: int = field(init=False)
    previous: str = field(init=False)
    manifest: list[tuple[str, list[Any], str]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        last = self.connection.execute(
            select(Step.seq, Step.digest).order_by(Step.seq.desc()).limit(1)
        ).first()
        self.seq, self.previous = (last.seq + 1, last.digest) if last else (1, "")

    def add(self, table: type[Base], *rows: Mapping[str, Any]) -> None:
        """Inserts rows of one table."""
        if rows:
            self.connection.execute(insert(table), rows)
        for row in rows:
            key = [row[name] for name in KEYS[table.__tablename__]]
            self.manifest.append((table.__tablename__, key, records.row_hash(row)))

    def add_blob(self, data: bytes) -> str:
        """Keeps ``data`` unless it is kept already; returns its hash."""
        digest = records.sha256(data)
        known = self.connection.execute(select(Blob.hash).where(Blob.hash == digest)).first()
        if known is None:
            self.add(Blob, {"hash": digest, "nbytes": len(data), "zstd": records.compress(data)})
        return digest

    def finish(self) -> None:
        """Writes the step's row, which binds all that was added to every step before it."""
        manifest = records.canonical(self.manifest)
        self.connection.execute(
            insert(Step),
            {
                "seq": self.seq,
                "at": self.at,
                "kind": self.kind,
                "run_id": self.run_id,
                "manifest": manifest,
                "digest": records.chain_hash(
                    self.previous, self.seq, self.at, self.kind, self.run_id, manifest
                ),
            },
        )
