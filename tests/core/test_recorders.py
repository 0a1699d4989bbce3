"""The record of a gateway: sinks in threads of their own, memory where none can be read, and a start and a stop that are
bounded whatever a sink does."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import httpx
import pytest

from narrows import (
    Block,
    ConfigError,
    Decision,
    Gateway,
    LedgerUnavailable,
    Page,
    Query,
    Reader,
    Sink,
    hookimpl,
    transport,
)
from narrows.ledger import Memory
from narrows.recorders import Recorders
from tests.core.ledger.support import decision, until

pytestmark = pytest.mark.anyio
CONFIG = """
[providers.echo]
kind = "echo"
[targets.a]
provider = "echo"
model = "m"
[routes.chat]
targets = ["a"]
"""
KEYS = '[auth]\nmode = "keys"\n[keys.ci]\nsha256 = "' + "a1" * 32 + '"\n'


class Notes(Sink):
    """Notes who was called, and does as a test says."""

    said: ClassVar[list[tuple[str, str]]] = []
    threads: ClassVar[set[int]] = set()
    does: ClassVar[dict[str, Callable[[], Any]]] = {}
    read: ClassVar[Reader | None] = None
    name: str = "notes"

    def _note(self, what: str) -> Any:
        Notes.threads.add(threading.get_ident())
        Notes.said.append((self.name, what))
        return Notes.does.get(what, lambda: None)()

    def open(self) -> Any:
        """Noted."""
        return self._note("open")

    @hookimpl
    def record(self) -> Any:  # type: ignore[override]  # as hooks may
        """Noted; it takes fewer arguments than it is offered."""
        return self._note("record")

    def flush(self) -> Any:
        """Noted."""
        return self._note("flush")

    def close(self) -> Any:
        """Noted."""
        return self._note("close")

    def reader(self) -> Reader | None:
        """What the test says."""
        return Notes.read


class Free(Block):
    """A free plugin with the hook."""

    raises: bool = False
    asked: ClassVar[list[tuple[bool, int]]] = []

    @hookimpl
    def record(self, decision: Decision) -> None:
        """Noted, in the thread of the event loop."""
        Free.asked.append((self.raises, threading.get_ident()))
        if self.raises:
            raise RuntimeError("text of an exception")


@pytest.fixture(autouse=True)
def clean() -> None:
    Notes.said.clear()
    Notes.threads.clear()
    Notes.does.clear()
    Notes.read = None
    Free.asked.clear()


def made(more: str = "", kinds: dict[str, type[Block]] | None = None) -> Gateway:
    known: dict[str, type[Block]] = {"sinks.notes": Notes, "plugins.free": Free, **(kinds or {})}
    return Gateway.from_text(CONFIG + more, kinds=known, open_access=True)


async def ask(gateway: Gateway, n: int = 1) -> list[httpx.Response]:
    body = {"model": "chat", "messages": [{"role": "user", "content": "x"}]}
    async with httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        return [await client.post("/v1/chat/completions", json=body) for _ in range(n)]


@pytest.fixture
async def with_sink() -> AsyncIterator[Gateway]:
    async with made('[sinks.one]\nkind = "notes"\n[sinks.two]\nkind = "notes"\nname = "two"\n') as gateway:
        yield gateway


async def test_no_sink_is_called_in_the_thread_of_the_requests(with_sink: Gateway) -> None:
    (answer,) = await ask(with_sink)
    assert answer.status_code == 200
    until(lambda: {("notes", "record"), ("two", "record")} <= set(Notes.said))
    assert threading.get_ident() not in Notes.threads
    assert len(Notes.threads) == 2  # each has one of its own


async def test_a_sink_that_hangs_holds_up_neither_an_answer_nor_another_sink(with_sink: Gateway) -> None:
    go = threading.Event()
    mine = [go]
    Notes.does["record"] = lambda: mine.pop().wait(30) if mine else None  # the first that comes hangs, whichever it is
    try:
        for answer in await ask(with_sink, 3):
            assert answer.status_code == 200
        until(lambda: [what for _, what in Notes.said].count("record") >= 4)
        until(lambda: with_sink.engine.recorders.queued == 3)
    finally:
        go.set()
    until(lambda: with_sink.engine.recorders.queued == 0)


async def test_a_gateway_is_started_again_and_its_sinks_with_it() -> None:
    gateway = made('[sinks.one]\nkind = "notes"')
    assert Notes.said == []  # making one opens nothing
    for _ in range(2):
        async with gateway:
            await ask(gateway)
        assert [what for _, what in Notes.said] == ["open", "record", "flush", "close"]
        Notes.said.clear()
    assert not [thread for thread in threading.enumerate() if thread.name == "narrows-one"]


async def test_a_sink_that_cannot_be_opened_refuses_the_start_without_the_words_of_a_stranger() -> None:
    gateway = made('[sinks.one]\nkind = "notes"')
    Notes.does["open"] = lambda: _raise(ValueError("postgresql://user:password@host"))
    with pytest.raises(ConfigError) as refused:
        await gateway.__aenter__()
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("start_failed", "sinks.one")
    assert "ValueError" in problem.message
    assert "password" not in str(refused.value)
    assert not gateway.started
    Notes.does.clear()
    async with gateway:
        assert [answer.status_code for answer in await ask(gateway)] == [200]


async def test_a_sink_that_cannot_say_where_it_is_read_refuses_the_start_before_any_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = made('[sinks.one]\nkind = "notes"')
    monkeypatch.setattr(Notes, "reader", lambda self: _raise(ValueError("postgresql://user:password@host")))
    with pytest.raises(ConfigError) as refused:
        await gateway.__aenter__()
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("start_failed", "sinks.one")
    assert "ValueError" in problem.message
    assert "password" not in str(refused.value)
    assert Notes.said == []
    monkeypatch.undo()
    async with gateway:
        assert [answer.status_code for answer in await ask(gateway)] == [200]


async def test_a_sink_that_is_not_there_yet_does_not_refuse_the_start() -> None:
    gateway = made('[sinks.one]\nkind = "notes"')
    Notes.does["open"] = lambda: _raise(LedgerUnavailable("locked"))
    async with gateway:
        assert [answer.status_code for answer in await ask(gateway)] == [200]
        assert gateway.engine.recorders.queued == 1
        Notes.does.clear()
        until(lambda: gateway.engine.recorders.queued == 0)
        assert gateway.engine.calls.errors["one", "record"] >= 1


async def test_a_stop_is_bounded_and_says_what_is_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("narrows.recorders.FLUSH_SECS", 0.1)
    monkeypatch.setattr("narrows.recorders.GRACE_SECS", 0.1)
    gateway, go = made('[sinks.one]\nkind = "notes"'), threading.Event()
    Notes.does["record"] = lambda: go.wait(30)
    try:
        async with gateway:
            await ask(gateway, 3)
            started = time.monotonic()
        assert time.monotonic() - started < 5
        assert (gateway.engine.recorders.queued, gateway.engine.recorders.dropped) == (0, 3)
        assert "sink one: 3 decisions could not be written" in caplog.text
    finally:
        go.set()


async def test_free_plugins_are_asked_as_before_and_one_that_fails_keeps_no_other_from_it() -> None:
    more = '[plugins.fails]\nkind = "free"\nraises = true\n[plugins.works]\nkind = "free"\n'
    async with made(more + '[sinks.one]\nkind = "notes"') as gateway:
        assert [answer.status_code for answer in await ask(gateway)] == [200]
        assert [raises for raises, _ in Free.asked] == [True, False]
        assert {thread for _, thread in Free.asked} == {threading.get_ident()}
        assert gateway.engine.calls.errors == {("fails", "record"): 1}


# ---- where they are read ---------------------------------------------------------------------------------------------


class Elsewhere:
    """A reader that has one decision."""

    def decisions(self, query: Query) -> Page:
        return Page(({"id": "elsewhere"},))

    def decision(self, key: str) -> None:
        return None

    def policy(self, digest: str) -> None:
        return None

    def gaps(self, since: float | None = None) -> tuple[()]:
        return ()


async def test_the_first_sink_that_can_be_read_is_and_memory_where_none_can() -> None:
    async with made('[sinks.one]\nkind = "notes"') as gateway:
        await ask(gateway, 2)
        assert isinstance(gateway.engine.recorders.reader, Memory)
        assert len(gateway.engine.recorders.reader.decisions(Query()).data) == 2
        assert gateway.engine.recorders.reader.policy(gateway.policy) == gateway.snapshot.canonical
    Notes.read = Elsewhere()
    async with gateway:
        assert id(gateway.engine.recorders.reader) == id(Notes.read)


def test_offering_costs_microseconds_and_memory_keeps_the_last_thousand() -> None:
    recorders = Recorders()
    one = decision(1)
    started = time.perf_counter()
    for _ in range(2_000):
        recorders.offer(one, "the policy")
    assert (time.perf_counter() - started) / 2_000 < 0.001  # it takes about a thousandth of that
    assert len(recorders.reader.decisions(Query(limit=5_000)).data) == 1_000


async def test_requests_of_nobody_do_not_push_callers_out_of_memory() -> None:
    async with made(KEYS) as gateway:
        recorders = gateway.engine.recorders
        recorders.offer(decision(1), "the policy")
        assert [answer.status_code for answer in await ask(gateway)] == [401]
        for n in range(2, 3_000):
            recorders.offer(decision(n, None), "the policy")
        found = recorders.reader.decisions(Query(limit=5_000)).data
        assert found[-1]["id"] == "dec_0001"
        assert len(found) == 101


def _raise(error: Exception) -> None:
    raise error
