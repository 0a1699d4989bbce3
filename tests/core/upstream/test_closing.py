"""Leaving a reply closes its upstream connection: early, from anywhere, and without leaving anything behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import trio.lowlevel

from narrows.testing import Answer, Hold, RecordingProvider, Stall, Stream
from narrows.upstream import Clients, Origin, Upstream, UpstreamClosed, UpstreamFault, read_all
from tests.core.upstream.tools import first_chunk, post, raw_server, tls_before, waiting

pytestmark = pytest.mark.anyio

EVENT = b'data: {"n": 1}\n\n'
ENDLESS = Stream((EVENT,), end=False)
SOON = 1.0
"""Seconds within which an upstream must see that we left."""


async def leave_early(clients: Clients, origin: Origin) -> None:
    upstream = await post(clients, origin)
    assert (await first_chunk(upstream)).startswith(EVENT)
    await upstream.aclose()


async def at_once(
    number: int, act: Callable[[Clients, Origin], Coroutine[None, None, None]], clients: Clients, on: Origin
) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(number):
            tasks.start_soon(act, clients, on)


async def four_work_at_once(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    """All four places of a full-grown pool are free."""
    provider.default(Answer(before=Hold()))
    provider.clear()

    async def one(clients: Clients, origin: Origin) -> None:
        await read_all(await post(clients, origin))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(at_once, 4, one, clients, origin)
        await waiting(provider.wait_held, 4)
        provider.open()
    assert provider.count() == 4


def small(provider: RecordingProvider) -> Origin:
    return Origin(provider.base_url, timeout_secs=2.0, connect_secs=2.0, max_connections=4)


async def test_closing_early_is_seen_upstream(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    provider.default(ENDLESS)
    await leave_early(clients, origin)
    await waiting(provider.wait_closed, 1, SOON)
    await waiting(provider.wait_open, 0, SOON)


async def test_fifty_abandoned_streams_leave_four_places_free(clients: Clients, provider: RecordingProvider) -> None:
    provider.default(ENDLESS)
    origin = small(provider)
    await at_once(50, leave_early, clients, origin)
    await waiting(provider.wait_closed, 50, SOON)
    await waiting(provider.wait_open, 0, SOON)
    await four_work_at_once(clients, origin, provider)


async def test_fifty_cancelled_at_once_leave_four_places_free(clients: Clients, provider: RecordingProvider) -> None:
    provider.default(ENDLESS)
    origin = small(provider)
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(read_forever, clients, origin)
        await waiting(provider.wait_calls, 4)
        tasks.cancel_scope.cancel()
    await waiting(provider.wait_closed, 4, SOON)
    assert provider.count() == 4
    await four_work_at_once(clients, origin, provider)


async def read_forever(clients: Clients, origin: Origin) -> None:
    await read_all(await post(clients, origin))


@pytest.mark.parametrize("first", ["cancelled", "freed"])
async def test_a_place_is_not_lost_on_a_caller_who_leaves_as_it_comes_free(
    first: str, clients: Clients, provider: RecordingProvider
) -> None:
    """httpcore's own pool loses it (narrows.upstream.lanes)."""
    provider.default(ENDLESS)
    origin = Origin(provider.base_url, timeout_secs=2.0, connect_secs=2.0, max_connections=1)
    upstream = await post(clients, origin)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_forever, clients, origin)
        await anyio.wait_all_tasks_blocked()
        if first == "cancelled":
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await upstream.aclose()
        tasks.cancel_scope.cancel()
    provider.default(Answer())
    await read_all(await post(clients, origin))


async def test_a_place_comes_free_for_the_next_in_line(clients: Clients, provider: RecordingProvider) -> None:
    origin = Origin(provider.base_url, timeout_secs=2.0, connect_secs=0.1, max_connections=1)
    provider.default(ENDLESS)
    upstream = await post(clients, origin)
    with pytest.raises(UpstreamFault, match="connect_timeout") as caught:
        await post(clients, origin)
    assert caught.value.local  # nothing was sent, and the endpoint is not to blame
    assert provider.connections == 1
    await upstream.aclose()
    provider.default(Answer())
    await read_all(await post(clients, origin))
    assert provider.count() == 2


