"""Opening, creating and upgrading ``runs.db``; what SQLite's errors mean to a person."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, RootTransaction, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from kernelsmith.errors import DatabaseError, KernelsmithError, StorageError
from kernelsmith.lineage import identity
from kernelsmith.lineage.identity import OTHER_HINT, damaged, primary_code
from kernelsmith.lineage.models import APPLICATION_ID, HEAD_REVISION, OLDEST_READABLE

BUSY_TIMEOUT_S = 30.0
RUN_PATIENCE_S = 600.0
LOOK_AGAIN_S = 0.02
# What comes of values that are not what was written: JSON that does not parse, a name that is not
# there. Ends of commands and pipes that nobody reads are other errors.
_NO_SENSE = (ValueError, TypeError, LookupError, AttributeError, AssertionError, ArithmeticError)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a writer that cannot come again waits for a lock, and who is told that it does. A
    run's night is worth more than an error on time."""

    seconds: float = 0.0
    notice: Callable[[str], None] = lambda line: None


NO_PATIENCE = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One open connection. Close it: the last one out folds the WAL into the file."""

    path: Path
    connection: Connection
    writable: bool
    inode: tuple[int, int]

    @contextmanager
    def transaction(self, patience: Patience = NO_PATIENCE) -> Iterator[Connection]:
        """All or nothing; takes SQLite's write lock at once.

        Args:
            patience: how long to wait for the lock after the connection's own time is up.

        Raises:
            DatabaseError, StorageError: as :func:`explain` says; the file was moved or deleted.
        """
        self._require_same_file()
        with explained(self.path), self._locked(patience):
            yield self.connection

    def _locked(self, patience: Patience) -> RootTransaction:
        self.connection.info["begin"] = "BEGIN IMMEDIATE"
        until_s = None
        while True:
            try:
                return self.connection.begin()
            except DBAPIError as error:
                now_s = time.monotonic()
                busy = primary_code(error.orig) == sqlite3.SQLITE_BUSY
                if not busy or now_s >= (until_s or now_s + patience.seconds):
                    raise
                if until_s is None:
                    until_s = now_s + patience.seconds
                    patience.notice(
                        f"database {self.path} is locked by another program; waiting for it, "
                        f"{patience.seconds / 60:.0f} minutes at most"
                    )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view; takes no lock that a writer would wait for.

        Raises:
            DatabaseError: as :func:`explain` says; what was read makes no sense and the record is
                not as it was written.
        """
        self.connection.info["begin"] = "BEGIN"
        with explained(self.path), self.connection.begin():
            try:
                yield self.connection
            except _NO_SENSE as error:  # of whoever reads: is it the record's fault?
                damage = self._damage()
                if not damage:
                    raise
                raise damaged(self.path, damage) from error

    def _damage(self) -> str:
        """What is not as it was written, or "". Read only after something made no sense."""
        from kernelsmith.lineage.verify import verify

        try:
            findings = verify(self.connection).findings
        except Exception as error:
            return f"{type(error).__name__} while its chain was verified"
        return findings[0].line() if findings else ""

    def _require_same_file(self) -> None:
        """Writes to a file that has no name any more would be lost without a word.

        Raises:
            StorageError: the path no longer names the file that was opened.
        """
        if _inode(self.path) != self.inode:
            raise StorageError(
                f"database {self.path} was moved or deleted while it was in use",
                hint="put it back under this name, then `kernelsmith resume latest`",
            )

    def changes(self) -> int:
        """A number that is another one after anybody else wrote. Asking costs next to nothing."""
        with explained(self.path):
            return int(_pragma(self.connection, "data_version"))

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
            try:
                _pragma(self.connection, "wal_checkpoint(TRUNCATE)")
            except (DBAPIError, sqlite3.Error) as error:
                message = f"the log of {self.path} was not folded in: {error}"
                _LOG.warning(message, exc_info=error, extra={"event": "checkpoint_failed"})
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
    with explained(path):
        if path.exists():
            identity.refuse_strangers(path, busy_timeout_s, whole=True)
        else:
            can_create(path)
        connection = _connect(path, "mode=rwc", busy_timeout_s)
        try:
            state = identity.revision_of(path, driver_of(connection))
            # EXTRA: each commit is synced, and so is the folder after the journal of a new file is
            # removed: one that came back after a power cut would undo all that followed it.
            _pragma(connection, "synchronous=EXTRA")
            _keep_log(connection, busy_timeout_s)
            if state != HEAD_REVISION:
                _migrate(path, connection)
        except BaseException:
            connection.close()
            raise
    return Database(path=path, connection=connection, writable=True, inode=_inode(path))


def can_create(path: Path) -> None:
    """Asks for a place where a lineage could be made, without making one.

    Raises:
        DatabaseError: the folder is missing or cannot be written.
    """
    folder = path.expanduser().absolute().parent
    if not folder.is_dir():
        raise DatabaseError(f"database {path}: no folder {folder}", hint=OTHER_HINT)
    if not os.access(folder, os.W_OK):
        raise DatabaseError(
            f"database {path}: the folder {folder} is read-only",
            hint="give yourself write access to the folder, or " + OTHER_HINT,
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
            hint="give yourself write access to the file, or " + OTHER_HINT,
        )


