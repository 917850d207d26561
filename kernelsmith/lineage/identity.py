"""Whose file it is, found without writing to it: SQLite, once it has a file open for writing, rolls
back a journal and folds in a log, whoever's they are."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from kernelsmith.errors import DatabaseError
from kernelsmith.lineage.models import APPLICATION_ID, HEAD_REVISION

OTHER_HINT = "name another file with --db or KERNELSMITH_DB"
AS_IT_LIES = "mode=ro&immutable=1"
"""Nothing is made beside the file, no lock is taken; what lies in its log is not seen."""
RESTORE = "restore a backup, or recover rows with `sqlite3 FILE .recover`"
MOST_LOOKS = 10


def refuse_strangers(path: Path, busy_timeout_s: float, *, whole: bool = False) -> None:
    """Refuses an existing file that is no lineage this version may open.

    Args:
        whole: also refuse a file whose structure is damaged: all of it is read.

    Raises:
        DatabaseError: no plain file, no SQLite database, another program's or a newer version's.
        sqlite3.Error: it is damaged, or locked.
    """
    if path.is_dir():
        raise DatabaseError(f"database {path} is a folder", hint=OTHER_HINT)
    if not path.is_file():
        raise DatabaseError(f"database {path} is not a plain file", hint=OTHER_HINT)
    if not os.access(path, os.R_OK):
        raise DatabaseError(
            f"cannot read database {path}: permission denied",
            hint="give yourself read and write access to it, or " + OTHER_HINT,
        )
    if path.stat().st_size == 0:
        return  # SQLite's own empty database: there is nothing to harm
    for looks in range(1, MOST_LOOKS + 1):
        seen = _stamps(path)
        try:
            _look(path, busy_timeout_s, whole)
            return
        except (DatabaseError, sqlite3.DatabaseError) as error:
            # Without a lock, and while somebody folded a log in: the file never was as it looked.
            locked = primary_code(error) == sqlite3.SQLITE_BUSY
            if locked or looks == MOST_LOOKS or _stamps(path) == seen:
                raise


def _look(path: Path, busy_timeout_s: float, whole: bool) -> None:
    """Raises what :func:`refuse_strangers` does of a plain file that is not empty."""
    # By SQLite alone: a file that this process opens and closes by itself loses the locks that
    # SQLite holds on it in this process. With its log, if there is one: a checkpoint that was cut
    # off leaves the file half new.
    mode = "mode=ro" if has_bytes(path, "-wal") else AS_IT_LIES
    journal = has_bytes(path, "-journal")
    try:
        with closing(connect(path, mode, busy_timeout_s)) as connection:
            if journal:
                _refuse_another(path, connection)
                return  # ours, killed while it was made: only a writer can roll it back
            revision_of(path, connection)
            found = connection.execute("PRAGMA quick_check(1)").fetchone() if whole else ("ok",)
            if found[0] != "ok":
                raise damaged(path, " ".join(found[0].split()))
    except sqlite3.OperationalError as error:
        # No index can be made beside its log here; whoever opens it for use says so.
        if primary_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise


def revision_of(path: Path, connection: sqlite3.Connection) -> str | None:
    """The schema's revision; None while there is no table.

    Raises:
        DatabaseError: another program's database, or a newer version's.
    """
    if _refuse_another(path, connection) == 0:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    revision = str(row[0]) if row else ""
    if revision > HEAD_REVISION:
        raise DatabaseError(
            f"database {path} has schema {revision}, newer than this version's {HEAD_REVISION}",
            hint="upgrade kernelsmith",
        )
    return revision


def connect(path: Path, mode: str, busy_timeout_s: float) -> sqlite3.Connection:
    """A plain connection. ``mode``: the URI's query, such as "mode=rw". No transaction is begun
    for anybody: we say BEGIN ourselves, so that DDL is transactional too."""
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    return sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)


def has_bytes(path: Path, suffix: str) -> bool:
    """Whether SQLite's file beside the database is there and holds something."""
    try:
        return path.with_name(path.name + suffix).stat().st_size > 0
    except OSError:
        return False


def primary_code(error: BaseException | None) -> int:
    """SQLite's result code without its details; 0 of anything else."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _stamps(path: Path) -> list[tuple[int, int, int]]:
    """What is another one after the file or its log was written."""
    found = []
    for each in (path, path.with_name(path.name + "-wal")):
        with suppress(FileNotFoundError):
            at = each.stat()
            found.append((at.st_ino, at.st_size, at.st_mtime_ns))
    return found


def _refuse_another(path: Path, connection: sqlite3.Connection) -> int:
    """How many tables there are; 0 of a file that nobody has used yet.

    Raises:
        DatabaseError: another program's database.
    """
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and (application, tables) != (0, 0):
        raise DatabaseError(
            f"{path} is another program's database (application id {application})", hint=OTHER_HINT
        )
    return int(tables)


def damaged(path: Path, how: str) -> DatabaseError:
    """The error for a file that is not as SQLite or we wrote it."""
    return DatabaseError(
        f"database {path} is damaged: {how}",
        hint=f"`kernelsmith doctor --db {path}` looks closer; {RESTORE}",
    )
