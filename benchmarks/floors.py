"""The floors: the least that a Python pass-through costs, one ASGI app for each choice. Served beside Narrows in one run.

UPSTREAM=http://127.0.0.1:PORT uvicorn benchmarks.floors:starlette_httpx
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

URL = os.environ.get("UPSTREAM", "http://127.0.0.1:19900") + "/v1/chat/completions"
HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length",
    "proxy-authorization", "proxy-authenticate", "expect",
})  # fmt: skip
CONNECTIONS = 1000


def _app(client: Callable[[], httpx.AsyncClient]) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with client() as app.state.client:
            yield

    async def endpoint(request: Request) -> StreamingResponse:
        body = await request.body()
        headers = [(k, v) for k, v in request.headers.items() if k not in HOP_BY_HOP]
        sent = request.app.state.client.build_request("POST", URL, headers=headers, content=body)
        reply = await request.app.state.client.send(sent, stream=True)
        kept = {k: v for k, v in reply.headers.items() if k not in HOP_BY_HOP}
        return StreamingResponse(reply.aiter_raw(), reply.status_code, kept, background=BackgroundTask(reply.aclose))

    return Starlette(routes=[Route("/v1/chat/completions", endpoint, methods=["POST"])], lifespan=lifespan)


def _plain() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    return httpx.AsyncClient(timeout=60, limits=limits)


def _aiohttp() -> httpx.AsyncClient:
    import aiohttp
    from httpx_aiohttp import AiohttpTransport

    def session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS))

    return httpx.AsyncClient(timeout=60, transport=AiohttpTransport(client=session))


starlette_httpx = _app(_plain)
starlette_httpx_aiohttp = _app(_aiohttp)
