"""What is written: a decision as it was, an attempt a row, each once, whole batches or nothing; and what each fault does."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narrows import Gap, LedgerUnavailable, NarrowsError, Query
from narrows.decision import AttemptRow, AttributeValue, Excluded
from narrows_plugins.record.sql import Sql, database
from narrows_plugins.record.sql.rows import Documents
from tests.core.ledger.support import decision
from tests.plugins.record.sql.support import POLICY, locked, opened, rows, run, sink


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def fill(ledger: Sql, *numbers: int, **more: Any) -> None:
    for n in numbers:
        ledger.record(decision(n, **more))
    ledger.flush()


def test_a_decision_is_kept_whole_and_in_columns(path: Path) -> None:
    attempts = tuple(
        AttemptRow(n, f"t{n}", "acme", "openai_compatible", "timeout" if n < 3 else "ok", None if n < 3 else 200,
                   started_ms=n * 100, duration_ms=90, input_tokens=n, usage="reported", cost_micro_usd=n * 5)
        for n in (1, 2, 3)
    )  # fmt: skip
    one = decision(
        9, tenant="payments", session="d1", attempts=attempts, blocked_fallback=True,
        attributes={"region": AttributeValue(("eu",), ("header",))},
        excluded=(Excluded("us", "residency", "attribute_mismatch", "region is us, not eu"),),
        labels={"eu": {"region": ("eu", "ch")}},
    )  # fmt: skip
    with opened(path) as ledger:
        ledger.policy(*POLICY)
        ledger.record(one)
        ledger.gap(Gap(1.5, 2.5, None, "not_stopped"))
        assert rows(path, "SELECT id FROM decisions") == []  # nothing before the flush
        ledger.flush()
    (row,) = rows(path, "SELECT id, ts, principal, tenant, route, session, policy, outcome, status, code, cost_micro_usd, "
                        "blocked_fallback FROM decisions")  # fmt: skip
    assert row == ("dec_0009", 9.0, "ci", "payments", "chat", "d1", "a1" * 32, "answered", 200, "ok", 30, 1)
    ((document,),) = rows(path, "SELECT document FROM decisions")
    assert json.loads(document) == json.loads(json.dumps(one.document()))
    assert rows(
        path, "SELECT id, decision, ts, target, class, status, input_tokens, usage, cost_micro_usd FROM attempts"
    ) == [
        ("dec_0009/1", "dec_0009", 9.1, "t1", "timeout", None, 1, "reported", 5),
        ("dec_0009/2", "dec_0009", 9.2, "t2", "timeout", None, 2, "reported", 10),
        ("dec_0009/3", "dec_0009", 9.3, "t3", "ok", 200, 3, "reported", 15),
    ]
    assert rows(path, "SELECT digest, text FROM policies") == [POLICY]
    assert rows(path, "SELECT since, until, count, reason FROM gaps") == [(1.5, 2.5, None, "not_stopped")]


def test_documents_of_one_route_and_of_others_are_each_their_own() -> None:
    shared, facts = {"eu": {"region": "eu"}}, decision(1).facts
    made = Documents()
    for n in range(3_000):
        labels = shared if n % 2 else {"eu": {"region": f"r{n}"}}  # gone at once: its number is given again
        one = decision(n, labels=labels, facts=facts if n % 3 else {})
        assert json.loads(made.encoded(one)) == json.loads(json.dumps(one.document()))


def test_the_file_is_the_owners_alone_and_in_wal_mode(path: Path) -> None:
    with opened(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_numbers_that_no_database_holds_are_cut_not_fatal(path: Path) -> None:
    huge = AttemptRow(1, "eu", "acme", "k", "ok", 200, input_tokens=10**30, cost_micro_usd=10**30)
    with opened(path) as ledger:
        fill(ledger, 1, attempts=(huge,))
    assert rows(path, "SELECT input_tokens, cost_micro_usd FROM attempts") == [(2**63 - 1, 2**63 - 1)]


def test_what_was_written_is_not_written_twice(path: Path) -> None:
    with opened(path) as ledger:
        for _ in range(2):  # a commit whose answer was lost is tried again
            ledger.policy(*POLICY)
            fill(ledger, 1, 2)
    assert rows(path, "SELECT count(*), count(DISTINCT id) FROM attempts") == [(2, 2)]
    assert rows(path, "SELECT count(*) FROM decisions") == [(2,)]


def test_relative_means_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(Path("here.db")) as ledger:
        fill(ledger, 1)
    assert (tmp_path / "here.db").is_file()


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_a_locked_file_fails_soon_and_is_written_once_it_is_free(path: Path) -> None:
    with opened(path) as ledger:
        fill(ledger, 1)
        with locked(path):
            ledger.record(decision(2))
            for _ in range(2):
                with pytest.raises(database.LedgerLocked):
                    ledger.flush()
            assert len(ledger.reader().decisions(Query()).data) == 1  # readers do not wait
        ledger.flush()
    assert rows(path, "SELECT id FROM decisions") == [("dec_0001",), ("dec_0002",)]


def test_a_file_that_is_locked_at_the_start_is_unavailable_not_wrong(path: Path) -> None:
    run(path, "CREATE TABLE theirs (n)")  # not in WAL mode yet: its lock keeps everybody out
    ledger = sink(path)
    with locked(path), pytest.raises(LedgerUnavailable):
        ledger.open()
    ledger.open()
    fill(ledger, 1)
    ledger.close()
    assert rows(path, "SELECT id FROM decisions") == [("dec_0001",)]


def test_a_full_disk_keeps_nothing_of_a_batch_and_everything_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = {"pages": 60}
    connect = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.execute(f"PRAGMA max_page_count = {limit['pages']}")
        return connection

    monkeypatch.setattr("narrows_plugins.record.sql.database.sqlite3.connect", small)
    with opened(path) as ledger:
        fill(ledger, 1)
        for n in range(2, 500):
            ledger.record(decision(n))
        with pytest.raises(database.LedgerFull):
            ledger.flush()
        assert rows(path, "SELECT count(*) FROM decisions") == [(1,)]
        limit["pages"] = 100_000
        ledger.flush()
    assert rows(path, "SELECT count(*) FROM decisions") == [(499,)]


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: run(path, "DROP TABLE decisions", "DROP TABLE runs"),
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("moved.db")),
    ],
    ids=["tables dropped", "deleted", "moved"],
)
def test_a_file_that_is_harmed_underneath_is_begun_again(path: Path, harm: Callable[[Path], object]) -> None:
    with opened(path) as ledger:
        ledger.policy(*POLICY)
        fill(ledger, 1)
        harm(path)
        ledger.record(decision(2))
        try:
            ledger.flush()
        except LedgerUnavailable:
            ledger.flush()
    assert rows(path, "SELECT id FROM decisions") == [("dec_0002",)]
    assert rows(path, "SELECT digest, text FROM policies") == [POLICY]
    assert rows(path, "SELECT count(*), count(stopped) FROM runs") == [(1, 1)]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda folder: folder / "none" / "ledger.db", "does not exist; create it"),
        (lambda folder: folder, "is a folder; name a file in it"),
        (lambda folder: _file(folder / "file", "x") / "ledger.db", "is no folder"),
        (lambda folder: _file(folder / "text.db", "this is no database, " * 100), "cannot be the ledger"),
    ],
    ids=["no folder", "a folder", "below a file", "no database"],
)
def test_a_place_where_no_ledger_can_be_is_told_with_what_to_do(
    tmp_path: Path, made: Callable[[Path], Path], says: str
) -> None:
    with pytest.raises(NarrowsError, match=says) as refused:
        sink(made(tmp_path)).open()
    assert not isinstance(refused.value, LedgerUnavailable)  # that would be tried again for ever
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize("may_not", ["file", "folder"])
def test_missing_rights_are_told(path: Path, may_not: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the system, whose answer is ours here: a test that runs as root may write anywhere."""
    path.touch()
    refused_path = path if may_not == "file" else path.parent
    monkeypatch.setattr("os.access", lambda asked, _: Path(asked) != refused_path)
    with pytest.raises(NarrowsError, match="written"):
        sink(path).open()


def _file(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path
