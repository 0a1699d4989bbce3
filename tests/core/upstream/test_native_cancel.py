"""asyncio's own cancellation, which knows no scopes: uvicorn and hosts use it."""

from __future__ import annotations

import asyncio

import pytest

from narrows.testing import Answer, RecordingProvider, Stall, Stream
from narrows.upstream import Clients, Origin, read_all
from tests.core.upstream.tools import post

ENDLESS = Stream((b"data: x\n\n",), end=False)


@pytest.mark.parametrize("fast", [False, True], ids=["httpx", "aiohttp"])
@pytest.mark.parametrize("answer", [Stall(), Stall(after_headers=True), ENDLESS], ids=["silent", "headers", "body"])
def test_a_cancelled_task_closes_its_upstream(answer: Stall | Stream, fast: bool, provider: RecordingProvider) -> None:
    provider.default(answer)
    origin = Origin(provider.base_url, max_connections=4, timeout_secs=5.0)

    async def one(clients: Clients) -> None:
        await read_all(await post(clients, origin))

    async def main() -> None:
        clients = Clients(fast=fast)
        tasks = [asyncio.create_task(one(clients)) for _ in range(20)]
        await asyncio.to_thread(provider.wait_calls, 4)
        for task in tasks:
            task.cancel()
        endings = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(ending) for ending in endings} == {asyncio.CancelledError}
        await asyncio.to_thread(provider.wait_closed, 4, 1.0)
        await asyncio.to_thread(provider.wait_open, 0, 1.0)
        provider.default(Answer())
        await asyncio.gather(*[one(clients) for _ in range(8)])
        await clients.aclose()

    asyncio.run(main())
    assert provider.count() == 12


@pytest.mark.parametrize("fast", [False, True], ids=["httpx", "aiohttp"])
def test_a_place_is_not_lost_on_a_task_that_is_cancelled_as_it_comes_free(
    fast: bool, provider: RecordingProvider
) -> None:
    provider.default(ENDLESS)
    origin = Origin(provider.base_url, max_connections=1, connect_secs=1.0)

    async def main() -> None:
        clients = Clients(fast=fast)
        upstream = await post(clients, origin)
        late = asyncio.create_task(post(clients, origin))
        await asyncio.sleep(0)
        await upstream.aclose()
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        provider.default(Answer())
        await read_all(await post(clients, origin))
        await clients.aclose()

    asyncio.run(main())
