"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import hypothesis
import pytest

from narrows.testing import RecordingProvider
from tests.support.servers import ASGIApp, Server, serve_asyncio, serve_trio

# How long one example takes says more of the machine than of the code; measurements live in benchmarks/.
hypothesis.settings.register_profile("narrows", deadline=None)
hypothesis.settings.load_profile("narrows")

Serve = Callable[[ASGIApp], AbstractContextManager[Server]]


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every coroutine test runs on both."""
    backend: str = request.param
    return backend


@pytest.fixture(params=[serve_asyncio, serve_trio], ids=["uvicorn", "hypercorn"])
def serve(request: pytest.FixtureRequest) -> Serve:
    """Runs an ASGI application on a real socket, on asyncio and on trio: `with serve(app) as server: server.url`."""
    chosen: Serve = request.param
    return chosen


@pytest.fixture
def provider() -> Iterator[RecordingProvider]:
    """A recording provider that runs during the test."""
    with RecordingProvider() as running:
        yield running
