"""Opening, creating and upgrading ``runs.db``; what SQLite's errors mean to a person."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from kernelsmith.errors import DatabaseError, KernelsmithError, StorageError
from kernelsmith.lineage.models import APPLICATION_ID, HEAD_REVISION, OLDEST_READABLE

BUSY_TIMEOUT_S = 30.0
_OTHER_HINT = "name another file with --db or KERNELSMITH_DB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One open connection. Close it: the last one out folds the WAL into the file."""

    path: Path
    connection: Connection
    writable: bool

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All or nothing; takes SQLite's write lock at once.

        Raises:
            DatabaseError, StorageError: as :func:`explain` says.
        """
        self.connection.info["begin"] = "BEGIN IMMEDIATE"
        with explained(self.path), self.connection.begin():
            yield self.connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view; takes no lock that a writer would wait for."""
        self.connection.info["begin"] = "BEGIN"
        with explained(self.path), self.connection.begin():
            yield self.connection

    def require_writable(self) -> None:
        """Writes one page, as it was: a lock or a full disk shows now and not after hours.

        Raises:
            DatabaseError, StorageError: as :func:`explain` says.
        """
        with self.transaction() as connection:
            version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            connection.exec_driver_sql(f"PRAGMA user_version={version}")

    def close(self) -> None:
        """Checkpoints and closes; a full disk here loses nothing, so it is not an error."""
        if self.writable:
            with suppress(DBAPIError, sqlite3.Error):
                _pragma(self.connection, "wal_checkpoint(TRUNCATE)")
        engine = self.connection.engine
        self.connection.close()
        engine.dispose()


