"""A8 (kgateway-dev/kgateway#11116): all retries hit the first-priority pool."""

from __future__ import annotations

import pytest

from narrows import FailureClass
from narrows.testing import failure_answer
from tests.e2e.support import Stage


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a8_a_rate_limit_moves_at_once_whatever_the_retries(chain: Stage, stream: bool) -> None:
    chain.provider.script("p", failure_answer(FailureClass.RATE_LIMITED, retry_after=60))
    assert chain.ask("thrice", stream=stream).status_code == 200
    assert [call.model for call in chain.provider.calls] == ["p", "fb"]
