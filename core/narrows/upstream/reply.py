"""An upstream's answer while it arrives."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import anyio

from narrows.upstream.encoding import Inflated
from narrows.upstream.errors import UpstreamClosed, UpstreamFault

CLOSE_SECS = 2.0
"""Closing never waits longer: what is left then is the system's to clean up."""


class Source(Protocol):
    """A body as an HTTP transport gives it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class Faults(Protocol):
    """Which exceptions a transport raises, and what each of them is."""

    faults: tuple[type[Exception], ...]

    def fault(self, error: Exception, *, reading: bool = False) -> UpstreamFault: ...


class Upstream:
    """Status, headers (lower-case names, in order, hop-by-hop ones removed), and the body as it arrives.

    It is what `Reply.chunks` takes. Each chunk is raw, as it came from the socket (decompressed where the upstream
    compressed in spite of `identity`). Reading raises `UpstreamFault`, or `UpstreamClosed` after our own `aclose`. A
    read that is cancelled or fails closes the reply; one that comes to the end gives the connection back.
    """

    __slots__ = (
        "_begun",
        "_chunks",
        "_closed",
        "_ended",
        "_faults",
        "_leave",
        "_raw",
        "_reading",
        "_source",
        "headers",
        "status",
    )

    def __init__(
        self,
        status: int,
        headers: tuple[tuple[str, str], ...],
        source: Source,
        *,
        faults: Faults,
        leave: Callable[[], Awaitable[None]],
        compressed: bool = False,
    ) -> None:
        """`leave`: called exactly once, when the connection is free or gone."""
        self._begun = self._closed = self._ended = self._reading = False
        self.status = status
        self.headers = headers
        self._source = source
        self._faults = faults
        self._leave = leave
        self._raw = aiter(source)
        self._chunks: AsyncIterator[bytes] = Inflated(self._raw) if compressed else self._raw

    @property
    def chunks(self) -> AsyncIterator[bytes]:
        """The body. The same iterator each time."""
        return self

    def header(self, name: str) -> str | None:
        """The first value of that header, or None. `name` in lower case."""
        return next((value for key, value in self.headers if key == name), None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        if self._closed:
            raise UpstreamClosed
        fault: UpstreamFault | None = None
        self._begun = self._reading = True
        try:
            while True:
                chunk = await anext(self._chunks)
                if chunk:
                    return chunk
        except StopAsyncIteration:
            self._ended = not self._closed
        except self._faults.faults as error:
            fault = self._faults.fault(error, reading=True)
        except BaseException:
            self._reading = False
            await self.aclose()
            raise
        finally:
            self._reading = False
        # raised out here, so that no exception of the library (whose text may quote a key) hangs on ours
        if self._closed:
            raise UpstreamClosed
        await self.aclose()
        if fault is not None:
            raise fault
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close. Where the body was not read to its end, the connection is closed with it, at once.

        May be called again, from any task, also while another one reads (that one gets `UpstreamClosed`), and in a
        cancelled one: it is shielded, for at most 2 s. An upstream's fault while closing is none any more.
        """
        if self._closed:
            return
        self._closed = True
        try:
            with anyio.move_on_after(CLOSE_SECS, shield=True):
                with suppress(*self._faults.faults):
                    await self._source.aclose()
                if self._begun and not self._ended and not self._reading:
                    await self._exhaust()
        finally:
            await self._leave()  # waits for nothing, but where a reload left this reply the last of its origin

    async def _exhaust(self) -> None:
        """Let the library's nested generators end. Closing the outer one would leave the inner ones to the garbage
        collector (trio warns of each); reading on a closed connection ends all of them, after what was buffered."""
        with suppress(StopAsyncIteration, *self._faults.faults):
            while True:
                await anext(self._raw)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warnings.warn("an upstream reply was dropped without aclose()", ResourceWarning, source=self, stacklevel=1)

    def __repr__(self) -> str:
        return f"<Upstream {self.status}>"
