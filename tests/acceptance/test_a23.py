"""A23 (BerriAI/litellm#12383, #6770): a target tagged default received requests carrying a specific tag."""

from __future__ import annotations

from narrows import FailureClass
from narrows.testing import Answer, failure_answer
from tests.e2e.support import Stage


def test_a23_a_target_tagged_default_never_serves_a_tagged_request(chain: Stage) -> None:
    chain.provider.script("fb", Answer(), failure_answer(FailureClass.SERVER_ERROR), Answer(200, b"<html>"), Answer())
    answers = [chain.ask("tagged", {"x-tag": "eu"}, stream=number % 2 == 0) for number in range(200)]
    assert {response.status_code for response in answers} == {200, 500, 502}
    assert chain.counts("p", "fb") == (0, 200)
    assert {response.headers["x-narrows-target"] for response in answers} == {"fb"}

    assert chain.ask("tagged").headers["x-narrows-target"] == "p"
    assert chain.ask("tagged", {"x-tag": "default"}).headers["x-narrows-target"] == "p"
    assert chain.counts("p", "fb") == (2, 200)
