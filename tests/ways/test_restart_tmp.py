"""A gateway in a host: used in two places, not started, without keys, started again. On the real engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from narrows import Gateway, NarrowsMiddleware, attach, transport
from narrows.server import Application
from narrows.testing import RecordingProvider
from tests.support.config import basic_config
from tests.ways.config import EVERYBODY, KEYS, key
from tests.ways.kept import Kept

CHAT = "/v1/chat/completions"
BODY = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
CALLER = {"authorization": f"Bearer {KEYS[EVERYBODY]}"}
Put = Callable[[Starlette, Gateway], ASGIApp]


def attached(app: Starlette, gateway: Gateway) -> ASGIApp:
    attach(app, "/llm", gateway)
    return app


def around(app: Starlette, gateway: Gateway) -> ASGIApp:
    app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/llm")
    return app


def mounted(app: Starlette, gateway: Gateway) -> ASGIApp:
    """By hand: nobody runs the lifespan of a mounted application."""
    app.router.routes.append(Mount("/llm", Application(gateway)))
    return app


def wrapped(app: Starlette, gateway: Gateway) -> ASGIApp:
    """The middleware around a whole application, below which it is mounted in another one."""
    return Starlette(routes=[Mount("/", NarrowsMiddleware(app, gateway, "/llm"))])


def inside(app: Starlette, gateway: Gateway) -> ASGIApp:
    """No path at all: only the handler's own client asks it."""
    app.add_middleware(NarrowsMiddleware, gateway=gateway)
    app.router.routes.append(Route("/llm/{path:path}", forward, methods=["GET", "POST"]))
    return app


async def forward(request: Request) -> Response:
    async with httpx.AsyncClient(transport=request.state.narrows.transport, base_url="http://narrows") as client:
        path = f"/{request.path_params['path']}"
        headers = {"content-type": "application/json"}
        answer = await client.request(request.method, path, content=await request.body(), headers=headers)
        return Response(answer.content, answer.status_code, dict(answer.headers))


@pytest.fixture(params=[Starlette, FastAPI])
def app(request: pytest.FixtureRequest) -> Starlette:
    made: Starlette = request.param()
    return made


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def gateway(provider: RecordingProvider, kept: Kept) -> Gateway:
    more = f'{key(EVERYBODY)}\n[plugins.kept]\nkind = "kept"\n'
    return Gateway.from_text(basic_config({"a": provider.base_url}, more=more), kinds={"plugins.kept": kept.kind()})


def refused(answer: Any) -> tuple[int, str]:
    assert answer.json()["error"]["code"] == answer.headers["x-narrows-code"]
@pytest.mark.parametrize("put", [attached, around, inside])
def test_a_host_that_starts_again_starts_its_gateway_again(
    put: Put, app: Starlette, gateway: Gateway, kept: Kept, provider: RecordingProvider, backend: Any
) -> None:
    host = put(app, gateway)
    for life in (1, 2):
        with TestClient(host, backend=backend) as client:
            assert client.post(f"/llm{CHAT}", json=BODY, headers=CALLER).status_code == 200
        provider.wait_open(0)  # stopping closes what was kept alive
        assert (kept.starts, kept.stops, provider.count()) == (life, life, life)
