"""A ledger in a test's own folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from narrows_plugins.record.sql import Sql

POLICY = ("a1" * 32, '{"routes":{}}')


def sink(path: Path) -> Sql:
    """Not open yet."""
    return Sql(url=f"sqlite:///{path}")


@contextmanager
def opened(path: Path) -> Iterator[Sql]:
    """Open until the block ends."""
    ledger = sink(path)
    ledger.open()
    try:
        yield ledger
    finally:
        ledger.close()


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """What somebody else reads in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def run(path: Path, *statements: str) -> None:
    """What somebody else does to the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else holds the file's lock."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
