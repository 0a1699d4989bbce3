"""The servers that our own tests run applications on: both back ends, lifespan, failures, a quick and clean end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import httpx
import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from tests.conftest import Serve
from tests.support.http import http_client
from tests.support.servers import GRACE, closed_port, free_port, serve_asyncio, serve_trio

pytestmark = pytest.mark.anyio


def application(seen: list[str], fail: str = "") -> Starlette:
    """An application that writes its life into `seen` and says which library it runs on."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if fail == "startup":
            raise LookupError("no start")
        seen.append("start")
        yield
        seen.append("stop")

    async def library(request: Request) -> Response:
        return PlainTextResponse("trio" if trio.lowlevel.in_trio_run() else "asyncio")

    async def stuck(request: Request) -> Response:
        async def silence() -> AsyncIterator[bytes]:
            yield b"first"
            await request.receive()  # until the client leaves

        return StreamingResponse(silence())

    async def echo(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(await websocket.receive_text())
        await websocket.close()

    routes = [Route("/", library), Route("/stuck", stuck), WebSocketRoute("/ws", echo)]
    return Starlette(routes=routes, lifespan=lifespan)


def server_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name in ("uvicorn", "hypercorn")]


async def test_an_application_answers_on_its_own_library(serve: Serve) -> None:
    seen: list[str] = []
    with serve(application(seen)) as server:
        async with http_client(server.url) as client:
            reply = await client.get("/")
        assert reply.text == server.backend
        assert seen == ["start"]
    assert seen == ["start", "stop"]
    assert server_threads() == []


def test_the_two_servers_are_the_two_libraries() -> None:
    with serve_asyncio(application([])) as one, serve_trio(application([])) as two:
        assert (one.backend, two.backend) == ("asyncio", "trio")
        assert one.port != two.port


async def test_idle_connections_do_not_delay_the_end(serve: Serve) -> None:
    seen: list[str] = []
    async with http_client() as client:
        with serve(application(seen)) as server:
            await client.get(server.url)
            ending = time.monotonic()
        assert time.monotonic() - ending < 3
    assert seen == ["start", "stop"]


def test_a_stuck_request_delays_the_end_by_the_grace_at_most(serve: Serve) -> None:
    with ExitStack() as stack:
        with serve(application([])) as server:
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            peer.sendall(b"GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n")
            reply = stack.enter_context(peer.makefile("rb"))
            assert b"first" in (line.strip() for line in reply)
            ending = time.monotonic()
        assert time.monotonic() - ending < GRACE + 3


@pytest.mark.parametrize("serve_failing", [serve_asyncio, serve_trio])
def test_a_startup_that_fails_is_raised(serve_failing: Serve) -> None:
    with pytest.raises(RuntimeError, match="failed"), serve_failing(application([], fail="startup")):
        pass
    assert server_threads() == []


def test_an_exception_in_the_block_passes_and_stops_the_server(serve: Serve) -> None:
    seen: list[str] = []
    with pytest.raises(LookupError, match="mine"), serve(application(seen)):
        raise LookupError("mine")
    assert seen == ["start", "stop"]
    assert server_threads() == []


def test_websockets_work(serve: Serve) -> None:
    with serve(application([])) as server, ExitStack() as stack:
        peer = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        reply = stack.enter_context(peer.makefile("rb"))
        peer.sendall(
            b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert reply.readline().startswith(b"HTTP/1.1 101 ")
        while reply.readline().strip():
            pass
        peer.sendall(b"\x81\x82\x00\x00\x00\x00hi")  # one masked text frame, RFC 6455 5.2
        assert reply.read(4) == b"\x81\x02hi"


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


def test_a_closed_port_refuses() -> None:
    with closed_port() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_bad_requests_do_not_stop_a_server(serve: Serve) -> None:
    with serve(application([])) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as peer, peer.makefile("rb") as reply:
            peer.sendall(b"nonsense\r\n\r\n")
            assert b" 400 " in reply.readline()
        async with http_client(server.url) as client:
            assert (await client.get("/")).status_code == httpx.codes.OK
