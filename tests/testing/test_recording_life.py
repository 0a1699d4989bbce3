"""Starting and stopping: under many connections, with idle ones, and with nothing left behind."""

from __future__ import annotations

import gc
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread

from narrows.testing import Hold, RecordingProvider, Stream
from tests.support.http import http_client

pytestmark = pytest.mark.anyio
PATH = "/chat/completions"
ASK = {"model": "m", "stream": True}
MANY = 300


def open_files() -> int:
    gc.collect()
    return len(list(Path("/dev/fd").iterdir()))


OTHERS: set[int | None] = set()
"""Providers of other modules that still run when this one begins."""


@pytest.fixture(autouse=True)
def others() -> None:
    OTHERS.clear()
    OTHERS.update(thread.ident for thread in threading.enumerate())


def provider_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "recording-provider" and t.ident not in OTHERS]


def test_three_hundred_streams_at_once(provider: RecordingProvider) -> None:
    provider.default(Stream((b"a", Hold(), b"b")))
    with ExitStack() as stack:
        # sockets, not httpx: its pool needs three seconds for this
        peers = [stack.enter_context(socket.create_connection(("127.0.0.1", provider.port))) for _ in range(MANY)]
        for peer in peers:
            peer.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        provider.wait_held(MANY)
        assert provider.open_connections == MANY
        provider.release(times=MANY)
        ends = {stack.enter_context(peer.makefile("rb")).read()[-17:] for peer in peers}
    assert ends == {b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"[-17:]}
    provider.wait_open(0)
    assert (provider.count(), provider.connections, provider.closed) == (MANY, MANY, 0)
    assert len({call.number for call in provider.calls}) == MANY


async def test_three_hundred_abandoned_streams_are_all_noticed(provider: RecordingProvider) -> None:
    provider.default(Stream((b"a",), end=False))
    limits = httpx.Limits(max_connections=MANY)

    async def abandon(client: httpx.AsyncClient) -> None:
        async with client.stream("POST", PATH, json=ASK) as reply:
            await anext(reply.aiter_raw())

    async with http_client(provider.base_url, limits=limits, timeout=30) as client:
        async with anyio.create_task_group() as group:
            for _ in range(MANY):
                group.start_soon(abandon, client)
        await to_thread.run_sync(provider.wait_closed, MANY)
        await to_thread.run_sync(provider.wait_open, 0)


def test_nothing_is_left_behind() -> None:
    with RecordingProvider():  # whatever Python opens once is open now
        pass
    before = open_files()
    for _ in range(10):
        with RecordingProvider(Stream((b"a",), end=False)) as provider:
            peers = [socket.create_connection(("127.0.0.1", provider.port)) for _ in range(5)]
            for peer in peers[:3]:
                peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            provider.wait_calls(3)
        for peer in peers:
            peer.close()
        assert provider.open_connections == 0
    assert provider_threads() == []
    assert open_files() <= before


async def test_idle_kept_alive_connections_do_not_delay_the_end() -> None:
    async with http_client() as client:
        with RecordingProvider() as provider:
            reply = await client.post(provider.base_url + PATH, json=ASK)
            assert (reply.status_code, provider.open_connections) == (200, 1)
            ending = time.monotonic()
        assert time.monotonic() - ending < 3
        assert provider_threads() == []
        with pytest.raises(httpx.TransportError):
            await client.post(provider.base_url + PATH, json=ASK)


def test_an_exception_in_the_block_passes_and_still_stops_the_provider() -> None:
    with pytest.raises(LookupError, match="mine"), RecordingProvider():
        raise LookupError("mine")
    assert provider_threads() == []


def test_use_outside_the_block_says_what_to_do() -> None:
    provider = RecordingProvider()
    for use in (lambda: provider.base_url, lambda: provider.port, provider.release, provider.open):
        with pytest.raises(RuntimeError, match="with RecordingProvider"):
            use()
    with provider:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        provider.__enter__()


def test_two_providers_at_once_are_apart() -> None:
    with RecordingProvider() as one, RecordingProvider() as two:
        assert one.port != two.port
        httpx.post(one.base_url + PATH, json=ASK)
        assert (one.count(), two.count(), two.connections) == (1, 0, 0)


def test_every_public_name_is_there() -> None:
    import narrows.testing as kit

    assert sorted(kit.__all__) == kit.__all__
    assert all(getattr(kit, name).__doc__ for name in kit.__all__ if name not in ("Script", "Scripted"))
