"""What several tests ask of a lineage."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelsmith.lineage.store import LineageStore
from kernelsmith.lineage.verify import Report, verify


def intact(store: LineageStore) -> Report:
    with store.database.reading() as connection:
        report = verify(connection)
    assert report.findings == ()
    return report


@contextmanager
def files_end_at(nbytes: int) -> Iterator[None]:
    """No file grows beyond so many bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def spoil_page(path: Path) -> None:
    """A page of noise in the middle of a file that was sound."""
    with path.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(bytes(range(1, 255)) * 16)


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
