"""One call: what goes out, what comes back, and over which connection."""

from __future__ import annotations

import socket

import anyio
import httpx
import pytest

from narrows.testing import Answer, Hold, RecordingProvider, Redirect, Stream
from narrows.upstream import Clients, Origin, UpstreamFault, read_all
from tests.core.upstream.tools import BODY, PATH, post, waiting
from tests.support.servers import closed_port

pytestmark = pytest.mark.anyio


async def test_a_call_and_its_answer(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    provider.default(Answer(418, b'{"a": 1}', {"X-Request-Id": "r1", "Connection": "x-hop", "x-hop": "1"}))
    upstream = await clients.send(origin, "POST", PATH, {"Authorization": "Bearer k", "x-title": "t"}, BODY)
    assert (upstream.status, upstream.header("x-request-id")) == (418, "r1")
    assert dict(upstream.headers) == {"x-request-id": "r1", "content-length": "8", "content-type": "application/json"}
    assert await read_all(upstream) == b'{"a": 1}'
    [call] = provider.calls
    assert (call.method, call.path, call.body) == ("POST", "/v1/chat/completions", BODY)
    assert dict(call.headers) == {
        "host": f"127.0.0.1:{provider.port}",
        "accept-encoding": "identity",
        "authorization": "Bearer k",
        "x-title": "t",
        "content-length": str(len(BODY)),
    }


async def test_a_get_and_a_query(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    await read_all(await clients.send(origin, "GET", "/models?limit=2&after=a+b%26c", {}))
    [call] = provider.calls
    assert (call.method, call.path, call.body) == ("GET", "/v1/models?limit=2&after=a+b%26c", b"")
    assert call.header("content-length") is None


async def test_a_large_body_arrives_whole(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    body = bytes(range(256)) * 12_000  # 3 MB
    await read_all(await post(clients, origin, body))
    [call] = provider.calls
    assert call.body == body
    assert call.header("content-length") == str(len(body))


async def test_chunks_come_before_the_next_is_sent(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    events = tuple(b"data: %d\n\n" % number for number in range(5))
    gated = [part for event in events for part in (event, Hold())]
    provider.default(Stream(tuple(gated)))
    upstream = await post(clients, origin)
    for event in events:  # each is in our hands while the provider still waits to send the next
        assert await anext(upstream.chunks) == event
        await waiting(provider.wait_held, 1)
        provider.release()
    assert [chunk async for chunk in upstream.chunks] == []


async def test_connections_are_used_again(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    for _ in range(5):
        await read_all(await post(clients, origin))
    provider.default(Stream())
    for _ in range(5):
        await read_all(await post(clients, origin))
    assert (provider.count(), provider.connections) == (10, 1)


async def test_ten_at_once_take_ten_connections_and_keep_them(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    async def one() -> None:
        await read_all(await post(clients, origin))

    provider.default(Answer(before=Hold()))
    for _ in range(2):
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
            await waiting(provider.wait_held, 10)
            provider.release(times=10)
    assert (provider.count(), provider.connections) == (20, 10)


async def test_a_redirect_is_an_answer(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    with RecordingProvider() as elsewhere:
        provider.default(Redirect(307, f"{elsewhere.base_url}{PATH}"))
        upstream = await post(clients, origin)
        assert (upstream.status, await read_all(upstream)) == (307, b"")
        assert elsewhere.connections == 0
        await read_all(await post(clients, Origin(elsewhere.base_url)))  # it could have been reached
        assert elsewhere.count() == 1
    assert provider.count() == 1


async def test_cookies_are_not_kept(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    provider.default(Answer(headers={"set-cookie": "session=caller-one; Path=/"}))
    for _ in range(2):
        upstream = await post(clients, origin)
        assert upstream.header("set-cookie") is not None
        await read_all(upstream)
    assert [call.header("cookie") for call in provider.calls] == [None, None]


async def test_proxy_variables_are_ignored_and_a_configured_proxy_is_not(
    clients: Clients, origin: Origin, provider: RecordingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closed_port() as dead:
        nowhere = f"http://127.0.0.1:{dead}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, nowhere)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        await read_all(await post(clients, origin))
        assert provider.count() == 1
        with pytest.raises(UpstreamFault, match="connect_error"):
            await post(clients, Origin(provider.base_url, proxy=nowhere))
    assert provider.count() == 1


async def test_a_proxy_is_asked_for_the_whole_url(clients: Clients, provider: RecordingProvider) -> None:
    proxied = Origin("http://upstream.invalid/v1", proxy=f"http://user:pass@127.0.0.1:{provider.port}")
    await read_all(await post(clients, proxied))
    [call] = provider.calls
    assert (call.path, call.header("host")) == ("http://upstream.invalid/v1/chat/completions", "upstream.invalid")
    assert call.header("proxy-authorization") == "Basic dXNlcjpwYXNz"


@pytest.mark.parametrize("path", ["//127.0.0.1:1/x", "http://127.0.0.1:1/x", "/../x", "@127.0.0.1:1/x"])
async def test_what_would_leave_the_origin_is_not_sent(
    path: str, clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    with pytest.raises(ValueError, match="path"):
        await clients.send(origin, "POST", path, {}, BODY)
    with pytest.raises(ValueError, match="host"):
        await clients.send(origin, "POST", PATH, {"host": "other.example"}, BODY)
    assert provider.connections == 0
    await read_all(await post(clients, origin))
    assert provider.connections == 1


async def test_warming_up_connects_nowhere(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    clients.warm([origin, Origin("https://upstream.invalid")])
    assert provider.connections == 0
    with pytest.raises(OSError, match=r"No such file"):
        clients.warm([Origin("https://upstream.invalid", ca_file="absent.pem")])


async def test_every_transport_is_wrapped(way: str, origin: Origin, provider: RecordingProvider) -> None:
    seen: list[str] = []

    class Watching(httpx.AsyncBaseTransport):
        def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
            self.inner = inner

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(str(request.url))
            request.headers["traceparent"] = "00-1-1-01"
            return await self.inner.handle_async_request(request)

        async def aclose(self) -> None:
            seen.append("closed")
            await self.inner.aclose()

    clients = Clients(fast=way == "aiohttp", wrap=Watching)
    for _ in range(2):
        await read_all(await post(clients, origin))
    await clients.aclose()
    assert seen == [f"{provider.base_url}{PATH}"] * 2 + ["closed"]
    assert [call.header("traceparent") for call in provider.calls] == ["00-1-1-01"] * 2
    assert provider.connections == 1


async def test_small_writes_are_not_held_back(way: str, monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    """TCP_NODELAY is set on every socket that we open, whichever library opens it."""
    opened: list[socket.socket] = []
    connect = socket.socket.connect
    connect_ex = socket.socket.connect_ex

    class Noted(socket.socket):
        def connect(self, address: object) -> None:
            opened.append(self)
            connect(self, address)  # type: ignore[arg-type]

        def connect_ex(self, address: object) -> int:
            opened.append(self)
            return connect_ex(self, address)  # type: ignore[arg-type]

    clients = Clients(fast=way == "aiohttp")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", Noted)
        upstream = await post(clients, origin)
    assert [sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0 for sock in opened] == [True]
    await read_all(upstream)
    await clients.aclose()
