"""What several tests ask of a lineage."""

import sqlite3
from pathlib import Path

from kernelsmith.lineage.store import LineageStore
from kernelsmith.lineage.verify import Report, verify


def intact(store: LineageStore) -> Report:
    with store.database.reading() as connection:
        report = verify(connection)
    assert report.findings == ()
    return report


def counted(path: Path, table: str) -> int:
    plain = sqlite3.connect(path)
    (count,) = plain.execute(f"SELECT count(*) FROM {table}").fetchone()
    plain.close()
    return int(count)


def counted_bytes(path: Path) -> int:
    plain = sqlite3.connect(path)
    (total,) = plain.execute("SELECT coalesce(sum(nbytes), 0) FROM blobs").fetchone()
    plain.close()
    return int(total)
