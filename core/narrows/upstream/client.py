"""One origin's calls: how many at once, when they are given up, and what becomes of their answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio

from narrows.upstream.encoding import READABLE
from narrows.upstream.errors import UpstreamFault
from narrows.upstream.headers import incoming, without
from narrows.upstream.reply import Upstream

if TYPE_CHECKING:
    import httpx

    from narrows.upstream.wire import Wire


class Client:
    """At most `max_connections` calls at once; the others wait their turn, in order."""

    def __init__(self, wire: Wire, max_connections: int | None) -> None:
        self.wire = wire
        self._slots = None if max_connections is None else anyio.Semaphore(max_connections)
        self._active = 0
        self._retired = False
        self._closed = False

    async def send(self, request: httpx.Request, connect_secs: float, read_secs: float) -> Upstream:
        """Send it and return when the headers are there. Raises UpstreamFault; RuntimeError after `aclose`."""
        await self._enter(connect_secs)
        try:
            if self._closed:
                raise RuntimeError("the gateway's clients are closed: nothing is sent after shutdown")
            response = await self._head(request, connect_secs + read_secs)
        except BaseException:
            await self._leave()
            raise
        return await self._answer(response)

    async def retire(self) -> None:
        """Close when the last reply is done."""
        self._retired = True
        if not self._active:
            await self.aclose()

    async def aclose(self) -> None:
        """Close every connection, also those in use. May be called again."""
        self._closed = True
        await self.wire.transport.aclose()

    async def _head(self, request: httpx.Request, seconds: float) -> httpx.Response:
        response: httpx.Response | None = None
        # the library bounds every single read; this bounds their sum, against headers that come a byte at a time
        fault = UpstreamFault("read_timeout", "headers")
        with anyio.move_on_after(seconds):
            try:
                response = await self.wire.transport.handle_async_request(request)
            except self.wire.faults as error:
                fault = self.wire.fault(error)
        if response is None:
            raise fault  # out here, so that the library's exception does not hang on it (see `errors`)
        return response

    async def _answer(self, response: httpx.Response) -> Upstream:
        headers = incoming(response.headers.raw)
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding == "identity":
            return Upstream(response.status_code, headers, _body(response), faults=self.wire, leave=self._leave)
        headers = without(headers, "content-encoding", "content-length")
        upstream = Upstream(
            response.status_code, headers, _body(response), faults=self.wire, leave=self._leave, compressed=True
        )
        if coding in READABLE:
            return upstream
        # nobody behind us asked for this coding, and what cannot be read cannot be judged
        await upstream.aclose()
        if response.status_code < 400:
            raise UpstreamFault("protocol_error", "content-encoding")
        return Upstream(response.status_code, headers, _Nothing(), faults=self.wire, leave=_nothing)

    async def _enter(self, seconds: float) -> None:
        """Take a place. Waiting too long is a connect timeout, marked `local`."""
        if self._slots is not None:
            try:
                self._slots.acquire_nowait()
            except anyio.WouldBlock:
                await _wait(self._slots, seconds)
        self._active += 1

    async def _leave(self) -> None:
        self._active -= 1
        if self._slots is not None:
            self._slots.release()
        if self._retired and not self._active:
            await self.aclose()


async def _wait(slots: anyio.Semaphore, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await slots.acquire()
        return
    raise UpstreamFault("connect_timeout", "max_connections are in use", local=True)


def _body(response: httpx.Response) -> httpx.AsyncByteStream:
    import httpx

    if not isinstance(response.stream, httpx.AsyncByteStream):
        raise TypeError("a transport answered with a body that is not asynchronous")
    return response.stream


async def _nothing() -> None:
    """The slot was given back already."""


class _Nothing:
    """The body of an error that came in an unreadable coding: its status says what it is."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        return
