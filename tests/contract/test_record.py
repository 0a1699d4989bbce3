"""`record` hooks that fail, behind the caller's back. Its answer is whole, and the other sinks are asked."""

from __future__ import annotations

import pytest

from tests.contract.configuration import SINKS
from tests.contract.house import House, named, served

SAYS = {
    "record_raises": "RuntimeError",
    "record_hangs": "no answer within 0.3 s",
    "record_rewrites": "TypeError",
}


def test_every_act_has_its_test() -> None:
    assert set(SAYS) == set(SINKS)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("act", SINKS)
def test_a_sink_that_fails_does_not_touch_the_answer(house: House, act: str, stream: bool) -> None:
    plain = house.ask(stream=stream)
    house.clear()
    answer = house.ask(act, stream=stream)
    assert (answer.status, answer.code, answer.target, house.called) == (200, "ok", "eu", ["eu"])
    assert answer.json.keys() == plain.json.keys() if not stream else answer.body.endswith(b"data: [DONE]\n\n")
    assert house.wait_decision(answer)["outcome"] == "answered"  # the honest sink comes last, and is asked
    house.wait_log(act)
    assert SAYS[act] in named(house, act, "record")
    house.clear()
    served(house, house.ask())


def test_a_sink_cannot_move_a_target(house: House) -> None:
    """It tried to write a region into the labels of every target: nothing is in Switzerland all the same."""
    house.wait_log(*_asked(house))
    house.clear()
    answer = house.ask(region="ch")
    assert (answer.status, answer.code, house.called) == (403, "no_eligible_target", [])


def _asked(house: House) -> tuple[str, str]:
    house.ask("record_rewrites")
    return "record_rewrites", "hook record"