def open_for_reading(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Database:
    """Opens an existing lineage; writes nothing and never creates one.

    Raises:
        DatabaseError: as for writing, when there is none, and when its schema is too old to read.
    """
    path = path.expanduser()
    connection, state = _open_there(path, busy_timeout_s)
    if state < OLDEST_READABLE:
        connection.close()
        raise DatabaseError(
            f"database {path} has schema {state}, this version reads {OLDEST_READABLE} "
            f"to {HEAD_REVISION}",
            hint="the next `kernelsmith run` or `resume` on it upgrades it",
        )
    return Database(path=path, connection=connection, writable=False, inode=_inode(path))


def require_there(path: Path) -> None:
    """Refuses a path that holds no runs, of whatever schema; creates none.

    Raises:
        DatabaseError: as :func:`open_for_reading` says, but for an old schema.
    """
    connection, _ = _open_there(path.expanduser(), BUSY_TIMEOUT_S)
    connection.close()


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
    code = primary_code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseError(
            f"database {path} is locked by another program",
            hint=f"close the program that holds it (`fuser {path}`), then try again",
        )
    if code == sqlite3.SQLITE_FULL:
        return StorageError(
            f"cannot write database {path}: {error}",
            hint="free some disk space; all that was recorded is safe",
        )
    if code == sqlite3.SQLITE_IOERR:
        return StorageError(
            f"cannot read or write database {path}: {error}",
            hint="free some disk space, or see whether it is read-only or failing (`df`, `dmesg`); "
            "all that was recorded is safe",
        )
    if code == sqlite3.SQLITE_NOTADB:
        return DatabaseError(f"{path} is not a SQLite database", hint=OTHER_HINT)
    if code == sqlite3.SQLITE_CORRUPT:
        return damaged(path, str(error))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return DatabaseError(
            f"cannot write in {path.parent.absolute()} for database {path.name}: {error}",
            hint="give yourself write access to the folder, or " + OTHER_HINT,
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return DatabaseError(
            f"database {path} already holds this record, or lacks one it refers to: {error}",
            hint="is another kernelsmith writing the same run? `kernelsmith lineage verify` checks",
        )
    return DatabaseError(f"database {path}: {error}", hint="`kernelsmith lineage verify` checks it")


def _connect(path: Path, mode: str, busy_timeout_s: float) -> Connection:
    def connect() -> sqlite3.Connection:
        return identity.connect(path, mode, busy_timeout_s)

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool)

    def emit_begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.info.get("begin", "BEGIN"))

    event.listen(engine, "begin", emit_begin)
    connection = engine.connect()
    _pragma(connection, "foreign_keys=ON")
    return connection


def driver_of(connection: Connection) -> sqlite3.Connection:
    """SQLite's own connection, which begins no transaction by itself."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        raise DatabaseError("the database connection is closed")
    return driver


def _pragma(connection: Connection, text: str) -> Any:
    """Runs a PRAGMA outside any transaction (``exec_driver_sql`` would begin one)."""
    row = driver_of(connection).execute(f"PRAGMA {text}").fetchone()
    return row[0] if row else None


def _keep_log(connection: Connection, busy_timeout_s: float) -> None:
    """Puts a log beside the file. While another makes it SQLite says at once that it is locked."""
    until_s = time.monotonic() + busy_timeout_s
    while True:
        try:
            _pragma(connection, "journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= until_s:
                raise
        time.sleep(LOOK_AGAIN_S)


def _inode(path: Path) -> tuple[int, int]:
    """Which file has this name now."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _open_there(path: Path, busy_timeout_s: float) -> tuple[Connection, str]:
    """A lineage that is there, open for reading, and its revision."""
    if not path.exists():
        raise DatabaseError(
            f"no database at {path}", hint="`kernelsmith run TASK` makes one; or " + OTHER_HINT
        )
    with explained(path):
        identity.refuse_strangers(path, busy_timeout_s)
        connection, state = _open_readable(path, busy_timeout_s)
    if state is None:
        connection.close()
        raise DatabaseError(f"database {path} holds no runs", hint="`kernelsmith run TASK` first")
    return connection, state


def _open_readable(path: Path, busy_timeout_s: float) -> tuple[Connection, str | None]:
    """Read-write without writing when the folder allows (WAL needs its index beside the file and
    the last one out folds it in), else as an immutable file if no WAL is pending."""
    pending = identity.has_bytes(path, "-wal")
    modes = ("mode=rw",) if pending else ("mode=rw", identity.AS_IT_LIES)
    for mode in modes:
        connection = _connect(path, mode, busy_timeout_s)
        try:
            _pragma(connection, "query_only=ON")
            return connection, identity.revision_of(path, driver_of(connection))
        except sqlite3.OperationalError as error:
            connection.close()
            unwritable = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if primary_code(error) not in unwritable or mode == modes[-1]:
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
        if identity.revision_of(path, driver_of(connection)) == HEAD_REVISION:
            return  # another process was faster
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
