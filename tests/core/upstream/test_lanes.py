"""The pool of lanes, with lanes that count."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from narrows.upstream.lanes import Lanes

pytestmark = pytest.mark.anyio


class Body(httpx.AsyncByteStream):
    def __init__(self) -> None:
        self._left = [b"a", b"b"]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


class Lane(httpx.AsyncBaseTransport):
    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.asked = 0
        self.closed = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.fails:
            raise httpx.ConnectError("no")
        return httpx.Response(200, stream=Body())

    async def aclose(self) -> None:
        self.closed += 1


class Made:
    """Lanes, and every lane they ever made."""

    def __init__(self, idle_secs: float = 30.0) -> None:
        self.made: list[Lane] = []
        self.fails = False
        self.lanes = Lanes(self._new, idle_secs)

    def _new(self) -> Lane:
        self.made.append(Lane(self.fails))
        return self.made[-1]

    async def ask(self) -> httpx.AsyncByteStream:
        response = await self.lanes.handle_async_request(httpx.Request("POST", "http://upstream.invalid"))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        return response.stream

    def states(self) -> list[tuple[int, int]]:
        return [(lane.asked, lane.closed) for lane in self.made]


async def read(stream: httpx.AsyncByteStream) -> None:
    assert [chunk async for chunk in stream] == [b"a", b"b"]
    await stream.aclose()


async def test_a_body_read_to_its_end_gives_its_lane_back() -> None:
    pool = Made()
    await read(await pool.ask())
    await read(await pool.ask())
    assert pool.states() == [(2, 0)]


async def test_a_body_left_early_takes_its_lane_along() -> None:
    pool = Made()
    for chunks in (0, 1, 2):  # two chunks: all of it, but who knows that before its end was seen
        stream = await pool.ask()
        for _ in range(chunks):
            await anext(aiter(stream))
        await stream.aclose()
    assert pool.states() == [(1, 1)] * 3


async def test_a_call_that_fails_takes_its_lane_along() -> None:
    pool = Made()
    pool.fails = True
    with pytest.raises(httpx.ConnectError):
        await pool.ask()
    assert pool.states() == [(1, 1)]


async def test_the_leftovers_of_a_burst_go_away() -> None:
    pool = Made(idle_secs=0.0)
    burst = [await pool.ask() for _ in range(5)]
    for stream in burst:
        await read(stream)
    assert len(pool.made) == 5
    await read(await pool.ask())
    assert sum(lane.closed for lane in pool.made) >= len(pool.made) - 1


async def test_the_newest_lane_is_used_so_that_the_oldest_may_expire() -> None:
    pool = Made()
    first, second = await pool.ask(), await pool.ask()
    await read(first)
    await read(second)
    for _ in range(3):
        await read(await pool.ask())
    assert pool.states() == [(1, 0), (4, 0)]


async def test_closing_closes_all_and_a_late_body_brings_nothing_back() -> None:
    pool = Made()
    await read(await pool.ask())
    used, other = await pool.ask(), await pool.ask()
    await pool.lanes.aclose()
    assert [lane.closed for lane in pool.made] == [1, 1]
    await read(used)
    await other.aclose()
    await pool.lanes.aclose()
    assert min(lane.closed for lane in pool.made) >= 1
    await read(await pool.ask())
    assert len(pool.made) == 3
