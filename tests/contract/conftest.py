"""The hostile gateway, three times: a `python -O -m narrows serve` process, and in this process on asyncio and trio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.house import CREDENTIAL, PROMPT, House, Way, house

WAYS: tuple[Way, ...] = ("process", "asyncio", "trio")


@pytest.fixture(scope="session", params=WAYS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Started once for all tests of a run: pytest groups them by it."""
    way: Way = request.param
    with house(way, tmp_path_factory.mktemp(way)) as started:
        yield started


@pytest.fixture(name="house")
def fresh(running: House) -> Iterator[House]:
    """The gateway, with nothing called and nothing logged yet. No log line may hold what a caller sent."""
    running.clear()
    yield running
    said = running.everything_said
    assert PROMPT not in said
    assert CREDENTIAL not in said
    assert "text of an exception" not in said
