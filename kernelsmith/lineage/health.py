"""Whether a lineage is well, and a verified copy of it: what ``doctor --db`` does."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from kernelsmith.durable import sync_folder
from kernelsmith.errors import DatabaseError, EvidenceError, InputError, StorageError
from kernelsmith.lineage import database, identity
from kernelsmith.lineage.identity import RESTORE
from kernelsmith.lineage.models import HEAD_REVISION
from kernelsmith.lineage.verify import Report, verify
from kernelsmith.watch import room

MAX_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. ``exit_code``: what it means for the command; 0: it is well."""

    name: str
    detail: str
    hint: str = ""
    exit_code: int = 0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def sound(self) -> bool:
        """Whether it leaves what is on record as it was written."""
        return self.exit_code not in (DatabaseError.exit_code, EvidenceError.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """``head``: digest of the last step, which stands for everything before it."""

    path: Path
    head: str
    steps: int
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A copy that was opened again and found to hold the same record."""

    path: Path
    nbytes: int
    head: str


def examine(path: Path, busy_timeout_s: float = database.BUSY_TIMEOUT_S) -> Health:
    """Reads all of a lineage, writes nothing.

    Raises:
        DatabaseError: there is none, it is not ours, newer, older, or cannot be opened at all.
    """
    opened = database.open_for_reading(path, busy_timeout_s)
    report = None
    try:
        checks = [_structure(database.driver_of(opened.connection))]
        if checks[0].ok:
            with opened.reading() as connection:
                report = verify(connection)
                checks += [_schema(connection), _keys(connection), *_record(report)]
    finally:
        opened.close()
    checks.append(_space(opened.path))
    head, steps = (report.head, report.steps) if report else ("", 0)
    return Health(path=opened.path, head=head, steps=steps, checks=tuple(checks))


def back_up(path: Path, to: Path | None = None) -> Backup:
    """Copies a lineage, also one that a run is writing to, through SQLite's own interface.

    Args:
        to: the copy's name; by default the file's with ``.backup-`` and the time.

    Raises:
        InputError: there is such a file already.
        StorageError: the copy cannot be written.
        EvidenceError: the copy does not hold the same record.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = (to or path.with_name(f"{path.name}.backup-{stamp}")).expanduser()
    if target.exists():
        raise InputError(f"{target} is there already", hint="name another file with --to")
    database.can_create(target)
    partial = target.with_name(f"{target.name}.partial")
    opened = database.open_for_reading(path)
    try:
        _copy(opened, partial)
        backup = _verified(opened, partial, target)
        os.rename(partial, target)
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError(
            f"cannot write {target}: {error.strerror or error}", hint="name another disk with --to"
        ) from error
    finally:
        opened.close()
        for left in (partial, partial.with_name(partial.name + "-journal")):
            with suppress(OSError):
                left.unlink()
    return backup


def _copy(opened: database.Database, partial: Path) -> None:
    source = database.driver_of(opened.connection)
    with suppress(FileNotFoundError):
        partial.unlink()  # of a copy that was cut off
    with (
        database.explained(partial),
        closing(identity.connect(partial, "mode=rwc", 0.0)) as copy,
    ):
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, which opens from a read-only disk


def _verified(opened: database.Database, partial: Path, target: Path) -> Backup:
    """The source may have gone on meanwhile: what the copy has must be a beginning of it."""
    copied = examine(partial)
    bad = next((each for each in copied.checks if not each.sound), None)
    if bad is not None:
        raise EvidenceError(
            f"the copy of {opened.path} is not sound: {bad.detail}",
            hint="look at the original: `kernelsmith doctor --db`; is the disk of the copy sound?",
        )
    with opened.reading() as connection:
        kept = connection.exec_driver_sql(
            "SELECT digest FROM steps WHERE seq = ?", (copied.steps,)
        ).scalar()
    if (kept or "") != copied.head:
        raise EvidenceError(f"the copy of {opened.path} ends in another step than the original")
    return Backup(path=target, nbytes=partial.stat().st_size, head=copied.head)


def _structure(driver: sqlite3.Connection) -> Check:
    """Every page and index, by SQLite; outside a transaction, which damage would not let end."""
    try:
        rows = driver.execute(f"PRAGMA integrity_check({MAX_SHOWN})").fetchall()
        pages = driver.execute("PRAGMA page_count").fetchone()[0]
    except sqlite3.DatabaseError as error:  # too much damage to list
        rows, pages = [(str(error),)], 0
    if rows == [("ok",)]:
        return Check(name="structure", detail=f"{pages} pages, integrity_check ok")
    detail = " ".join("; ".join(row[0] for row in rows).split())
    return Check(name="structure", detail=detail, hint=RESTORE, exit_code=2)


def _schema(connection: Connection) -> Check:
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
    newest = "this version's" if revision == HEAD_REVISION else "older; the next run upgrades it"
    return Check(name="schema", detail=f"{revision}, {newest}")


def _keys(connection: Connection) -> Check:
    rows = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if not rows:
        return Check(name="keys", detail="every row that is referred to is there")
    first = rows[0]
    detail = f"{len(rows)} rows refer to what is not there, first {first[0]} row {first[1]}"
    return Check(name="keys", detail=detail, hint=RESTORE, exit_code=2)


def _record(report: Report) -> list[Check]:
    """The chain of steps with all rows, and the bytes of every blob."""
    found = []
    of_blobs = [each for each in report.findings if each.table == "blobs"]
    others = [each for each in report.findings if each.table != "blobs"]
    good = f"{report.steps} steps, {report.rows} rows as recorded, head {report.head[:16]}"
    hint = "`kernelsmith lineage verify` lists all; restore a backup"
    for name, findings, well in (
        ("record", others, good),
        ("blobs", of_blobs, "every blob has the bytes of its hash"),
    ):
        if not findings:
            found.append(Check(name=name, detail=well))
            continue
        detail = "; ".join(each.line() for each in findings[:MAX_SHOWN])
        if len(findings) > MAX_SHOWN:
            detail += f"; and {len(findings) - MAX_SHOWN} more"
        found.append(Check(name=name, detail=detail, hint=hint, exit_code=5))
    return found


def _space(path: Path) -> Check:
    free = shutil.disk_usage(path.absolute().parent).free
    size = path.stat().st_size
    detail = f"{free / 2**20:,.0f} MiB free, the database has {size / 2**20:,.1f} MiB"
    if free >= max(room.DATABASE_FLOOR_BYTES, size):
        return Check(name="space", detail=detail)
    return Check(
        name="space", detail=detail, hint="free some disk space before a night", exit_code=4
    )
