"""The ledger locked, full, read-only, taken apart, or its process killed: callers notice nothing, and what is missing is
counted and left as a gap. The first two in a `narrows serve`, the others behind both servers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from narrows import Gateway, Query
from narrows.server import Application
from narrows.testing import RecordingProvider
from tests.core.ledger.support import until
from tests.e2e.support import CHAT, Serve, chat, logged, plain_client
from tests.plugins.record.sql.support import locked, opened, rows, run
from tests.support.config import basic_config, write_config
from tests.support.metrics import Scrape
from tests.support.process import narrows_process

QUEUE = 5
GRACE_SECS = 20.0


def configured(provider: RecordingProvider, path: Path) -> str:
    more = f'\n[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///{path}"\nqueue = {QUEUE}\n'
    return basic_config({"eu": provider.base_url}, more=more)


class Caller:
    """Asks, and knows what it was told."""

    def __init__(self, client: httpx.Client, provider: RecordingProvider) -> None:
        self._client, self._provider = client, provider
        self.decisions: list[str] = []

    def ask(self, times: int = 1) -> list[str]:
        """So many requests, each answered with one upstream call. The ids of their decisions."""
        before = self._provider.count()
        answers = [self._client.post(CHAT, json=chat("chat")) for _ in range(times)]
        assert [answer.status_code for answer in answers] == [200] * times
        assert self._provider.count() - before == times
        asked = [answer.headers["x-narrows-decision"] for answer in answers]
        self.decisions += asked
        return asked

    def scrape(self) -> Scrape:
        return Scrape(self._client.get("/metrics").text)


def kept(path: Path) -> set[str]:
    return {ident for (ident,) in rows(path, "SELECT id FROM decisions")}


def gaps(path: Path) -> list[tuple[str, int | None]]:
    return rows(path, "SELECT reason, count FROM gaps ORDER BY since")


# ---- a process -------------------------------------------------------------------------------------------------------


def test_locked_by_another_process_and_stopped_while_it_is(provider: RecordingProvider, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    file = write_config(tmp_path, configured(provider, path))
    with narrows_process(file) as running, plain_client(running.url) as client:
        caller = Caller(client, provider)
        control = caller.ask(3)
        until(lambda: kept(path) == set(control), "the control is written")
        with locked(path):
            during = caller.ask(QUEUE + 7)
            scraped = caller.scrape()
            assert scraped("ledger_dropped_total") == 7
            assert scraped("ledger_queue_entries") == QUEUE
        until(lambda: gaps(path) == [("queue_full", 7)], "a gap where decisions were dropped")
        assert kept(path) == {*control, *during[:QUEUE]}
        after = caller.ask(1)
        until(lambda: kept(path) >= set(after), "written as before")
        with locked(path):
            lost = caller.ask(2)
            started = time.monotonic()
            assert running.terminate() == 0
            assert time.monotonic() - started < GRACE_SECS
        assert "sink ledger: 2 decisions could not be written before the stop and are lost" in running.stderr
        assert "failed in hook record: LedgerLocked" in running.stderr
    assert kept(path) & set(lost) == set()
    with opened(path):
        pass
    assert gaps(path) == [("queue_full", 7), ("not_stopped", None)]
    attempts = rows(path, "SELECT decision FROM attempts")
    assert Counter(decision for (decision,) in attempts) == Counter(kept(path))


def test_killed(provider: RecordingProvider, tmp_path: Path) -> None:
    """It loses at most what the queue held; the next start says from when to when."""
    path = tmp_path / "ledger.db"
    file = write_config(tmp_path, configured(provider, path))
    with (  # noqa: PT012 - it is the process that ends so, at the end of its block
        pytest.raises(RuntimeError, match="ended with -9"),
        narrows_process(file) as running,
        plain_client(running.url) as client,
    ):
        caller = Caller(client, provider)
        control = caller.ask(4)
        until(lambda: kept(path) == set(control), "the control is written")
        running.process.kill()
        running.process.wait()
    assert gaps(path) == []
    killed_at = time.time()
    with narrows_process(file) as running, plain_client(running.url) as client:
        assert kept(path) == set(control)
        ((since, until_, reason),) = rows(path, "SELECT since, until, reason FROM gaps")
        assert reason == "not_stopped"
        assert since == max(ts for (ts,) in rows(path, "SELECT ts FROM decisions"))
        assert killed_at <= until_ <= time.time()
        again = Caller(client, provider).ask(2)
    assert kept(path) == {*control, *again}  # a stop writes what there is
    with opened(path):
        pass
    assert gaps(path) == [("not_stopped", None)]


# ---- on both servers -------------------------------------------------------------------------------------------------


@contextmanager
def pragma(path: Path) -> Iterator[dict[str, Any]]:
    """What each new connection of the sink is told first."""
    told: dict[str, Any] = {"max_page_count": 2**30, "query_only": 0}
    connect = sqlite3.connect

    def connected(place: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(place, **options)
        if place == path and "isolation_level" in options:  # the sink's, not a test's own
            for name, value in told.items():
                connection.execute(f"PRAGMA {name} = {value}")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("narrows_plugins.record.sql.database.sqlite3.connect", connected)
        yield told


def full(path: Path, told: dict[str, Any]) -> None:
    told["max_page_count"] = 1  # SQLite makes as many of it as there are
    _reconnect(path)


def read_only(path: Path, told: dict[str, Any]) -> None:
    told["query_only"] = 1
    _reconnect(path)


def taken_apart(path: Path, told: dict[str, Any]) -> None:
    """For good: what is made again is taken away again."""
    run(path, "DROP TABLE decisions", "CREATE VIEW decisions AS SELECT 1 AS id")


def _reconnect(path: Path) -> None:
    """The same file under another number: who holds the old one opens it again."""
    copy = path.with_name("copy.db")
    run(path, f"VACUUM INTO '{copy}'")
    copy.replace(path)


@pytest.mark.parametrize(
    ("harm", "named"), [(full, "LedgerFull"), (read_only, "LedgerReadOnly"), (taken_apart, "LedgerBroken")]
)
def test_a_fault_of_the_file_is_the_ledgers_alone(
    serve: Serve, provider: RecordingProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[Path, dict[str, Any]], None], named: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("narrows.recorders.FLUSH_SECS", 0.2)
    path = tmp_path / "ledger.db"
    with pragma(path) as told, logged() as lines:
        gateway = Gateway.from_text(configured(provider, path), open_access=True)
        with serve(Application(gateway)) as server, plain_client(server.url) as client:
            caller, recorders = Caller(client, provider), gateway.engine.recorders
            control = caller.ask(2)
            until(lambda: kept(path) == set(control), "the control is written")
            harm(path, told)
            caller.ask(QUEUE + 4)
            until(lambda: (recorders.dropped, recorders.queued) == (4, QUEUE), "the last of them was left")
            until(lambda: gateway.engine.calls.errors["ledger", "record"] >= 2, "it is tried again")
        assert recorders.dropped == QUEUE + 4
    assert any(f"failed in hook record: {named}" in line for line in lines.of("narrows.plugins"))
    assert len([line for line in lines.of("narrows.plugins") if named in line]) == 1  # once a minute, not each time
    assert threading.active_count() < 20


def test_what_is_mended_goes_on(serve: Serve, provider: RecordingProvider, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with pragma(path) as told:
        gateway = Gateway.from_text(configured(provider, path), open_access=True)
        with serve(Application(gateway)) as server, plain_client(server.url) as client:
            caller = Caller(client, provider)
            control = caller.ask(2)
            until(lambda: kept(path) == set(control), "the control is written")
            read_only(path, told)
            during = caller.ask(QUEUE + 4)
            told["query_only"] = 0
            until(lambda: gaps(path) == [("queue_full", 4)], "a gap where decisions were dropped")
            reader = gateway.engine.recorders.reader
            found = [one["id"] for one in reader.decisions(Query()).data]
            assert found == [*reversed(during[:QUEUE]), *reversed(control)]
