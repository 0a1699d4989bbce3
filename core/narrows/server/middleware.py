"""The gateway around an application, as pure ASGI middleware."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from narrows.server.answers import Answers
from narrows.server.app import refuse_websocket
from narrows.server.exchange import Exchange
from narrows.server.handle import call_with_handle
from narrows.server.inbound import below, inbound, route_path
from narrows.server.lifespan import lifespan


class NarrowsMiddleware:
    """Below `path` the gateway answers, elsewhere the application does, and finds `request.state.narrows`.

    `app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/llm")`. Without `path` the gateway answers nothing by
    itself. It starts before the application's lifespan and stops after it. Middleware that is added later runs around
    it; what must apply to the gateway's answers too (authentication, CORS) has to be added after it.
    """

    def __init__(self, app: ASGIApp, gateway: Answers, path: str | None = None) -> None:
        self.app = app
        self._gateway = gateway
        self._path = None if path is None else checked_path(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await lifespan(self._gateway, receive, send, lambda receive, send: self.app(scope, receive, send))
        elif kind not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif self._path is None or (path := below(route_path(scope), self._path)) is None:
            await call_with_handle(self.app, self._gateway, scope, receive, send)
        elif kind == "http":
            await Exchange(receive, send).run(self._gateway, inbound(scope, path))
        else:
            await refuse_websocket(receive, send)


def checked_path(path: str) -> str:
    """The path of a mount. A slash at its end says nothing; "/" is everything. Raises ValueError."""
    if not path.startswith("/"):
        raise ValueError(f"path is {path!r}; it must begin with a slash, as in '/llm'")
    return path
