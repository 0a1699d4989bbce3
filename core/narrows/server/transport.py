"""The gateway as an httpx transport: the same pipeline for a host's own clients, with no socket between.

Two libraries have that interface, httpx and its successor httpx2, and a client of one must be answered with the classes
of that one. httpx2 is never needed: it is imported when a caller who has it asks. Streams are not buffered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

import anyio

from narrows.server.answers import Answers
from narrows.server.faults import failed_reply, fault, log
from narrows.types import ClientGone, Inbound, Reply

if TYPE_CHECKING:
    import httpx
    import httpx2

Lib: TypeAlias = Literal["httpx", "httpx2"]


@overload
def transport(
    gateway: Answers, principal: str | None = None, lib: Literal["httpx"] = "httpx"
) -> httpx.AsyncBaseTransport: ...
@overload
def transport(gateway: Answers, principal: str | None, lib: Literal["httpx2"]) -> httpx2.AsyncBaseTransport: ...
@overload
def transport(
    gateway: Answers, principal: str | None = None, *, lib: Literal["httpx2"]
) -> httpx2.AsyncBaseTransport: ...
def transport(gateway: Answers, principal: str | None = None, lib: Lib = "httpx") -> Any:
    """A transport for use outside of any request: `httpx.AsyncClient(transport=transport(gateway, "ci"))`.

    `principal`: the key's name under which every request runs; then credentials in the requests are ignored. Without
    it a request must bring its own, as over a socket. The gateway must be started. Raises ValueError for another `lib`,
    ImportError where that library is missing.
    """
    return _library(lib).transport(gateway, None, principal)


def transport_inside(gateway: Answers, outer: Callable[[], Inbound], lib: Lib) -> Any:
    """A transport that speaks for the request `outer`, which is asked for at the first use."""
    return _library(lib).transport(gateway, outer, None)


@dataclass(frozen=True, slots=True)
class _Library:
    """One of the two libraries, and our classes below its own."""

    module: Any
    transport: Any
    stream: Any


@cache
def _library(name: str) -> _Library:
    if name not in get_args(Lib):
        raise ValueError(f"lib is {name!r}; write one of {', '.join(get_args(Lib))}")
    try:
        module = import_module(name)
    except ImportError:
        raise ImportError(f"a transport for {name} needs the package: pip install {name}", name=name) from None
    ours = {"__module__": __name__, "__doc__": None}
    return _Library(
        module,
        type("Transport", (_Transport, module.AsyncBaseTransport), ours),
        type("ReplyStream", (_ReplyStream, module.AsyncByteStream), ours),
    )


def _library_of(request: object) -> _Library:
    """The library that made this request, so that one transport serves clients of both."""
    for kind in type(request).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in get_args(Lib):
            return _library(name)
    raise TypeError(f"cannot send a {type(request).__name__}; a request of httpx or httpx2 is needed")


class _Transport:
    """What both transports do."""

    def __init__(self, gateway: Answers, outer: Callable[[], Inbound] | None, principal: str | None) -> None:
        self._gateway, self._outer, self._principal = gateway, outer, principal

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request. Returns as soon as the first byte is there; closing the response leaves the gateway.

        Raises the library's ReadTimeout where its client's read timeout is over, as over a socket.
        """
        library = _library_of(request)
        outer = self._outer() if self._outer is not None else None
        headers = tuple(
            [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in request.headers.raw]
        )
        client = outer.client if outer is not None else None
        query = request.url.query.decode("latin-1")
        inbound = Inbound(request.method, request.url.path, headers, client, query=query)
        body = _Body(request, library.module.RequestNotRead)
        answer = self._gateway.answer(inbound, body.read, outer=outer, principal=self._principal)
        timeout: float | None = request.extensions.get("timeout", {}).get("read")
        opened: _Opened | None = None
        with anyio.move_on_after(timeout):
            opened = await _open(answer, body)
        if opened is None:
            raise library.module.ReadTimeout(
                "the gateway did not answer within the client's read timeout", request=request
            )
        headers_out = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in opened.reply.headers]
        stream = library.stream(opened, library.module, request, timeout)
        return library.module.Response(opened.reply.status, headers=headers_out, stream=stream)


