"""`sql`: decisions in a database file.

    [sinks.ledger]
    kind = "sql"
    url = "sqlite:///narrows.db"          # three slashes: beside the process; four: sqlite:////var/lib/narrows/ledger.db
    queue = 10_000                        # how many decisions may wait while the file is locked or the disk is full

SQLite in WAL mode, written in batches by one thread. Source: DESIGN section 10, ADR 0007.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final
from uuid import uuid4

from pydantic import AfterValidator, Field, PrivateAttr
from sqlalchemy import Table

from narrows import CheckedConfig, Decision, Gap, NarrowsError, Problem, Reader, Sink, hookimpl
from narrows_plugins.record.sql import schema
from narrows_plugins.record.sql.database import LedgerBroken, LedgerReadOnly, Row, check_place, shown
from narrows_plugins.record.sql.reading import SqlReader
from narrows_plugins.record.sql.rows import Documents, attempt_rows, decision_row
from narrows_plugins.record.sql.store import Store

SQLITE: Final = "sqlite:///"
BATCH: Final = 500
"""The most decisions of one transaction."""
POSTGRES: Final = ("postgresql", "postgres")
EXAMPLE: Final = "write one like sqlite:///narrows.db"
"""For errors, none of which repeats the URL: it may hold a password."""


def _url(url: str) -> str:
    if url.startswith(POSTGRES):
        return url  # `check` says that it is not built yet
    if not url.startswith(SQLITE):
        raise ValueError(f"is no URL of a database that this kind knows; {EXAMPLE}")
    path = url.removeprefix(SQLITE)
    if not path or path == ":memory:":
        raise ValueError(
            f"names no file; {EXAMPLE}, or leave the block out: the last decisions are kept in memory then"
        )
    if "?" in path or "#" in path or "\x00" in path:
        raise ValueError(f"has options (?… or #…), and there are none; {EXAMPLE}")
    return url


class Sql(Sink):
    """Keeps decisions, attempts, policies and gaps in a SQLite file, and reads them again."""

    url: Annotated[str, AfterValidator(_url)] = Field(repr=False)
    """`sqlite:///FILE`, relative to the working directory; `sqlite:////…` is absolute. PostgreSQL comes later."""

    _store: Store | None = PrivateAttr(default=None)
    _documents: Documents = PrivateAttr(default_factory=Documents)
    _batches: deque[dict[str, list[Row]]] = PrivateAttr(default_factory=deque)  # not written yet; rows by table

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.url.removeprefix(SQLITE))

    @hookimpl
    def check(self, config: CheckedConfig) -> Iterable[Problem]:
        """Is it a database that is built?"""
        if self.url.startswith(POSTGRES):
            yield Problem(
                "not_built_yet",
                "a ledger in PostgreSQL is not built yet",
                path="url",
                remedy="Until then: a file, sqlite:///narrows.db.",
            )

    # ---- in the sink's own thread ------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the file or bring it up to date, and begin a run. Raises NarrowsError where that can never work here,
        LedgerUnavailable where the file is locked or the disk is full."""
        check_place(self.path)
        self._batches.clear()
        self._store = Store(self.path, self._store.run if self._store is not None else None)
        try:
            self._store.open()
        except (LedgerReadOnly, LedgerBroken) as error:
            raise NarrowsError(f"{shown(self.path)} cannot be the ledger: {error}; change its rights, or url") from None

    def policy(self, digest: str, text: str) -> None:
        """Kept at the next flush."""
        self._put(schema.policies, {"digest": digest, "text": text, "first_seen": time.time()})

    @hookimpl
    def record(self, decision: Decision) -> None:
        """Kept at the next flush."""
        row, attempts = decision_row(decision, self._documents.encoded(decision)), attempt_rows(decision)
        self._put(schema.decisions, row)
        self._put(schema.attempts, *attempts)

    def gap(self, gap: Gap) -> None:
        """Kept at the next flush."""
        self._put(schema.gaps, {"id": uuid4().hex, **asdict(gap)})

    def flush(self) -> None:
        """In transactions of a bounded size. However often it is tried, nothing is written twice."""
        if self._store is None:
            raise NarrowsError("the ledger is not open")
        while self._batches:
            self._store.write(self._batches[0])
            self._batches.popleft()

    def close(self) -> None:
        """End the run, unless something could not be written: then the next start leaves a gap."""
        if self._store is not None:
            self._store.close(complete=not self._batches)

    # ---- outside of it -----------------------------------------------------------------------------------------

    def reader(self) -> Reader:
        """The same file, read only."""
        return SqlReader(self.path)

    def _put(self, table: Table, *rows: Row) -> None:
        if rows:
            if not self._batches or len(self._batches[-1].get(schema.decisions.name, ())) >= BATCH:
                self._batches.append({})
            self._batches[-1].setdefault(table.name, []).extend(rows)
