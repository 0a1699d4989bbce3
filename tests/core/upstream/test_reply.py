"""A reply over a body that misbehaves, without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from narrows.upstream import Upstream, UpstreamClosed, UpstreamFault, reply

pytestmark = pytest.mark.anyio


class Faults:
    faults: tuple[type[Exception], ...] = (OSError,)

    def fault(self, error: Exception, *, reading: bool = False) -> UpstreamFault:
        return UpstreamFault("stream_cut" if reading else "protocol_error", type(error).__name__)


class Source:
    """Gives these, one by one; an exception is raised. Closing waits for `closing`."""

    def __init__(self, *items: bytes | Exception) -> None:
        self._items = list(items)
        self.closing = anyio.Event()
        self.closing_fault: Exception | None = None
        self.closed = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._items:
            raise StopAsyncIteration
        item = self._items.pop(0)
        if isinstance(item, Exception):
            raise item
        return item

    async def aclose(self) -> None:
        self.closed += 1
        if self.closing_fault is not None:
            raise self.closing_fault
        await self.closing.wait()


class Left:
    """Counts how often the connection was given back."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> None:
        self.times += 1


def made(*items: bytes | Exception) -> tuple[Upstream, Source, Left]:
    source, left = Source(*items), Left()
    return Upstream(200, (("x-a", "1"), ("x-a", "2")), source, faults=Faults(), leave=left), source, left


async def test_closing_is_shielded_and_happens_once() -> None:
    upstream, source, left = made(b"a", b"b")
    assert await anext(upstream.chunks) == b"a"
    done: list[str] = []

    async def close() -> None:
        await upstream.aclose()
        done.append("closed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
            assert (done, left.times) == ([], 0)
            source.closing.set()
    assert (done, source.closed, left.times) == (["closed"], 1, 1)
    await upstream.aclose()
    assert (source.closed, left.times) == (1, 1)


async def test_closing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "CLOSE_SECS", 0.05)
    upstream, source, left = made(b"a")
    with anyio.fail_after(2):
        await upstream.aclose()
    assert (source.closed, left.times) == (1, 1)


async def test_a_fault_closes_and_carries_nothing_of_the_library() -> None:
    upstream, source, left = made(b"a", OSError("sk-canary"))
    source.closing.set()
    assert await anext(upstream.chunks) == b"a"
    with pytest.raises(UpstreamFault, match="stream_cut") as caught:
        await anext(upstream.chunks)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert (source.closed, left.times) == (1, 1)
    with pytest.raises(UpstreamClosed):
        await anext(upstream.chunks)


async def test_a_fault_while_closing_is_none() -> None:
    upstream, source, left = made(b"a", OSError("buffered"))
    source.closing_fault = OSError("reset")
    await anext(upstream.chunks)
    await upstream.aclose()
    assert (source.closed, left.times) == (1, 1)


async def test_an_exception_that_is_no_fault_passes_and_closes() -> None:
    upstream, source, left = made(LookupError("a bug"))
    source.closing.set()
    with pytest.raises(LookupError):
        await anext(upstream.chunks)
    assert (source.closed, left.times) == (1, 1)


async def test_the_end_closes_and_stays_the_end() -> None:
    upstream, source, left = made(b"a", b"", b"b")
    source.closing.set()
    assert [chunk async for chunk in upstream.chunks] == [b"a", b"b"]
    assert [chunk async for chunk in upstream] == []
    assert (source.closed, left.times) == (1, 1)


async def test_what_it_shows() -> None:
    upstream, source, _ = made()
    source.closing.set()
    assert (upstream.header("x-a"), upstream.header("x-b"), repr(upstream)) == ("1", None, "<Upstream 200>")
    await upstream.aclose()
