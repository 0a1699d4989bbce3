"""The gateway that the tests of the surface share, behind every way in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.surface.support import WAYS, Site, Way, opened
from tests.surface.world import KINDS, WORLD


@pytest.fixture(scope="session", params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way in."""
    chosen: Way = request.param
    return chosen


@pytest.fixture(scope="session")
def world(way: Way) -> Iterator[Site]:
    """The gateway of `world.WORLD`, started once for each way in: pytest groups the tests by it."""
    with opened(way, WORLD, kinds=KINDS) as site:
        yield site


@pytest.fixture
def site(world: Site) -> Site:
    """The same, with nothing called, recorded or logged yet."""
    world.clear()
    return world
