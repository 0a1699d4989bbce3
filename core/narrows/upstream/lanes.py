"""A connection pool made of httpx transports that hold one connection each, and carry one request at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import anyio
import httpx

CLOSE_SECS = 2.0
"""Closing a connection never waits longer."""

SWEEP = 2
"""How many stale lanes are closed each time one comes back: more than come, so that a burst's leftovers go away."""


class Lanes(httpx.AsyncBaseTransport):
    """As many lanes as there are requests at once (the caller limits that); a lane that is free is used again.

    Two reasons, both measured on httpcore 1.0.9. Each operation of its pool looks at all connections: 64 callers at
    once cost 5 to 9 ms of CPU per request, with a lane each 0.35. And a request that waits in its pool and is cancelled
    just before it is handed a new connection leaves that connection's place taken for good. Here nothing waits, and a
    lane that did not end cleanly is thrown away whole.
    """

    def __init__(self, new: Callable[[], httpx.AsyncBaseTransport], idle_secs: float) -> None:
        self._new = new
        self._idle_secs = idle_secs
        self._free: deque[tuple[float, httpx.AsyncBaseTransport]] = deque()
        self._busy: set[httpx.AsyncBaseTransport] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        lane = self._free.pop()[1] if self._free else self._new()  # the newest: the oldest may then expire
        self._busy.add(lane)
        opened = _Opened()
        if request.url.scheme == "https":
            request.extensions = {**request.extensions, "trace": opened}
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            await self._drop(lane, opened)
            raise
        if not isinstance(response.stream, httpx.AsyncByteStream):
            await self._drop(lane)
            raise TypeError(f"{type(lane).__name__} answered with a body that is not asynchronous")
        response.stream = _LaneStream(response.stream, lambda clean: self._back(lane, clean))
        return response

    async def aclose(self) -> None:
        lanes = [lane for _, lane in self._free] + list(self._busy)
        self._free.clear()
        for lane in lanes:
            await self._drop(lane)

    async def _back(self, lane: httpx.AsyncBaseTransport, clean: bool) -> None:
        if not clean or lane not in self._busy:  # not busy: everything was closed meanwhile
            await self._drop(lane)
            return
        now = time.monotonic()
        self._busy.discard(lane)
        self._free.append((now, lane))
        for _ in range(SWEEP):
            if not self._free or now - self._free[0][0] < self._idle_secs:  # others take lanes while we close one
                return
            await self._drop(self._free.popleft()[1])

    async def _drop(self, lane: httpx.AsyncBaseTransport, opened: _Opened | None = None) -> None:
        self._busy.discard(lane)
        with anyio.move_on_after(CLOSE_SECS, shield=True):
            await lane.aclose()
            if opened is not None:
                await opened.aclose()


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class _Opened:
    """The TCP streams that one request opened, told by httpcore's `trace` extension.

    A caller who leaves during the TLS handshake would otherwise leave the socket to the garbage collector: httpcore
    closes it after an error there, and not after a cancellation.
    """

    def __init__(self) -> None:
        self._streams: list[_Closable] = []

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self._streams.append(info["return_value"])

    async def aclose(self) -> None:
        for stream in self._streams:
            await stream.aclose()


class _LaneStream(httpx.AsyncByteStream):
    """A body that gives its lane back when it is closed: for further use only where it had been read to its end."""

    def __init__(self, stream: httpx.AsyncByteStream, back: Callable[[bool], Awaitable[None]]) -> None:
        self._stream = stream
        self._back = back
        self._chunks: AsyncIterator[bytes] | None = None
        self._clean = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._chunks is None:
            self._chunks = aiter(self._stream)
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            self._clean = True
            raise

    async def aclose(self) -> None:
        clean = self._clean  # what is read after this line is no longer the whole body
        try:
            await self._stream.aclose()
        finally:
            await self._back(clean)
