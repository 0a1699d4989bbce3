"""`attach`, in the hosts that people have: their middleware, their lifespan, their mounts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, BaseUser, SimpleUser
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from narrows.server import NarrowsMiddleware, attach
from tests.conftest import Serve
from tests.core.server.fake import FakeGateway, Gate, after, forever, stream, whole
from tests.core.server.hosts import FRAMEWORKS, Framework, hello
from tests.support.servers import Server

CHAT = "/llm/v1/chat/completions"


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Framework:
    chosen: Framework = request.param
    return chosen


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def build(framework: Framework, **more: Any) -> Starlette:
    return FastAPI(**more) if framework == "fastapi" else Starlette(**more)


def test_a_host_without_a_lifespan_of_its_own(framework: Framework, gateway: FakeGateway, backend: Any) -> None:
    app = build(framework)
    attach(app, "/llm", gateway)
    with TestClient(app, backend=backend) as client:
        assert gateway.started
        assert client.post(CHAT, json={}).json() == {"ok": True}
    assert gateway.events == ["gateway starts", "gateway stops"]


def test_what_the_hosts_lifespan_yields_is_yielded_on(gateway: FakeGateway, backend: Any) -> None:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, str]]:
        assert gateway.started
        yield {"db": "open"}

    app = Starlette(routes=[Route("/hello", hello)], lifespan=lifespan)
    attach(app, "/llm", gateway)
    with TestClient(app, backend=backend) as client:
        assert client.get("/hello").json() == {"db": "open", "handle": "Handle"}


def test_a_lifespan_that_never_ran_is_the_gateways_to_answer(framework: Framework, gateway: FakeGateway) -> None:
    app = build(framework)
    attach(app, "/llm", gateway)
    TestClient(app).post(CHAT, json={})
    assert not gateway.started
    assert len(gateway.seen) == 1  # the engine says 503 not_started


def test_a_gateway_attached_twice_starts_once(framework: Framework, gateway: FakeGateway) -> None:
    app = build(framework)
    attach(app, "/llm", gateway)
    attach(app, "/v2", gateway)
    app.add_middleware(NarrowsMiddleware, gateway=gateway)
    with TestClient(app) as client:
        for path in (CHAT, "/v2/v1/chat/completions"):
            assert client.post(path, json={}).status_code == 200
    assert [seen.inbound.path for seen in gateway.seen] == ["/v1/chat/completions"] * 2
    assert gateway.events == ["gateway starts", "gateway stops"]


def test_a_host_that_has_started_is_refused(framework: Framework, gateway: FakeGateway) -> None:
    app = build(framework)
    TestClient(app).get("/")
    with pytest.raises(RuntimeError, match="started already"):
        attach(app, "/llm", gateway)


def test_a_path_without_a_slash_is_refused(gateway: FakeGateway) -> None:
    with pytest.raises(ValueError, match="must begin with a slash"):
        attach(Starlette(), "llm", gateway)


def test_at_the_root_it_answers_what_no_route_of_the_host_does(framework: Framework, gateway: FakeGateway) -> None:
    app = build(framework)
    app.router.routes.append(Route("/own", lambda request: JSONResponse("own")))
    attach(app, "/", gateway)
    with TestClient(app) as client:
        assert client.get("/own").json() == "own"
        assert client.get("/v1/models").json() == {"ok": True}
    assert [seen.inbound.path for seen in gateway.seen] == ["/v1/models"]


def test_below_a_root_path(framework: Framework, gateway: FakeGateway) -> None:
    """As behind a proxy, where the server was told the prefix."""
    app = build(framework)
    attach(app, "/llm", gateway)
    with TestClient(app, root_path="/api") as client:
        assert client.post(f"/api{CHAT}", json={}).status_code == 200
    assert gateway.seen[0].inbound.path == "/v1/chat/completions"


def test_in_a_host_that_is_mounted_itself(framework: Framework, gateway: FakeGateway, backend: Any) -> None:
    inner = build(framework)
    attach(inner, "/llm", gateway)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    app = Starlette(routes=[Mount("/a", routes=[Mount("/b", inner)])], lifespan=lifespan)
    with TestClient(app, backend=backend) as client:
        assert gateway.started
        assert client.post(f"/a/b{CHAT}", json={}).status_code == 200
    assert gateway.seen[0].inbound.path == "/v1/chat/completions"
    assert gateway.events == ["gateway starts", "gateway stops"]


# ---- the host's middleware ---------------------------------------------------------------------------------------


class ByHeader(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        name = conn.headers.get("x-who")
        return (AuthCredentials(), SimpleUser(name)) if name else None


async def ask(request: Request) -> Response:
    transport = request.state.narrows.transport
    async with httpx.AsyncClient(transport=transport, base_url="http://narrows") as client:
        return JSONResponse((await client.get("/v1/models")).json())


def user(framework: Framework, gateway: FakeGateway, put: Callable[[Starlette], object], path: str) -> Any:
    """Who the gateway takes the caller for."""
    app = build(framework)
    app.router.routes.append(Route("/ask", ask))
    put(app)
    with TestClient(app) as client:
        assert client.get(path, headers={"x-who": "alice"}).status_code == 200
    seen = gateway.seen[0]
    return (seen.outer or seen.inbound).user


@pytest.mark.parametrize("path", ["/llm/v1/models", "/ask"])
def test_the_hosts_authentication_applies(framework: Framework, gateway: FakeGateway, path: str) -> None:
    def put(app: Starlette) -> None:
        attach(app, "/llm", gateway)
        app.add_middleware(AuthenticationMiddleware, backend=ByHeader())

    assert user(framework, gateway, put, path).display_name == "alice"


class Copying:
    """An authentication that hands on a scope of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app({**scope, "user": "alice"}, receive, send)


