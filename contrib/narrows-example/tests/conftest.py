"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from narrows.testing import RecordingProvider


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every coroutine test runs on both: a plugin may meet either."""
    backend: str = request.param
    return backend


@pytest.fixture
def provider() -> Iterator[RecordingProvider]:
    """An upstream on a real socket. It writes down every call, so that "blocked" can be asked of a wire."""
    with RecordingProvider() as running:
        yield running