class _Body:
    """The body of the inner request, read at most once, and closed if the gateway did not want all of it."""

    __slots__ = ("_not_read", "_request", "_source", "error")

    def __init__(self, request: Any, not_read: type[Exception]) -> None:
        self._request, self._not_read = request, not_read
        self._source: Any = None
        self.error: Exception | None = None  # what the client's own generator raised

    def read(self) -> AsyncIterator[bytes]:
        try:
            content: bytes = self._request.content
        except self._not_read:  # it streams
            self._source = self._request.stream.__aiter__()
            return self
        return _Once(content)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await self._source.__anext__()
        except StopAsyncIteration:
            raise
        except Exception as error:
            self.error = error
            raise
        return chunk

    async def aclose(self) -> None:
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()


class _Once:
    """One chunk. No generator: nobody has to close it."""

    __slots__ = ("_left",)

    def __init__(self, content: bytes) -> None:
        self._left = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        content, self._left = self._left, b""
        return content


@dataclass(slots=True)
class _Opened:
    """An answer that was entered and is to be left once, by whoever is first and in whatever task."""

    reply: Reply
    answer: AbstractAsyncContextManager[Reply] | None
    body: _Body

    async def leave(self, error: Exception | None) -> None:
        """Leave the gateway as `Answers.answer` says. What fails then is logged: the answer itself is over."""
        answer, self.answer = self.answer, None
        try:
            if answer is not None:
                kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
                await answer.__aexit__(kind, error, trace)
        except Exception as fresh:  # noqa: BLE001 - as on a socket, where the caller has gone by then
            if fresh is not error:
                log.error("failed while an answer was left: %s", fault(fresh))
        finally:
            await self.body.aclose()


async def _open(answer: AbstractAsyncContextManager[Reply], body: _Body) -> _Opened:
    """Enter it. A bug of the engine becomes the same 500 that a socket would show; what the client's own generator
    raised while it was read is raised as it is."""
    try:
        return _Opened(await answer.__aenter__(), answer, body)
    except Exception as error:  # noqa: BLE001 - the engine's own bugs; their text stays here
        if body.error is not None:
            raise body.error from None
        log.error("failed before the answer began: %s", fault(error))
        return _Opened(failed_reply(), None, body)


class _ReplyStream:
    """The body of a response: the reply's chunks as they come. Closing it is leaving.

    An iterator and no generator: a client may drop it half-way, and close it in another task.
    """

    def __init__(self, opened: _Opened, module: Any, request: Any, timeout: float | None) -> None:
        self._opened, self._module, self._request, self._timeout = opened, module, request, timeout
        self._chunks = opened.reply.chunks.__aiter__()
        self._over = request.method == "HEAD"
        self._closed = False
        self._error: Exception | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next chunk. Raises the library's ReadTimeout, and RemoteProtocolError where the answer breaks off."""
        if self._over:
            raise StopAsyncIteration
        if self._closed:
            raise self._broken("the answer was closed")
        chunk: bytes | None = None
        with anyio.move_on_after(self._timeout):
            chunk = await self._next()
        if chunk is None and not self._over:
            raise self._module.ReadTimeout(
                "the gateway sent nothing within the client's read timeout", request=self._request
            )
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Leave the gateway. May be called in any task, and again."""
        self._closed = True
        if self._over:
            await self._opened.leave(None)
        else:
            await self._opened.leave(self._error or ClientGone("the client closed the answer before its end"))

    async def _next(self) -> bytes | None:
        """The next chunk; None at the end."""
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            pass
        except Exception as error:  # noqa: BLE001 - over a socket it would be a connection that breaks off
            self._error = error
            if not self._closed:
                log.error("failed after the answer had begun: %s", fault(error))
            raise self._broken(fault(error)) from None
        if self._closed:  # closed in another task while we waited: the end that we saw is not the answer's
            raise self._broken("the answer was closed")
        self._over = True
        return None

    def _broken(self, why: str) -> Exception:
        error: Exception = self._module.RemoteProtocolError(f"the answer broke off: {why}", request=self._request)
        return error