def open_for_writing(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Database:
    """Opens the lineage, creating or upgrading it.

    Raises:
        DatabaseError: locked, foreign, corrupt, newer, read-only, or its folder is missing.
        StorageError: disk full.
    """
    path = path.expanduser()
    if not path.exists():
        can_create(path)
    if path.is_dir():
        raise DatabaseError(f"database {path} is a folder", hint=_OTHER_HINT)
    with explained(path):
        connection = _connect(path, "mode=rwc", busy_timeout_s)
        try:
            state = _identify(path, connection)
            _pragma(connection, "journal_mode=WAL")
            _pragma(connection, "synchronous=FULL")
            if state != HEAD_REVISION:
                _migrate(path, connection)
        except BaseException:
            connection.close()
            raise
    return Database(path=path, connection=connection, writable=True)


def can_create(path: Path) -> None:
    """Asks for a place where a lineage could be made, without making one.

    Raises:
        DatabaseError: the folder is missing or cannot be written.
    """
    folder = path.expanduser().absolute().parent
    if not folder.is_dir():
        raise DatabaseError(f"database {path}: no folder {folder}", hint=_OTHER_HINT)
    if not os.access(folder, os.W_OK):
        raise DatabaseError(
            f"database {path}: the folder {folder} is read-only",
            hint="give yourself write access to the folder, or " + _OTHER_HINT,
        )


def can_write(path: Path) -> None:
    """Asks whether the lineage that is there, and the folder of its log, can be written.

    Raises:
        DatabaseError: one of them cannot.
    """
    can_create(path)
    if not os.access(path.expanduser(), os.W_OK):
        raise DatabaseError(
            f"database {path} is read-only",
            hint="give yourself write access to the file, or " + _OTHER_HINT,
        )


def open_for_reading(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Database:
    """Opens an existing lineage; writes nothing and never creates one.

    Raises:
        DatabaseError: as for writing, and when there is none.
    """
    path = path.expanduser()
    if not path.exists():
        raise DatabaseError(
            f"no database at {path}", hint="`kernelsmith run TASK` makes one; or " + _OTHER_HINT
        )
    if path.is_dir():
        raise DatabaseError(f"database {path} is a folder", hint=_OTHER_HINT)
    with explained(path):
        connection, state = _open_readable(path, busy_timeout_s)
    if state is None:
        connection.close()
        raise DatabaseError(f"database {path} holds no runs", hint="`kernelsmith run TASK` first")
    if state < OLDEST_READABLE:
        connection.close()
        raise DatabaseError(
            f"database {path} has schema {state}, this version reads {OLDEST_READABLE} "
            f"to {HEAD_REVISION}",
            hint="the next `kernelsmith run` or `resume` on it upgrades it",
        )
    return Database(path=path, connection=connection, writable=False)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into the project's, naming the file and how to mend it."""
    try:
        yield
    except DBAPIError as error:
        raise explain(path, error.orig) from error
    except sqlite3.Error as error:
        raise explain(path, error) from error


def explain(path: Path, error: BaseException | None) -> KernelsmithError:
    """The project's error for one of SQLite's, by its primary result code."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseError(
            f"database {path} is locked by another program",
            hint="close the program that holds it, then try again",
        )
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StorageError(
            f"cannot write database {path}: {error}",
            hint="free some disk space; all that was recorded is safe",
        )
    if code == sqlite3.SQLITE_NOTADB:
        return DatabaseError(f"{path} is not a SQLite database", hint=_OTHER_HINT)
    if code == sqlite3.SQLITE_CORRUPT:
        return DatabaseError(
            f"database {path} is damaged: {error}",
            hint="restore it from a backup, or recover rows with `sqlite3 FILE .recover`",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return DatabaseError(
            f"cannot write in {path.parent.absolute()} for database {path.name}: {error}",
            hint="give yourself write access to the folder, or " + _OTHER_HINT,
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return DatabaseError(
            f"database {path} already holds this record, or lacks one it refers to: {error}",
            hint="is another kernelsmith writing the same run? `kernelsmith lineage verify` checks",
        )
    return DatabaseError(f"database {path}: {error}", hint="`kernelsmith lineage verify` checks it")


def _connect(path: Path, mode: str, busy_timeout_s: float) -> Connection:
    uri = f"file:{quote(str(path.absolute()))}?{mode}"

    def connect() -> sqlite3.Connection:
        # isolation_level None: we say BEGIN ourselves, so that DDL is transactional too.
        return sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool)

    def emit_begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.info.get("begin", "BEGIN"))

    event.listen(engine, "begin", emit_begin)
    connection = engine.connect()
    _pragma(connection, "foreign_keys=ON")
    return connection


def _pragma(connection: Connection, text: str) -> Any:
    """Runs a PRAGMA outside any transaction (``exec_driver_sql`` would begin one)."""
    driver = connection.connection.driver_connection
    if driver is None:
        raise DatabaseError("the database connection is closed")
    row = driver.execute(f"PRAGMA {text}").fetchone()
    return row[0] if row else None


def _identify(path: Path, connection: Connection) -> str | None:
    """The file's schema revision; None when it is empty.

    Raises:
        DatabaseError: another program's database, or a newer kernelsmith's.
    """
    driver = connection.connection.driver_connection
    if driver is None:
        raise DatabaseError("the database connection is closed")
    tables = driver.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    ours = driver.execute("PRAGMA application_id").fetchone()[0]
    if tables == 0 and ours == 0:
        return None
    if ours != APPLICATION_ID:
        raise DatabaseError(
            f"{path} is another program's database (application id {ours})", hint=_OTHER_HINT
        )
    row = driver.execute("SELECT version_num FROM alembic_version").fetchone()
    revision = str(row[0]) if row else ""
    if revision > HEAD_REVISION:
        raise DatabaseError(
            f"database {path} has schema {revision}, newer than this version's {HEAD_REVISION}",
            hint="upgrade kernelsmith",
        )
    return revision


def _open_readable(path: Path, busy_timeout_s: float) -> tuple[Connection, str | None]:
    """Read-write without writing when the folder allows (WAL needs its index beside the file and
    the last one out folds it in), else as an immutable file if no WAL is pending."""
    wal = path.with_name(path.name + "-wal")
    pending = wal.exists() and wal.stat().st_size > 0
    modes = ("mode=rw",) if pending else ("mode=rw", "mode=ro&immutable=1")
    for mode in modes:
        connection = _connect(path, mode, busy_timeout_s)
        try:
            _pragma(connection, "query_only=ON")
            return connection, _identify(path, connection)
        except sqlite3.OperationalError as error:
            connection.close()
            unwritable = (error.sqlite_errorcode & 0xFF) in (
                sqlite3.SQLITE_CANTOPEN,
                sqlite3.SQLITE_READONLY,
            )
            if not unwritable or mode == modes[-1]:
                raise
        except BaseException:
            connection.close()
            raise
    raise DatabaseError(f"database {path} does not open")


def _migrate(path: Path, connection: Connection) -> None:
    """Creates or upgrades the schema, in one transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    connection.info["begin"] = "BEGIN IMMEDIATE"
    with connection.begin():
        if _identify(path, connection) == HEAD_REVISION:
            return  # another process was faster
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
