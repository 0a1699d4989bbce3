"""Reading again: newest first, pages that neither skip nor repeat, one's own only; and the same from memory."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from narrows import Gap, LedgerUnavailable, Query, Reader
from narrows.ledger import Memory
from narrows_plugins.record.sql.reading import SqlReader
from tests.core.ledger.support import decision
from tests.plugins.record.sql.support import POLICY, opened, run, sink

DECISIONS = [
    decision(n, ("ci", "batch", None)[n % 3], ts=float(n // 4), session=("s1", None)[n % 2]) for n in range(40)
]  # four at each second: their ids decide


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    """A file and a memory with the same in it, put there in another order."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    memory, shuffled = Memory(), list(DECISIONS)
    random.Random(4).shuffle(shuffled)
    with opened(path) as ledger:
        ledger.policy(*POLICY)
        for one in shuffled:
            ledger.record(one)
            memory.add(one, POLICY[1])
        ledger.flush()
    return {"sql": SqlReader(path), "memory": memory}


@pytest.fixture(params=["sql", "memory"])
def reader(readers: dict[str, Reader], request: pytest.FixtureRequest) -> Reader:
    return readers[request.param]


@pytest.mark.parametrize("limit", [1, 3, 7, 40, 41])
@pytest.mark.parametrize(
    ("query", "meant"),
    [
        (Query(), lambda one: True),
        (Query(principal="ci"), lambda one: one.principal == "ci"),
        (Query(principal="batch", session="s1"), lambda one: (one.principal, one.session) == ("batch", "s1")),
        (Query(since=5.0), lambda one: one.ts >= 5.0),
        (Query(principal="nobody"), lambda one: False),
    ],
    ids=["all", "own", "session", "since", "nobody's"],
)
def test_pages_are_newest_first_and_together_everything_once(
    reader: Reader, query: Query, meant: Callable[[object], bool], limit: int
) -> None:
    expected = sorted((one for one in DECISIONS if meant(one)), key=lambda one: (one.ts, one.id), reverse=True)
    found: list[object] = []
    before = None
    while True:
        page = reader.decisions(Query(limit, before, query.since, query.principal, query.session))
        assert len(page.data) <= limit
        found += [one["id"] for one in page.data]
        before = page.next
        if before is None:
            break
    assert found == [one.id for one in expected]


def test_nothing_is_behind_an_id_that_is_not_there_or_not_ones_own(reader: Reader) -> None:
    assert reader.decisions(Query(before="dec_none")).data == ()
    assert reader.decisions(Query(before="dec_0021", principal="batch")).data == ()  # it is ci's
    assert len(reader.decisions(Query(before="dec_0021", principal="ci")).data) == 7


def test_one_decision_and_its_policy(reader: Reader) -> None:
    found = reader.decision("dec_0007")
    assert found is not None
    assert found["ts"] == 1.0
    assert found["attempts"] == decision(7).document()["attempts"]
    assert reader.decision("dec_none") is None
    assert reader.policy(POLICY[0]) == POLICY[1]
    assert reader.policy("b2" * 32) is None


def test_gaps_are_oldest_first(tmp_path: Path) -> None:
    late, early = Gap(20.0, 30.0, 3, "queue_full"), Gap(1.0, 9.0, None, "not_stopped")
    with opened(tmp_path / "ledger.db") as ledger:
        ledger.gap(late)
        ledger.gap(early)
        ledger.flush()
        reader = SqlReader(ledger.path)
        assert reader.gaps() == (early, late)
        assert reader.gaps(since=9.5) == (late,)


def test_any_thread_may_read_while_another_one_writes(tmp_path: Path) -> None:
    wrong: list[BaseException] = []
    with opened(tmp_path / "ledger.db") as ledger:
        reader = ledger.reader()

        def read() -> None:
            try:
                seen = 0
                while seen < 60:
                    now = len(reader.decisions(Query(limit=200)).data)
                    assert now >= seen
                    assert now % 3 == 0  # whole batches
                    seen = now
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                wrong.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for n in range(20):
            for place in range(3):
                ledger.record(decision(n * 3 + place))
            ledger.flush()
        for thread in threads:
            thread.join(30)
    assert wrong == []


def test_what_cannot_be_read_is_said_to_be_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    reader = SqlReader(path)
    with pytest.raises(LedgerUnavailable, match="no ledger at"):
        reader.decisions(Query())
    assert not path.exists()  # reading makes no file
    with opened(path):
        pass
    assert reader.decisions(Query()).data == ()
    run(path, "UPDATE schema_version SET version = 1")
    with pytest.raises(LedgerUnavailable, match="a gateway brings it up to date"):
        reader.decision("dec_1")
    run(path, "UPDATE schema_version SET version = 99")
    with pytest.raises(LedgerUnavailable, match="schema version 99"):
        reader.policy(POLICY[0])
    path.write_bytes(b"this is no database, " * 100)
    with pytest.raises(LedgerUnavailable):
        reader.gaps()


def test_a_reader_needs_no_open_sink(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger.db") as ledger:
        ledger.record(decision(1))
        ledger.flush()
    found = sink(tmp_path / "ledger.db").reader().decision("dec_0001")
    assert found is not None