async def test_two_hundred_abandoned_streams_leave_nothing(
    way: str, clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(ENDLESS)
    await leave_early(clients, origin)
    await waiting(provider.wait_open, 0)
    before = (tasks_now(way), files_now())
    for _ in range(10):
        await at_once(20, leave_early, clients, origin)
    await waiting(provider.wait_closed, 201, SOON)
    await waiting(provider.wait_open, 0, SOON)
    gc.collect()
    await anyio.wait_all_tasks_blocked()
    assert (tasks_now(way), files_now()) == before


def tasks_now(way: str) -> int:
    if way == "trio":
        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


def files_now() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - names of open files, this listing's own included


@pytest.mark.parametrize("answer", [Stall(), Stall(after_headers=True), ENDLESS], ids=["silent", "headers", "body"])
async def test_a_cancelled_caller_closes_its_upstream(
    answer: Stall | Stream, clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(answer)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_forever, clients, origin)
        await waiting(provider.wait_calls, 1)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await waiting(provider.wait_closed, 1, SOON)
    await waiting(provider.wait_open, 0, SOON)


async def test_closing_within_a_cancelled_task(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    provider.default(ENDLESS)
    upstream = await post(clients, origin)
    await first_chunk(upstream)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await upstream.aclose()
    await waiting(provider.wait_closed, 1, SOON)


async def test_another_task_may_close_while_one_reads(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(ENDLESS)
    upstream = await post(clients, origin)
    await first_chunk(upstream)
    seen: list[str] = []

    async def read() -> None:
        try:
            await first_chunk(upstream)
        except UpstreamClosed:
            seen.append("closed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await upstream.aclose()
    assert seen == ["closed"]
    await waiting(provider.wait_closed, 1, SOON)
    with pytest.raises(UpstreamClosed):
        await first_chunk(upstream)
    await upstream.aclose()  # once more: nothing happens


async def test_closing_after_the_end_keeps_the_connection(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    upstream = await post(clients, origin)
    await read_all(upstream)
    await upstream.aclose()
    with pytest.raises(StopAsyncIteration):
        await first_chunk(upstream)
    await read_all(await post(clients, origin))
    assert (provider.connections, provider.closed) == (1, 0)


async def test_a_reply_closed_unread(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    provider.default(ENDLESS)
    await (await post(clients, origin)).aclose()
    await waiting(provider.wait_closed, 1, SOON)


async def test_closing_over_tls(clients: Clients, provider: RecordingProvider, tmp_path: Path) -> None:
    provider.default(ENDLESS)
    with tls_before(provider.port, tmp_path) as origin:
        await leave_early(clients, origin)
        await waiting(provider.wait_closed, 1, SOON)
        await waiting(provider.wait_open, 0, SOON)


async def test_leaving_during_the_tls_handshake(clients: Clients) -> None:
    greeted, left = threading.Event(), threading.Event()

    def mute(connection: socket.socket) -> None:
        connection.recv(65536)
        greeted.set()
        while connection.recv(65536):
            pass
        left.set()

    with raw_server(mute) as port:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_forever, clients, Origin(f"https://127.0.0.1:{port}"))
            await anyio.to_thread.run_sync(greeted.wait, 5)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(left.wait, SOON)


async def test_shutting_down_closes_what_is_in_use_and_what_is_not(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    idle = await post(clients, origin)
    await read_all(idle)
    provider.default(ENDLESS)
    used = [await post(clients, origin), await post(clients, origin)]
    await clients.aclose()
    await waiting(provider.wait_open, 0, SOON)
    for upstream in used:
        with suppress(UpstreamFault):
            await first_chunk(upstream)
        await upstream.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await post(clients, origin)
    await clients.aclose()
    assert provider.connections == 2


async def test_who_waits_for_a_place_gets_none_after_shutdown(clients: Clients, provider: RecordingProvider) -> None:
    provider.default(ENDLESS)
    origin = Origin(provider.base_url, max_connections=1)
    upstream = await post(clients, origin)
    refused: list[str] = []

    async def late() -> None:
        try:
            await post(clients, origin)
        except RuntimeError as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(late)
        await anyio.wait_all_tasks_blocked()
        await clients.aclose()
        await upstream.aclose()
    assert len(refused) == 1
    assert provider.connections == 1


async def test_a_reload_closes_what_it_no_longer_names(clients: Clients, origin: Origin) -> None:
    with RecordingProvider() as old:
        leaving = Origin(old.base_url)
        await read_all(await post(clients, leaving))
        await read_all(await post(clients, origin))
        old.default(Stream((EVENT, Hold(), EVENT)))
        upstream = await post(clients, leaving)
        await clients.keep([origin])
        assert await first_chunk(upstream) == EVENT  # it lives on the snapshot that it began with
        old.release()
        assert await read_all(upstream) == EVENT
        await waiting(old.wait_open, 0, SOON)


async def test_nothing_is_left_to_the_garbage_collector(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Stream((EVENT,) * 8, end=False))

    async def stop_within(body: Callable[[Upstream], Awaitable[None]]) -> None:
        """Give up while it reads, or between two chunks."""
        upstream = await post(clients, origin)
        with anyio.move_on_after(0.05):
            await body(upstream)
        await upstream.aclose()

    async def between(upstream: Upstream) -> None:
        async for _ in upstream.chunks:
            await anyio.sleep_forever()

    async def reading(upstream: Upstream) -> None:
        await read_all(upstream)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await leave_early(clients, origin)
        await stop_within(between)
        await stop_within(reading)
        gc.collect()
        await anyio.wait_all_tasks_blocked()
    assert [str(warning.message) for warning in caught] == []


async def test_a_reply_that_is_forgotten_is_named(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    async def forget() -> None:
        await post(clients, origin)
        gc.collect()

    provider.default(ENDLESS)
    with pytest.warns(ResourceWarning, match="aclose"):
        await forget()
    await clients.aclose()
