"""A7 (agentgateway/agentgateway#1500): a provider's 429 without Retry-After never failed over. Cooling comes later."""

from __future__ import annotations

import pytest

from narrows.testing import Answer
from tests.e2e.support import Stage


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("body", [None, b"", b"Too Many Requests"], ids=["json", "empty", "text"])
def test_a7_a_429_without_headers_fails_over_within_the_request(chain: Stage, body: bytes | None, stream: bool) -> None:
    chain.provider.script("p", Answer(429, body))
    response = chain.ask("thrice", stream=stream)
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, "fb")
    assert [call.model for call in chain.provider.calls] == ["p", "fb"]
    assert [row.failure_class for row in chain.decision(response).attempts] == ["rate_limited", "ok"]
