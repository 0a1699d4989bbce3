"""Reading the ledger again, beside the gateway that writes it or without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from sqlalchemy import Connection, and_, or_, select

from narrows import Gap, LedgerUnavailable, Page, Query
from narrows_plugins.record.sql.database import Row, reading, shown, told
from narrows_plugins.record.sql.migrations import VERSION, newer, version
from narrows_plugins.record.sql.schema import decisions, gaps, policies


class SqlReader:
    """A `Reader` of one file. Opens nothing before it is asked, and keeps nothing open; any thread may ask."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = reading(path)

    def decisions(self, query: Query) -> Page:
        """A page, newest first: by time of arrival, then by id. Nothing is behind an id that is not there."""
        row = decisions.c
        mine = [row.principal == query.principal] if query.principal is not None else []
        asked = select(row.id, row.document).where(*mine).order_by(row.ts.desc(), row.id.desc()).limit(query.limit + 1)
        if query.session is not None:
            asked = asked.where(row.session == query.session)
        if query.since is not None:
            asked = asked.where(row.ts >= query.since)
        with self._connected() as connection:
            if query.before is not None:
                before = connection.execute(select(row.ts).where(row.id == query.before, *mine)).scalar()
                if before is None:
                    return Page()
                asked = asked.where(or_(row.ts < before, and_(row.ts == before, row.id < query.before)))
            found = connection.execute(asked).all()
        page = found[: query.limit]
        return Page(tuple(_document(one.document) for one in page), page[-1].id if len(found) > len(page) > 0 else None)

    def decision(self, key: str) -> Row | None:
        """The one of that id, or None."""
        with self._connected() as connection:
            found = connection.execute(select(decisions.c.document).where(decisions.c.id == key)).scalar()
        return None if found is None else _document(found)

    def policy(self, digest: str) -> str | None:
        """The policy's canonical text, or None."""
        with self._connected() as connection:
            found: str | None = connection.execute(select(policies.c.text).where(policies.c.digest == digest)).scalar()
        return found

    def gaps(self, since: float | None = None) -> tuple[Gap, ...]:
        """What is known to be missing, oldest first; of gaps that ended before `since`, none."""
        asked = select(gaps).order_by(gaps.c.since, gaps.c.id)
        if since is not None:
            asked = asked.where(gaps.c.until >= since)
        with self._connected() as connection:
            found = connection.execute(asked).mappings().all()
        return tuple(Gap(one["since"], one["until"], one["count"], one["reason"]) for one in found)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        if not self._path.is_file():
            raise LedgerUnavailable(f"there is no ledger at {shown(self._path)} yet; a gateway makes it when it starts")
        with told(), self._engine.connect() as connection:
            found = version(connection)
            if found > VERSION:
                raise LedgerUnavailable(newer(found))
            if found < VERSION:
                raise LedgerUnavailable(
                    f"the ledger has schema version {found}, this version of narrows reads {VERSION}; "
                    "a gateway brings it up to date when it starts"
                )
            yield connection


def _document(text: str) -> Row:
    return msgspec.json.decode(text, type=Row)
