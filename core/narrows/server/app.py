"""The gateway as an ASGI application of its own: what `narrows serve` runs, and what a host mounts."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from narrows.errors import NarrowsError
from narrows.server.answers import Answers
from narrows.server.exchange import Exchange
from narrows.server.inbound import inbound, route_path
from narrows.server.lifespan import lifespan

NO_WEBSOCKET = 4404


class Application:
    """Answers every HTTP path below its mount, speaks the lifespan protocol, closes websockets.

    Mounted by hand, its lifespan is not run by the host: use `attach`, or enter the gateway in the host's own lifespan.
    Until it is started it answers 503 `not_started`.
    """

    __slots__ = ("_gateway",)

    def __init__(self, gateway: Answers) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection. Raises NarrowsError for a scope type that nobody has heard of, as ASGI asks for."""
        kind = scope["type"]
        if kind == "http":
            await Exchange(receive, send).run(self._gateway, inbound(scope, route_path(scope)))
        elif kind == "lifespan":
            await lifespan(self._gateway, receive, send)
        elif kind == "websocket":
            await refuse_websocket(receive, send)
        else:
            raise NarrowsError(
                f"cannot serve the ASGI scope type {kind!r}; only http, websocket and lifespan are known"
            )


async def refuse_websocket(receive: Receive, send: Send) -> None:
    """Close it before it is accepted: the caller sees a 403 to its handshake."""
    await receive()
    await send({"type": "websocket.close", "code": NO_WEBSOCKET, "reason": "the gateway has no websockets"})
