"""What the acceptance rows about failure and streams run against: `p`, its fallback `fb`, and routes over both.

Each row is a failure that users of other gateways met, from public bug reports; the tests bear the rows' ids.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.fixtures import quick, serve_once
from tests.e2e.support import Serve, Stage, staged

__all__ = ["chain", "quick", "serve_once", "two_targets"]

CHAIN = """
[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"

[providers.small]
kind = "openai_compatible"
base_url = "{url}"
max_connections = 4
max_retries = 0

[constraints.tagged]
kind = "attribute_match"
request_attribute = "x-tag"
target_attribute = "tag"

[targets.p]
provider = "vendor"
model = "p"
labels = { tag = "default" }

[targets.fb]
provider = "vendor"
model = "fb"
labels = { tag = "eu" }

[targets.small]
provider = "small"
model = "small"

[routes.once]
targets = ["p", "fb"]
max_retries = 0

[routes.twice]
targets = ["p", "fb"]
max_retries = 2

[routes.thrice]
targets = ["p", "fb"]
max_retries = 3

[routes.off]
targets = ["p", "fb"]
max_retries = 0
failover_on = []

[routes.tagged]
targets = ["p", "fb"]
constraints = ["tagged"]
max_retries = 0

[routes.small]
targets = ["small"]
"""


@pytest.fixture(scope="module")
def two_targets(serve_once: Serve) -> Iterator[Stage]:
    with staged(serve_once, CHAIN, {}) as stage:
        yield stage


@pytest.fixture
def chain(two_targets: Stage, quick: None) -> Stage:
    """`p`, then `fb`, fresh. Repeats do not wait."""
    two_targets.reset()
    return two_targets