def test_the_handle_sees_the_scope_as_the_hosts_middleware_has_left_it(
    framework: Framework, gateway: FakeGateway
) -> None:
    def put(app: Starlette) -> None:
        app.add_middleware(Copying)
        attach(app, "/llm", gateway)

    assert user(framework, gateway, put, "/ask") == "alice"


def test_the_middlewares_handle_waits_for_the_authentication_inside_of_it(
    framework: Framework, gateway: FakeGateway
) -> None:
    def put(app: Starlette) -> None:
        app.add_middleware(AuthenticationMiddleware, backend=ByHeader())
        app.add_middleware(NarrowsMiddleware, gateway=gateway)

    assert user(framework, gateway, put, "/ask").display_name == "alice"


def test_the_hosts_cors_applies(framework: Framework, gateway: FakeGateway) -> None:
    app = build(framework)
    app.add_middleware(CORSMiddleware, allow_origins=["https://example.org"], allow_methods=["POST"])
    attach(app, "/llm", gateway)
    ours = {"origin": "https://example.org"}
    with TestClient(app) as client:
        preflight = client.options(CHAT, headers={**ours, "access-control-request-method": "POST"})
        answer = client.post(CHAT, json={}, headers=ours)
    assert preflight.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://example.org"
    assert len(gateway.seen) == 1


def test_the_hosts_size_limit_applies(framework: Framework, gateway: FakeGateway, backend: Any) -> None:
    app = build(framework, max_body_size=10)
    attach(app, "/llm", gateway)
    with TestClient(app, backend=backend) as client:
        assert client.post(CHAT, content=b"x" * 10).status_code == 200
        assert client.post(CHAT, content=b"x" * 11).status_code == 413
        assert client.post(CHAT, content=iter([b"x" * 6, b"x" * 6])).status_code == 413


Next = Callable[[Request], Awaitable[Response]]


async def around(request: Request, call_next: Next) -> Response:
    """What most hosts' middleware looks like: starlette's BaseHTTPMiddleware, with all that it puts in between."""
    response = await call_next(request)
    response.headers["x-written"] = getattr(request.state, "written", "nothing")
    return response


@pytest.fixture(params=["attach", "middleware"])
def wrapped(request: pytest.FixtureRequest, framework: Framework, gateway: FakeGateway) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[dict[str, str]]:
        yield {"db": "open"}

    app = build(framework, lifespan=lifespan)
    app.router.routes.append(Route("/hello", hello))
    if request.param == "attach":
        attach(app, "/llm", gateway)
    else:
        app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/llm")
    app.add_middleware(BaseHTTPMiddleware, dispatch=around)
    return app


@pytest.fixture
def site(wrapped: Starlette, serve: Serve) -> Any:
    with serve(wrapped) as server:
        yield server


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def test_inside_a_function_middleware_everything_keeps_working(
    site: Server, gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    with httpx.Client(base_url=site.url, trust_env=False) as client:
        assert client.get("/hello").headers["x-written"] == "by the handler"
        gateway.script = whole(b'{"n": 1}')
        assert client.post(CHAT, json={}).json() == {"n": 1}

        gate = Gate()
        gateway.clear()
        gateway.script = stream(b"1", b"2", gate=gate)
        with client.stream("POST", CHAT, json={}) as answer:
            chunks = answer.iter_raw()
            assert next(chunks) == b"1"
            assert gateway.seen[0].chunks == 1
            gate.release()
            assert list(chunks) == [b"2"]

        gateway.clear()
        gateway.script = stream(b"1", then=forever)
        with client.stream("POST", CHAT, json={}) as answer:
            chunks = answer.iter_raw()
            next(chunks)
        gateway.wait_left(1)

        gateway.clear()
        gateway.script = after(Gate(), whole())
        with pytest.raises(httpx.ReadTimeout):
            client.post(CHAT, json={}, timeout=httpx.Timeout(5, read=0.05))
        gateway.wait_left(1)
    assert "normal" not in gateway.ends
    assert errors(caplog) == []
