"""A19 (BerriAI/litellm#19077): the "no fallbacks" flag was ignored once streaming had begun."""

from __future__ import annotations

import pytest

from narrows import FailureClass
from narrows.failover import MOVING
from narrows.testing import Stream, error_event, stream_events
from tests.e2e.support import Stage

TOKENS = stream_events("p", "one two three four")


@pytest.mark.parametrize("failure", sorted(MOVING))
@pytest.mark.parametrize("place", [0, 3], ids=["first", "third"])
def test_a19_without_failover_no_other_target_is_called(chain: Stage, failure: FailureClass, place: int) -> None:
    chain.provider.script("p", Stream((*TOKENS[:place], error_event(failure), *TOKENS[place:])))
    response = chain.ask("off", stream=True)
    assert chain.counts("p", "fb") == (1, 0)
    assert response.content == b"".join(TOKENS[:place]) + error_event(failure)

    response = chain.ask("once", stream=True)  # the same where failover is on: before the first byte it moves
    assert chain.counts("p", "fb") == (2, 1 if place == 0 else 0)
