"""A3 (BerriAI/litellm#40406): an outage fallback silently became a way round a provider's refusal."""

from __future__ import annotations

import pytest

from narrows import FailureClass
from narrows.testing import failure_answer
from tests.e2e.support import Stage


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a3_a_providers_refusal_is_not_asked_of_another(chain: Stage, stream: bool) -> None:
    refusal = failure_answer(FailureClass.CONTENT_POLICY)
    chain.provider.script("p", refusal)
    response = chain.ask("thrice", stream=stream)
    assert (response.status_code, response.json()) == (400, refusal.body)
    assert response.json()["error"]["code"] == "content_policy_violation"
    assert response.headers["x-narrows-class"] == "content_policy"
    assert chain.counts("p", "fb") == (1, 0)
    assert [row.failure_class for row in chain.decision(response).attempts] == ["content_policy"]

    chain.provider.script("p", failure_answer(FailureClass.RATE_LIMITED))
    assert chain.ask("thrice", stream=stream).headers["x-narrows-target"] == "fb"
