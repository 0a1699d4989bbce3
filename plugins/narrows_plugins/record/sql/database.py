"""SQLite files: how they are opened, and what SQLite's failures mean. None of these texts holds a value of a row."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from narrows import LedgerUnavailable, NarrowsError

BUSY_SECS: Final = 0.25
"""How long one try of the writer waits for a lock. Short, so that a stop is heard."""
READ_BUSY_SECS: Final = 1.0
OWNER_ONLY: Final = 0o600


class LedgerLocked(LedgerUnavailable):
    """Another process holds the ledger's lock."""


class LedgerFull(LedgerUnavailable):
    """The disk has no room, or it fails."""


class LedgerReadOnly(LedgerUnavailable):
    """The ledger may not be written."""


class LedgerBroken(LedgerUnavailable):
    """The file is no ledger, or is damaged."""


FAILURES: Final = (
    (("SQLITE_BUSY", "SQLITE_LOCKED"), LedgerLocked),
    (("SQLITE_FULL", "SQLITE_IOERR"), LedgerFull),
    (("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"), LedgerReadOnly),
)
"""What an error's name begins with -> what it means."""


def failure(error: Exception) -> LedgerUnavailable:
    """A database's error as one of ours: its kind, and nothing of its text, which may hold a row."""
    original = error.orig if isinstance(error, DBAPIError) else error
    name = getattr(original, "sqlite_errorname", None) or ""
    kind = next((kind for beginnings, kind in FAILURES if name.startswith(beginnings)), LedgerBroken)
    return kind(f"{(kind.__doc__ or '').rstrip('.')} ({name or type(original).__name__})")


@contextmanager
def told() -> Iterator[None]:
    """Raise what the database raises inside as LedgerUnavailable."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise failure(error) from None


def writing(path: Path) -> Engine:
    """An engine for the one writer. The file is made if need be, readable by its owner alone; WAL, so that readers do
    not wait for it. A transaction takes the write lock at its beginning."""

    def connect() -> sqlite3.Connection:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY))
        connection = sqlite3.connect(path, timeout=BUSY_SECS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:  # the driver's own begin would come too late, and hold no write lock
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def reading(path: Path) -> Engine:
    """An engine that can only read. Every use opens the file anew, so that any thread may."""

    def connect() -> sqlite3.Connection:
        place = f"file:{quote(str(path.absolute()))}?mode=ro"
        return sqlite3.connect(place, timeout=READ_BUSY_SECS, uri=True, check_same_thread=False)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def check_place(path: Path) -> None:
    """Raises NarrowsError, with what to do, where no ledger can be."""
    folder = path.parent
    if not folder.exists():
        raise NarrowsError(f"the folder {shown(folder)} of the ledger does not exist; create it, or change url")
    if not folder.is_dir():
        raise NarrowsError(f"{shown(folder)} is no folder; change url")
    if path.is_dir():
        raise NarrowsError(f"{shown(path)} is a folder; name a file in it: sqlite:///{path}/narrows.db")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise NarrowsError(f"the ledger {shown(path)} may not be written by this user; change its rights, or url")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NarrowsError(
            f"nothing may be written to the folder {shown(folder)} of the ledger by this user, and SQLite keeps files "
            "beside its own; change its rights, or url"
        )


def shown(path: Path) -> str:
    """A path as it is told: absolute, because what a relative one means depends on where the process was started."""
    return str(path.absolute())


def identity(path: Path) -> tuple[int, int]:
    """Which file stands at that path. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino


Row = dict[str, Any]
