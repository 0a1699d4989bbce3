"""From each version of the schema to the next. A step is never changed once it was released: files have been made by it.

A file is brought up to date when a gateway opens it, in one transaction, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sqlalchemy import Connection, insert, inspect, select, update

from narrows import NarrowsError
from narrows_plugins.record.sql.schema import SCHEMA, schema_version

STEPS: Final[Mapping[int, Sequence[str]]] = MappingProxyType(
    {
        1: (
            """CREATE TABLE decisions (
                id TEXT NOT NULL PRIMARY KEY, ts DOUBLE NOT NULL, principal TEXT, tenant TEXT, route TEXT, session TEXT,
                policy TEXT NOT NULL, outcome TEXT NOT NULL, status INTEGER NOT NULL, code TEXT NOT NULL,
                cost_micro_usd BIGINT NOT NULL, blocked_fallback BOOLEAN NOT NULL, document TEXT NOT NULL)""",
            "CREATE INDEX decisions_by_time ON decisions (ts, id)",
            """CREATE TABLE attempts (
                id TEXT NOT NULL PRIMARY KEY, decision TEXT NOT NULL, n INTEGER NOT NULL, ts DOUBLE NOT NULL,
                target TEXT NOT NULL, provider TEXT NOT NULL, kind TEXT NOT NULL, purpose TEXT NOT NULL,
                class TEXT NOT NULL, status INTEGER, started_ms BIGINT NOT NULL, duration_ms BIGINT NOT NULL,
                input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cached_tokens BIGINT NOT NULL,
                usage TEXT NOT NULL, cost_micro_usd BIGINT)""",
            "CREATE INDEX attempts_by_decision ON attempts (decision)",
            "CREATE INDEX attempts_by_time ON attempts (ts)",
            "CREATE TABLE policies (digest TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL, first_seen DOUBLE NOT NULL)",
            """CREATE TABLE gaps (
                id TEXT NOT NULL PRIMARY KEY, since DOUBLE NOT NULL, until DOUBLE NOT NULL, count BIGINT,
                reason TEXT NOT NULL)""",
            "CREATE INDEX gaps_by_time ON gaps (until)",
            """CREATE TABLE runs (
                id TEXT NOT NULL PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started DOUBLE NOT NULL,
                last_ts DOUBLE, stopped DOUBLE)""",
        ),
        2: (  # a caller's own pages without reading everybody's rows; and a number that was used twice is no process
            "CREATE INDEX decisions_by_principal ON decisions (principal, ts, id)",
            "CREATE INDEX decisions_by_session ON decisions (session, ts, id)",
            "ALTER TABLE runs ADD COLUMN process TEXT",
        ),
    }
)
VERSION: Final = max(STEPS)


def migrate(connection: Connection) -> None:
    """Bring the schema up to date, inside the connection's transaction. A table that somebody took out is made again.

    Raises NarrowsError for a schema of a newer version than ours."""
    found = version(connection)
    if found > VERSION:
        raise NarrowsError(newer(found))
    if found < VERSION:
        schema_version.create(connection, checkfirst=True)
        for step in range(found + 1, VERSION + 1):
            for statement in STEPS[step]:
                connection.exec_driver_sql(statement)
        wrote = update(schema_version) if found else insert(schema_version)
        connection.execute(wrote.values(version=VERSION))
    SCHEMA.create_all(connection)


def version(connection: Connection) -> int:
    """The version of the schema; 0 where there is none yet."""
    if not inspect(connection).has_table(schema_version.name):
        return 0
    return connection.execute(select(schema_version.c.version)).scalar() or 0


def newer(found: int) -> str:
    """What is wrong with a schema of that version."""
    return (
        f"the ledger has schema version {found}, and this version of narrows knows {VERSION}; "
        "use the newer narrows again, or name another file in url"
    )
