"""One writer on one file: its connection, its run, its transactions. Used in one thread.

Every failure but a lock ends the connection, and the next transaction makes a new one, bringing the file up to date
first. So a file that was moved, deleted or taken apart underneath is begun again where the configuration says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import dialect, insert

from narrows import NarrowsError
from narrows_plugins.record.sql import runs
from narrows_plugins.record.sql.database import LedgerLocked, Row, identity, told, writing
from narrows_plugins.record.sql.migrations import migrate
from narrows_plugins.record.sql.schema import SCHEMA, decisions, policies

Rows = Mapping[str, Sequence[Row]]
"""Rows to write, by the names of their tables."""


_INSERTS = {
    table.name: str(insert(table).on_conflict_do_nothing().compile(dialect=dialect(paramstyle="named")))
    for table in SCHEMA.tables.values()
}
"""Compiled once, and run with the rows as they are: the work per row is half of what a batch costs."""


class Store:
    """Constructing one opens nothing. `earlier`: a run of the same sink that could not say that it stopped.

    Each method raises LedgerUnavailable, and NarrowsError where the schema is of a newer version.
    """

    def __init__(self, path: Path, earlier: str | None = None) -> None:
        self.run: str | None = None
        self._path, self._earlier = path, earlier
        self._engine = writing(path)
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._policies: dict[str, Row] = {}  # written so far; a file that is begun again gets them again
        self._newest = 0.0

    def open(self) -> None:
        """Make the file, or bring it up to date, and begin a run."""
        with self._transaction():
            pass

    def write(self, rows: Rows) -> None:
        """All of it in one transaction. What is there already is not written twice."""
        newest = max((row["ts"] for row in rows.get(decisions.name, ())), default=0.0)
        with self._transaction() as connection:
            for table in SCHEMA.tables.values():
                if there := rows.get(table.name):
                    connection.exec_driver_sql(_INSERTS[table.name], there)
            if newest > self._newest and self.run is not None:
                runs.wrote(connection, self.run, newest)
        self._newest = max(newest, self._newest)
        self._policies.update({row["digest"]: row for row in rows.get(policies.name, ())})

    def close(self, *, complete: bool) -> None:
        """End the connection and, where everything was written, the run."""
        try:
            if complete and self.run is not None and self._connection is not None:
                with self._transaction() as connection:
                    runs.end(connection, self.run)
                self.run = None
        finally:
            self._disconnect()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with told():
                connection = self._connected()
                with connection.begin():
                    yield connection
        except LedgerLocked:
            raise  # nothing is wrong with the connection
        except NarrowsError:
            self._disconnect()
            raise

    def _connected(self) -> Connection:
        if self._connection is not None and self._moved():
            self._disconnect()
        if self._connection is None:
            self._connection = self._prepared()
        return self._connection

    def _prepared(self) -> Connection:
        """A new connection, to a file that is up to date and knows this run."""
        connection = self._engine.connect()
        try:
            self._file = identity(self._path)
            with connection.begin():
                migrate(connection)
                if self.run is None or not runs.is_known(connection, self.run):
                    self.run = runs.begin(connection, self._earlier)
                if self._policies:
                    connection.exec_driver_sql(_INSERTS[policies.name], list(self._policies.values()))
        except BaseException:
            connection.close()
            raise
        return connection

    def _moved(self) -> bool:
        try:
            return identity(self._path) != self._file
        except OSError:
            return True

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with told():
                connection.close()
