"""A5 (BerriAI/litellm#19216): 400s were retried num_retries times."""

from __future__ import annotations

import pytest

from narrows import FailureClass
from narrows.testing import Answer, failure_answer
from tests.e2e.support import Stage


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a5_an_unknown_parameter_is_exactly_one_call(chain: Stage, stream: bool) -> None:
    chain.provider.script("p", failure_answer(FailureClass.INVALID_REQUEST))
    response = chain.ask("thrice", stream=stream)
    assert response.status_code == 400
    assert chain.counts("p", "fb") == (1, 0)

    chain.provider.script("p", failure_answer(FailureClass.SERVER_ERROR), Answer())
    assert chain.ask("thrice", stream=stream).status_code == 200
    assert chain.counts("p", "fb") == (3, 0)  # the retries are on
