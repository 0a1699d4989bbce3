"""A20 (BerriAI/litellm#27967): a mid-stream fallback sent an assistant prefill which the target rejects."""

from __future__ import annotations

import pytest

from narrows import FailureClass
from narrows.testing import Hold, Stream, error_event, stream_events
from tests.e2e.support import Stage

TOKENS = stream_events("p", "one two three four")
PASSING = sorted(set(FailureClass) - {FailureClass.AUTHENTICATION})


@pytest.mark.parametrize("failure", PASSING)
@pytest.mark.parametrize("gap", [False, True], ids=["together", "gap"])
def test_a20_after_the_first_byte_nobody_else_is_called(chain: Stage, failure: FailureClass, gap: bool) -> None:
    chain.provider.open("gap")
    pause = (Hold("gap"),) if gap else ()
    chain.provider.script("p", Stream((TOKENS[0] + TOKENS[1], *pause, error_event(failure))))
    response = chain.ask("thrice", stream=True)
    assert response.content == TOKENS[0] + TOKENS[1] + error_event(failure)  # the vendor's own error, whole
    decision = chain.decision(response)
    assert (decision.outcome, [row.failure_class for row in decision.attempts]) == ("upstream_error", [failure])
    assert chain.counts("p", "fb") == (1, 0)
