"""Hosts of both frameworks, with the gateway in them in each of the ways there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from narrows.server import Application, NarrowsMiddleware, attach
from tests.core.server.fake import FakeGateway
from tests.support.servers import Server

Framework = Literal["starlette", "fastapi"]
Way = Literal["app", "attach", "middleware", "transport"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True, slots=True)
class Site:
    """A host that runs. The gateway answers below `url`, the host's own routes are below `server.url`."""

    server: Server
    gateway: FakeGateway
    way: Way

    @property
    def url(self) -> str:
        return f"{self.server.url}/llm"


async def hello(request: Request) -> Response:
    """A route of the host's own. `written` is for middleware around it."""
    request.state.written = "by the handler"
    return JSONResponse({"db": request.state.db, "handle": type(getattr(request.state, "narrows", None)).__name__})


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    text = await websocket.receive_text()
    await websocket.send_text(f"{websocket.state.db}: {text}")
    await websocket.receive()  # the caller closes: where both do, hypercorn's trio worker may write in two tasks


async def forward(request: Request) -> Response:
    """Ask the gateway through the request's own transport, with a credential that must not count, and stream it out."""
    client = httpx.AsyncClient(transport=request.state.narrows.transport, base_url="http://narrows")
    headers = {"content-type": "application/json", "authorization": "Bearer inner"}
    path = f"/{request.path_params['path']}"
    asked = client.build_request(request.method, path, content=await request.body(), headers=headers)
    return Forwarded(await client.send(asked, stream=True))


class Forwarded(StreamingResponse):
    """Sends an answer on as it comes, and closes it in any case: a caller may have left before the first byte."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(answer.aiter_raw(), answer.status_code, dict(answer.headers))
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


def host(framework: Framework, way: Way, gateway: FakeGateway) -> Starlette:
    """The host, built. Its lifespan writes into `gateway.events` and yields `db`."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[dict[str, str]]:
        gateway.events.append("host starts")
        if way == "app":
            async with gateway:
                yield {"db": "open"}
        else:
            yield {"db": "open"}
        gateway.events.append("host stops")

    app = FastAPI(lifespan=lifespan) if framework == "fastapi" else Starlette(lifespan=lifespan)
    app.router.routes += [Route("/hello", hello), WebSocketRoute("/echo", echo)]
    match way:
        case "app":
            app.router.routes.append(Mount("/llm", Application(gateway)))
        case "attach":
            attach(app, "/llm", gateway)
        case "middleware":
            app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/llm")
        case "transport":
            app.add_middleware(NarrowsMiddleware, gateway=gateway)
            app.router.routes.append(Route("/llm/{path:path}", forward, methods=["GET", "HEAD", "POST"]))
    return app
