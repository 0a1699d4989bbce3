"""`request.state.narrows`: the gateway as one request of the host sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from starlette.types import ASGIApp, Receive, Scope, Send

from narrows.server.answers import Answers
from narrows.server.inbound import inbound
from narrows.server.transport import Lib, transport_inside
from narrows.types import Inbound

if TYPE_CHECKING:
    import httpx
    import httpx2

KEY = "narrows"
_READ = ("method", "path", "headers", "client", "user")


class Handle:
    """Gives the host's own clients a transport into the gateway that speaks for the request it serves.

    The request's principal, attributes, session and trace are inherited; a credential of the inner request is ignored,
    and its headers speak together with the outer ones. May be used after the request has ended, and in other tasks.
    Close every response, also where the host's own answer never began: closing is what leaves the gateway.
    """

    __slots__ = ("_gateway", "_outer", "_scope")

    def __init__(self, gateway: Answers, scope: Scope) -> None:
        self._gateway, self._scope = gateway, scope
        self._outer: Inbound | None = None

    @property
    def transport(self) -> httpx.AsyncBaseTransport:
        """For `httpx.AsyncClient(transport=…)`. Handed to a client of httpx2 it works there too; typed, it is
        `transport_for("httpx2")`."""
        return self.transport_for("httpx")

    @overload
    def transport_for(self, lib: Literal["httpx"]) -> httpx.AsyncBaseTransport: ...
    @overload
    def transport_for(self, lib: Literal["httpx2"]) -> httpx2.AsyncBaseTransport: ...
    def transport_for(self, lib: Lib) -> Any:
        """The same for a client of that library. Raises ValueError for another one, ImportError where it is missing."""
        return transport_inside(self._gateway, self.inbound, lib)

    def inbound(self) -> Inbound:
        """The host's request. Read at first use and not earlier: until then the host may still say who its user is.
        Always the same object afterwards, so that the gateway can tell one request from two alike."""
        if self._outer is None:
            self._outer = inbound(self._scope, self._scope["path"])
        return self._outer

    def detach(self) -> None:
        """The request is over. Keep what may still be read; let go of the scope, which holds us in its state."""
        self._scope = {key: self._scope[key] for key in _READ if key in self._scope}

    def __repr__(self) -> str:
        return f"<Handle of {self._scope['path']}>"


class HandleMiddleware:
    """Sets `request.state.narrows`, and nothing else."""

    def __init__(self, app: ASGIApp, gateway: Answers) -> None:
        self.app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            await call_with_handle(self.app, self._gateway, scope, receive, send)
        else:
            await self.app(scope, receive, send)


async def call_with_handle(app: ASGIApp, gateway: Answers, scope: Scope, receive: Receive, send: Send) -> None:
    """Call the application with a handle in the request's state."""
    handle = Handle(gateway, scope)
    state = scope.get("state")
    scope["state"] = _RequestState({} if state is None else state, handle)
    try:
        await app(scope, receive, send)
    finally:
        handle.detach()


class _RequestState(dict[str, Any]):
    """The state of one request: a copy of its own that holds our handle.

    A server may hand the same dictionary to every request, and a handle in there would speak for the wrong caller. What
    the application writes goes to the host's dictionary too: a middleware around us may read it there afterwards.
    """

    def __init__(self, host: dict[str, Any], handle: Handle) -> None:
        super().__init__(host)
        super().__setitem__(KEY, handle)
        self._host = host

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if key != KEY:
            self._host[key] = value

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        if key != KEY:
            self._host.pop(key, None)
