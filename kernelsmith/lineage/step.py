"""One step of the chain: the rows of one transaction, their hashes, the digest before."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from kernelsmith.lineage import records
from kernelsmith.lineage.models import Base, Blob

KEYS = {
    name: [column.name for column in table.primary_key]
    for name, table in Base.metadata.tables.items()
}
NUMBERED = ("runs", "verdicts", "retimings", "events", "model_calls", "reviews", "exports")
"""Tables whose rows have ids that sort by when they were given; each has an index of them."""
NEWEST = " UNION ALL ".join(f"SELECT max(id) AS id FROM {name}" for name in NUMBERED)


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
        query = "SELECT seq, digest FROM steps ORDER BY seq DESC LIMIT 1"
        last = self.connection.exec_driver_sql(query).first()
        self.seq, self.previous = (last.seq + 1, last.digest) if last else (1, "")

    def identity(self) -> str:
        """An id that sorts behind all that were given so far, whatever the wall clock did."""
        query = f"SELECT max(id) FROM ({NEWEST})"
        return records.uuid7(self.connection.exec_driver_sql(query).scalar() or "")

    def add(self, table: type[Base], *rows: Mapping[str, Any]) -> None:
        """Inserts rows of one table, all columns given."""
        name = table.__tablename__
        if rows:
            columns, statement = _insert(name)
            values = [tuple(row[column] for column in columns) for row in rows]
            self.connection.exec_driver_sql(statement, values)
        for row in rows:
            key = [row[column] for column in KEYS[name]]
            self.manifest.append((name, key, records.row_hash(row)))

    def add_blob(self, data: bytes) -> str:
        """Keeps ``data`` unless it is kept already; returns its hash."""
        digest = records.sha256(data)
        query = "SELECT 1 FROM blobs WHERE hash = ?"
        known = self.connection.exec_driver_sql(query, (digest,)).first()
        if known is None:
            self.add(Blob, {"hash": digest, "nbytes": len(data), "zstd": records.compress(data)})
        return digest

    def finish(self) -> None:
        """Writes the step's row, which binds all that was added to every step before it."""
        manifest = records.canonical(self.manifest)
        row = {
            "seq": self.seq,
            "at": self.at,
            "kind": self.kind,
            "run_id": self.run_id,
            "manifest": manifest,
            "digest": records.chain_hash(
                self.previous, self.seq, self.at, self.kind, self.run_id, manifest
            ),
        }
        columns, statement = _insert("steps")
        self.connection.exec_driver_sql(statement, tuple(row[column] for column in columns))


@functools.cache
def _insert(table: str) -> tuple[tuple[str, ...], str]:
    """A table's columns and the text of its INSERT: a step writes several rows, and building a
    statement anew for each costs more than SQLite's own work."""
    columns = tuple(column.name for column in Base.metadata.tables[table].columns)
    names = ", ".join(f'"{column}"' for column in columns)
    marks = ", ".join("?" * len(columns))
    return columns, f'INSERT INTO "{table}" ({names}) VALUES ({marks})'
