"""`classify_error` hooks that would move what must stop. A stop beats a move, and who said otherwise is named."""

from __future__ import annotations

import json

import pytest

from narrows.testing import Answer, Script, Stream, completion, error_event, failure_answer, stream_events
from narrows.types import FailureClass
from tests.contract.hostile import upstreams
from tests.contract.house import PROMPT, House, named, served

BROKEN = {
    "classifier_raises": "RuntimeError",
    "changes_the_failure": "TypeError",
    "classifies_by_a_word": "neither a Classified of a known class nor None",
    "classifies_as_nothing_known": "neither a Classified of a known class nor None",
    "classifies_an_odd_wait": "neither a Classified of a known class nor None",
}
REFUSALS: dict[str, tuple[Script, bool]] = {
    "an error": (failure_answer(FailureClass.CONTENT_POLICY), False),
    "an error to a stream": (failure_answer(FailureClass.CONTENT_POLICY), True),
    "an error event": (Stream((error_event(FailureClass.CONTENT_POLICY),)), True),
    "a finish": (Answer(200, completion("moves_everything", finish="content_filter")), False),
    "a finish in a stream": (Stream(stream_events("moves_everything", finish="content_filter")), True),
}


def test_every_act_has_its_test() -> None:
    assert {*BROKEN, "moves_everything"} == set(upstreams.VERDICTS)


@pytest.mark.parametrize("how", REFUSALS)
def test_a_refusal_is_not_moved_by_calling_it_a_rate_limit(house: House, how: str) -> None:
    """One call, and zero to the second target, however the provider refuses. The decision says what it was."""
    script, stream = REFUSALS[how]
    house.script("moves_everything", script)
    answer = house.ask(route="moves_everything", stream=stream)
    assert house.called == ["moves_everything"]
    line = house.wait_log("moves_everything", "hook classify_error")
    assert "rate_limited" in line
    assert "content_policy" in line
    assert [row["class"] for row in house.wait_decision(answer)["attempts"]] == ["content_policy"]
    if how == "an error":
        assert (answer.status, answer.headers["x-narrows-class"]) == (400, "content_policy")
        named(house, "moves_everything", "classify_error")


@pytest.mark.parametrize("stream", [False, True])
def test_what_may_move_does(house: House, stream: bool) -> None:
    """The positive control: the same classifier, the same route, a real rate limit; and no failure at all."""
    house.script("moves_everything", failure_answer(FailureClass.RATE_LIMITED))
    assert house.ask(route="moves_everything", stream=stream).target == "spare"
    assert house.called == ["moves_everything", "spare"]
    assert house.log == []
    house.clear()
    served(house, house.ask(route="moves_everything", stream=stream), by="moves_everything")


@pytest.mark.parametrize("act", BROKEN)
def test_a_classifier_that_fails_stops_the_request(house: House, act: str) -> None:
    """A server error would have moved. Nobody knows what the broken classifier would have said, so nothing does."""
    house.script(act, Answer(500, {"error": {"message": PROMPT, "type": "server_error", "param": None, "code": None}}))
    answer = house.ask(route=act)
    assert (answer.status, answer.code) == (500, "upstream_error")
    assert answer.headers["x-narrows-class"] == "invalid_request"
    assert json.loads(answer.body)["error"]["message"] == PROMPT  # the vendor's own error, passed on
    assert house.called == [act]
    assert BROKEN[act] in named(house, act, "classify_error")
    house.clear()
    served(house, house.ask(route=act), by=act)
    house.clear()
    house.script("eu", failure_answer(FailureClass.SERVER_ERROR))
    assert house.ask().target == "eu2"  # where no classifier breaks, the same failure moves
