"""A file of an older version loses nothing; a newer one is refused; every way leads to the same schema."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from narrows import ConfigError, Gap, Gateway, NarrowsError, Query
from narrows_plugins.record.sql.migrations import STEPS, VERSION
from tests.core.ledger.support import decision
from tests.core.test_recorders import CONFIG
from tests.plugins.record.sql.support import opened, rows, run, sink

FROZEN = Path(__file__).parent / "version-1.sql"
TABLES = ("decisions", "attempts", "policies", "gaps", "runs")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger of version 1, with rows in every table."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FROZEN.read_text("utf-8"))
    return path


def columns(path: Path, table: str) -> set[tuple[str, str, int, int]]:
    return {(name, kind, null, key) for _, name, kind, null, _, key in rows(path, f"PRAGMA table_info({table})")}


def content(path: Path, table: str, names: str) -> list[tuple[object, ...]]:
    return rows(path, f"SELECT {names} FROM {table} ORDER BY 1")  # noqa: S608 - names of our own schema


def indexes(path: Path) -> list[tuple[str, str]]:
    return rows(path, "SELECT tbl_name, name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY 1, 2")


def test_a_file_of_version_1_loses_no_row_and_can_be_read_and_written(old: Path) -> None:
    shared = {table: ", ".join(sorted(name for name, *_ in columns(old, table))) for table in TABLES}
    before = {table: content(old, table, shared[table]) for table in TABLES}
    assert all(before.values())
    with opened(old) as ledger:
        reader = ledger.reader()
        assert [one["id"] for one in reader.decisions(Query(principal="ci")).data] == [
            "dec_1790000003",
            "dec_1790000001",
        ]
        assert Gap(1_789_000_000.0, 1_789_000_010.5, 12, "queue_full") in reader.gaps()
        assert reader.policy("a1" * 32) == '{"routes":{}}'
        ledger.record(decision(1))
        ledger.flush()
    for table in TABLES:
        assert set(before[table]) <= set(content(old, table, shared[table]))
    assert rows(old, "SELECT count(*) FROM decisions") == [(4,)]
    assert rows(old, "SELECT version FROM schema_version") == [(VERSION,)]


def test_a_migrated_file_is_as_a_new_one(old: Path, tmp_path: Path) -> None:
    new, remade = tmp_path / "new.db", tmp_path / "remade.db"
    for path in (old, new, remade):
        with opened(path):
            pass
    run(remade, *(f"DROP TABLE {table}" for table in TABLES))
    with opened(remade):  # by the tables as the code has them now
        pass
    for table in TABLES:
        assert columns(old, table) == columns(new, table)
        assert {(name, null, key) for name, _, null, key in columns(remade, table)} == {
            (name, null, key) for name, _, null, key in columns(new, table)
        }
    assert indexes(old) == indexes(new) == indexes(remade)
    assert VERSION == max(STEPS) == len(STEPS)


def test_a_callers_page_reads_that_callers_rows_only(old: Path) -> None:
    """What version 2 is for."""
    with opened(old):
        plan = rows(old, "EXPLAIN QUERY PLAN SELECT id FROM decisions WHERE principal = 'ci' ORDER BY ts DESC, id DESC")
    assert "decisions_by_principal" in str(plan)
    assert "TEMP B-TREE" not in str(plan)


def test_a_step_that_fails_changes_nothing(old: Path, tmp_path: Path) -> None:
    run(old, "CREATE INDEX decisions_by_session ON decisions (session)")  # the second statement of the step fails
    copy = shutil.copy(old, tmp_path / "copy.db")
    with pytest.raises(NarrowsError):
        sink(old).open()
    assert rows(old, "SELECT version FROM schema_version") == [(1,)]
    assert indexes(old) == indexes(Path(copy))


@pytest.mark.anyio
async def test_a_newer_schema_is_refused_at_the_start_by_name(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with opened(path):
        pass
    run(path, "UPDATE schema_version SET version = 99")
    gateway = Gateway.from_text(CONFIG + f'[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///{path}"', open_access=True)
    with pytest.raises(ConfigError, match=f"schema version 99, and this version of narrows knows {VERSION}") as refused:
        await gateway.__aenter__()
    assert refused.value.problems[0].path == "sinks.ledger"
    assert rows(path, "SELECT version FROM schema_version") == [(99,)]
    run(path, "UPDATE schema_version SET version = 2")
    async with gateway:
        pass
