"""A6 (BerriAI/litellm#19985): the fallbacks were exhausted, the chain restarted, the same target was called again."""

from __future__ import annotations

import pytest

from narrows import FailureClass
from narrows.testing import failure_answer
from tests.e2e.support import Stage


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a6_a_chain_of_two_with_two_retries_is_six_calls_and_one_error(chain: Stage, stream: bool) -> None:
    for model in ("p", "fb"):
        chain.provider.script(model, failure_answer(FailureClass.SERVER_ERROR, message=f"from {model}"))
    response = chain.ask("twice", stream=stream)
    assert [call.model for call in chain.provider.calls] == ["p"] * 3 + ["fb"] * 3
    assert (response.status_code, response.json()["error"]["message"]) == (500, "from fb")
    assert response.headers["x-narrows-attempts"] == "6"
