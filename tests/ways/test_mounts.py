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
    return answer.status_code, answer.headers["x-narrows-code"]


# ---- one gateway in two places -----------------------------------------------------------------------------------


def test_one_gateway_serves_below_a_path_around_the_host_and_its_handlers(
    app: Starlette, gateway: Gateway, kept: Kept, provider: RecordingProvider, backend: Any
) -> None:
    async def ask(request: Request) -> Response:
        async with httpx.AsyncClient(transport=request.state.narrows.transport) as client:
            answer = await client.post(f"http://narrows{CHAT}", json=BODY)
        return JSONResponse(answer.json(), answer.status_code)

    app.router.routes.append(Route("/ask", ask, methods=["POST"]))
    attach(app, "/llm", gateway)
    app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/v2")
    with TestClient(app, backend=backend) as client:
        for path in (f"/llm{CHAT}", f"/v2{CHAT}", "/ask"):
            answer = client.post(path, json=BODY, headers=CALLER)
            assert answer.json()["choices"][0]["message"]["content"] == "Answered by a."
            assert client.post(path, json=BODY).status_code == 401
        assert (kept.starts, kept.stops) == (1, 0)
    assert (kept.starts, kept.stops) == (1, 1)
    assert not gateway.started
    assert provider.count() == 3
    assert len(kept.all(6)) == 6


# ---- not started -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("put", [attached, around, mounted, wrapped, inside])
def test_without_its_lifespan_a_mount_says_so_and_calls_nobody(
    put: Put, app: Starlette, gateway: Gateway, kept: Kept, provider: RecordingProvider, backend: Any
) -> None:
    client = TestClient(put(app, gateway), backend=backend)  # not entered: no lifespan
    for method, path in (("POST", CHAT), ("POST", "/v1/explain"), ("GET", "/v1/models"), ("GET", "/health/ready")):
        answer = client.request(method, f"/llm{path}", json=BODY, headers=CALLER)
        assert refused(answer) == (503, "not_started")
        assert answer.headers["retry-after"] == "1"  # it may be about to start
        assert "x-should-retry" not in answer.headers
        assert "attach" in answer.json()["error"]["message"]
    assert client.get("/llm/health/live").status_code == 200
    assert (provider.connections, kept.starts) == (0, 0)


@pytest.mark.parametrize("put", [attached, around, inside])
def test_with_its_lifespan_the_same_mount_answers(
    put: Put, app: Starlette, gateway: Gateway, provider: RecordingProvider, backend: Any
) -> None:
    host = put(app, gateway)
    with TestClient(host, backend=backend) as client:
        assert client.get("/llm/health/ready").json() == {"status": "ready", "policy": gateway.policy}
        assert client.post(f"/llm{CHAT}", json=BODY, headers=CALLER).status_code == 200
    assert provider.count() == 1
    again = TestClient(host, backend=backend).post(f"/llm{CHAT}", json=BODY, headers=CALLER)
    assert refused(again) == (503, "not_started")  # its lifespan is over
    assert provider.count() == 1


@pytest.mark.anyio
async def test_a_transport_of_a_gateway_that_is_not_started_says_so(
    gateway: Gateway, provider: RecordingProvider
) -> None:
    async with httpx.AsyncClient(transport=transport(gateway, principal=EVERYBODY)) as client:
        assert refused(await client.post(f"http://narrows{CHAT}", json=BODY)) == (503, "not_started")
        assert provider.connections == 0
        async with gateway:
            assert (await client.post(f"http://narrows{CHAT}", json=BODY)).status_code == 200
        assert refused(await client.post(f"http://narrows{CHAT}", json=BODY)) == (503, "not_started")
    assert provider.count() == 1


@pytest.mark.anyio
async def test_a_gateway_is_started_once_at_a_time(gateway: Gateway, kept: Kept) -> None:
    async with gateway:
        with pytest.raises(RuntimeError, match="started already"):
            await gateway.__aenter__()
        assert gateway.started
    assert (kept.starts, kept.stops) == (1, 1)


# ---- without keys ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["chat", "explain", "models"])
def asked(request: pytest.FixtureRequest) -> tuple[str, str]:
    path = {"chat": CHAT, "explain": "/v1/explain", "models": "/v1/models"}[request.param]
    return "GET" if request.param == "models" else "POST", f"/llm{path}"


@pytest.mark.parametrize("put", [attached, around, inside])
def test_a_mount_without_keys_and_without_a_mode_is_no_open_relay(
    put: Put, app: Starlette, asked: tuple[str, str], provider: RecordingProvider
) -> None:
    method, path = asked
    config = basic_config({"a": provider.base_url})
    for headers in ({}, CALLER):
        with TestClient(put(type(app)(), Gateway.from_text(config))) as client:
            answer = client.request(method, path, json=BODY, headers=headers)
            if path.endswith("explain"):  # it says what would happen
                assert (answer.json()["status"], answer.json()["code"]) == (503, "auth_unset")
            else:
                assert refused(answer) == (503, "auth_unset")
                assert answer.headers["x-should-retry"] == "false"
    assert provider.connections == 0
    with TestClient(put(app, Gateway.from_text(config + '[auth]\nmode = "open"\n'))) as client:
        assert client.request(method, path, json=BODY).status_code == 200  # the control: somebody said so
    assert provider.count() == (1 if path.endswith(CHAT) else 0)


@pytest.mark.anyio
async def test_a_transport_without_keys_is_none_either(provider: RecordingProvider) -> None:
    gateway = Gateway.from_text(basic_config({"a": provider.base_url}))
    async with gateway:
        for principal, answer in ((None, (503, "auth_unset")), ("ci", (401, "unauthenticated"))):
            async with httpx.AsyncClient(transport=transport(gateway, principal=principal)) as client:
                assert refused(await client.post(f"http://narrows{CHAT}", json=BODY)) == answer
    assert provider.connections == 0


@pytest.mark.anyio
async def test_a_transport_without_a_principal_asks_for_a_credential(
    gateway: Gateway, provider: RecordingProvider, kept: Kept
) -> None:
    async with gateway, httpx.AsyncClient(transport=transport(gateway)) as client:
        assert refused(await client.post(f"http://narrows{CHAT}", json=BODY)) == (401, "unauthenticated")
        assert provider.connections == 0
        assert (await client.post(f"http://narrows{CHAT}", json=BODY, headers=CALLER)).status_code == 200
    assert [decision.principal for decision in kept.all(2)] == [None, EVERYBODY]


def test_a_host_may_start_again(gateway: Gateway, provider: RecordingProvider) -> None:
    app = Starlette()
    attach(app, "/llm", gateway)
    for _ in range(2):  # a host's own tests do, once for each client
        with TestClient(app) as client:
            assert client.post("/llm/v1/chat/completions", json=BODY, headers=CALLER).status_code == 200
    assert provider.count() == 2
