"""The seam under test, in each of the ways it can work."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from narrows.testing import RecordingProvider
from narrows.upstream import Clients, Origin


@pytest.fixture(scope="module", params=["asyncio", "aiohttp", "trio"])
def way(request: pytest.FixtureRequest) -> str:
    """asyncio and trio over httpx; asyncio over aiohttp, the `fast` extra."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def anyio_backend(way: str) -> str:
    return "trio" if way == "trio" else "asyncio"


@pytest.fixture
async def clients(way: str) -> AsyncIterator[Clients]:
    made = Clients(fast=way == "aiohttp")
    yield made
    await made.aclose()


@pytest.fixture
def origin(provider: RecordingProvider) -> Origin:
    """The recording provider, patient for a second."""
    return Origin(provider.base_url, timeout_secs=1.0)
