"""The middleware and the handle that it puts into a request's state."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from starlette.types import Message, Receive, Scope, Send

from narrows.server import Handle, NarrowsMiddleware
from tests.core.server.channel import Channel, http_scope
from tests.core.server.fake import FakeGateway

pytestmark = pytest.mark.anyio
Inside = Callable[[Scope], Awaitable[None]]


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


async def call(
    gateway: FakeGateway, scope: dict[str, Any], path: str | None = None, inside: Inside | None = None
) -> str:
    """Send one request through the middleware: who answered it, "app" or "gateway"."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if inside is not None:
            await inside(scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})

    channel = Channel(b"{}")
    await NarrowsMiddleware(app, gateway, path)(scope, channel.receive, channel.send)
    return "app" if channel.status == 204 else "gateway"


def ask(handle: Handle) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=handle.transport, base_url="http://narrows")


@pytest.mark.parametrize(
    ("path", "root", "asked", "inner"),
    [
        ("/llm", "", "/llm/v1/models", "/v1/models"),
        ("/llm/", "", "/llm/v1/models", "/v1/models"),
        ("/llm", "", "/llm/", "/"),
        ("/llm", "", "/llm", "/"),
        ("/llm", "", "/llmx", None),
        ("/llm", "", "/a/llm/v1", None),
        ("/llm", "/a", "/a/llm/v1", "/v1"),
        ("/llm", "/a/", "/a/llm/v1", "/v1"),
        ("/llm", "/llm", "/llm/v1", None),
        ("/", "", "/v1/models", "/v1/models"),
        (None, "", "/v1/models", None),
    ],
)
async def test_what_the_gateway_answers(
    gateway: FakeGateway, path: str | None, root: str, asked: str, inner: str | None
) -> None:
    answered = await call(gateway, http_scope("GET", asked, root_path=root), path)
    assert answered == ("app" if inner is None else "gateway")
    assert [seen.inbound.path for seen in gateway.seen] == ([] if inner is None else [inner])


async def test_a_path_without_a_slash_is_refused(gateway: FakeGateway) -> None:
    with pytest.raises(ValueError, match="'llm'; it must begin with a slash"):
        await call(gateway, http_scope(), "llm")


async def test_a_websocket_below_the_path_is_closed(gateway: FakeGateway) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept", "handle": scope["state"]["narrows"]})

    async def send(message: Message) -> None:
        sent.append(message)

    middleware = NarrowsMiddleware(app, gateway, "/llm")
    await middleware({"type": "websocket", "path": "/llm/v1", "headers": []}, receive, send)
    await middleware({"type": "websocket", "path": "/chat", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close", "websocket.accept"]
    assert isinstance(sent[1]["handle"], Handle)


async def test_a_scope_of_another_type_is_the_apps(gateway: FakeGateway) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    channel = Channel()
    await NarrowsMiddleware(app, gateway, "/")({"type": "carrier-pigeon"}, channel.receive, channel.send)
    assert seen == [{"type": "carrier-pigeon"}]


# ---- the state ---------------------------------------------------------------------------------------------------


async def test_a_state_that_all_requests_share_never_holds_a_handle(gateway: FakeGateway) -> None:
    shared = {"db": "open"}
    handles: list[Handle] = []

    async def inside(scope: Scope) -> None:
        assert scope["state"]["db"] == "open"
        handles.append(scope["state"]["narrows"])

    for _ in range(2):
        await call(gateway, http_scope(state=shared), inside=inside)
    assert shared == {"db": "open"}
    assert handles[0] is not handles[1]


async def test_a_server_without_state(gateway: FakeGateway) -> None:
    async def inside(scope: Scope) -> None:
        assert isinstance(scope["state"]["narrows"], Handle)

    await call(gateway, http_scope(), inside=inside)


async def test_what_the_app_writes_is_found_by_the_middleware_around_it(gateway: FakeGateway) -> None:
    state: dict[str, Any] = {"old": 1, "gone": 2}

    async def inside(scope: Scope) -> None:
        scope["state"]["new"] = 3
        scope["state"]["narrows"] = "the app's own"
        del scope["state"]["gone"]
        assert scope["state"] == {"old": 1, "new": 3, "narrows": "the app's own"}
        del scope["state"]["narrows"]

    scope = http_scope(state=state)
    await call(gateway, scope, inside=inside)
    assert state == {"old": 1, "new": 3}


# ---- the handle --------------------------------------------------------------------------------------------------


async def test_the_handle_speaks_for_its_request(gateway: FakeGateway) -> None:
    async def inside(scope: Scope) -> None:
        scope["user"] = "alice"  # an authentication that runs inside of us
        handle = scope["state"]["narrows"]
        for client in (ask(handle), ask(handle)):
            async with client:
                await client.get("/v1/models", headers={"authorization": "Bearer inner", "x-note": "inner"})

    await call(gateway, http_scope(path="/hello"), inside=inside)
    first, second = gateway.seen
    assert first.outer is not None
    assert first.outer is second.outer
    assert (first.outer.path, first.outer.user, first.outer.header("x-region")) == ("/hello", "alice", "eu")
    assert (first.inbound.path, first.inbound.user, first.inbound.header("x-note")) == ("/v1/models", None, "inner")
    assert first.inbound.client == first.outer.client == "192.0.2.7"
    assert first.principal is None


async def test_the_handle_has_a_transport_of_either_library(gateway: FakeGateway) -> None:
    async def inside(scope: Scope) -> None:
        handle = scope["state"]["narrows"]
        async with httpx2.AsyncClient(transport=handle.transport_for("httpx2"), base_url="http://narrows") as client:
            await client.get("/v1/models")
        async with httpx2.AsyncClient(transport=handle.transport, base_url="http://narrows") as client:
            await client.get("/v1/models")

    await call(gateway, http_scope(), inside=inside)
    assert gateway.ends == ["normal", "normal"]


async def test_the_handle_outlives_its_request(gateway: FakeGateway) -> None:
    """A task in the background may use it first when the answer has long been sent."""
    handles: list[Handle] = []

    async def inside(scope: Scope) -> None:
        scope["user"] = "alice"
        handles.append(scope["state"]["narrows"])

    async def later() -> None:
        async with ask(handles[0]) as client:
            await client.get("/v1/models")

    await call(gateway, http_scope(), inside=inside)
    async with anyio.create_task_group() as group:
        group.start_soon(later)
    outer = gateway.seen[0].outer
    assert outer is not None
    assert (outer.user, outer.header("x-region")) == ("alice", "eu")


async def test_a_request_that_is_over_is_forgotten_at_once(gateway: FakeGateway) -> None:
    """The scope holds the state, the state our handle, and the handle must not hold the scope: that circle would wait
    for the collector, once a request."""

    class Thing:
        pass

    thing = Thing()
    kept = weakref.ref(thing)
    scope = http_scope(state={"thing": thing})
    gc.disable()
    try:
        await call(gateway, scope)
        del scope, thing
        assert kept() is None
    finally:
        gc.enable()


async def test_the_handle_shows_no_header(gateway: FakeGateway) -> None:
    shown: list[str] = []

    async def inside(scope: Scope) -> None:
        shown.append(repr(scope["state"]["narrows"]))

    await call(gateway, http_scope(path="/hello", headers=[(b"authorization", b"Bearer secret")]), inside=inside)
    assert shown == ["<Handle of /hello>"]
