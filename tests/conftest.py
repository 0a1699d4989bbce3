"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import hypothesis
import pytest

from narrows.testing import RecordingProvider
from tests.support.servers import ASGIApp, Server, serve_asyncio, serve_trio

# How long one example takes says more of the machine than of the code; measurements live in benchmarks/.
hypothesis.settings.register_profile("narrows", deadline=None)
hypothesis.settings.load_profile("narrows")

HERE = Path(__file__).parent
ON_ONE_PYTHON = (
    "architecture",
    "docs",
    "tools",
    "core/cli/test_screens.py",
    "core/config/test_schema.py",
    "core/test_eighth_class.py",
    "equivalence/test_guard.py",
)
"""Tests of files, of pages and of what a type checker says: every Python would answer alike, so tox asks one."""

Serve = Callable[[ASGIApp], AbstractContextManager[Server]]


@pytest.hookimpl(tryfirst=True)  # before pytest itself selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is asked once."""
    once = [HERE / place for place in ON_ONE_PYTHON]
    for item in items:
        if any(item.path.is_relative_to(place) for place in once):
            item.add_marker("on_one_python")


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
