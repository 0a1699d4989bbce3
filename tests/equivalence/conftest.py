"""What the table's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

CHECKS = ("bench", "bodies", "callers", "failures", "plugins", "records", "rules", "upstreams")
pytest.register_assert_rewrite(*(f"tests.equivalence.{name}" for name in CHECKS))  # they assert, and are no tests


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Repeats wait no time worth speaking of. tests/core/test_failover.py says how long they really wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("narrows.failover._FIRST_DELAY", 0.001)
        yield
