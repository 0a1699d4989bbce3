"""One site for each way in, on asyncio and on trio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.ways.config import SKETCH_ENV, UPSTREAM_KEY
from tests.ways.sites import Site, Way, opened


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    """Repeats wait no time worth speaking of, and the sketch's variable is set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("narrows.failover._FIRST_DELAY", 0.001)
        patch.setenv(SKETCH_ENV, UPSTREAM_KEY)
        yield


@pytest.fixture(scope="module", params=Way)
async def running(request: pytest.FixtureRequest, anyio_backend: str, quick: None) -> AsyncIterator[Site]:
    async with opened(request.param, anyio_backend) as site:
        yield site


@pytest.fixture
def site(running: Site) -> Site:
    """A gateway reached in one of the ways, fresh."""
    running.reset()
    return running
