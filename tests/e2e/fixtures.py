"""The gateway that the tests of dispatch share, under uvicorn and under hypercorn; imported by each `conftest`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.stages import KEYS, THREE
from tests.e2e.support import Serve, Stage, staged
from tests.support.servers import closed_port, serve_asyncio, serve_trio


@pytest.fixture(scope="module", params=[serve_asyncio, serve_trio], ids=["uvicorn", "hypercorn"])
def serve_once(request: pytest.FixtureRequest) -> Serve:
    """`serve` for a whole module."""
    chosen: Serve = request.param
    return chosen


@pytest.fixture(scope="module")
def three_targets(serve_once: Serve) -> Iterator[Stage]:
    with closed_port() as port, staged(serve_once, THREE.replace("{dead}", str(port)), KEYS) as stage:
        yield stage


@pytest.fixture
def stage(three_targets: Stage) -> Stage:
    """The routes of `stages.THREE`, fresh."""
    three_targets.reset()
    return three_targets


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    """Repeats wait 10 ms instead of half a second. tests/core/test_failover.py says how long they really wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("narrows.failover._FIRST_DELAY", 0.01)
        yield
