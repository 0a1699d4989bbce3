"""`record` hooks that fail, behind the caller's back. Its answer is whole, the other sinks are asked, and a sink that
fails for one decision goes on with the next ones."""

from __future__ import annotations

import time

import pytest

from tests.contract.configuration import SINKS
from tests.contract.house import PATIENCE, House, named, served

SAYS = {
    "record_raises": "RuntimeError",
    "record_hangs": "no answer within 0.3 s",
    "record_rewrites": "TypeError",
}


def test_every_act_has_its_test() -> None:
    assert set(SAYS) == set(SINKS)


@pytest.mark.parametrize("act", SINKS)
def test_a_sink_that_fails_does_not_touch_the_answer(house: House, act: str) -> None:
    plain = house.ask()
    house.clear()
    answer = house.ask(act)
    assert (answer.status, answer.code, answer.target, house.called) == (200, "ok", "eu", ["eu"])
    assert answer.json.keys() == plain.json.keys()
    assert house.wait_decision(answer)["outcome"] == "answered"  # the honest sink has a thread of its own
    house.wait_log(act)
    assert SAYS[act] in named(house, act, "record")
    _give_up(house, act, answer.headers["x-narrows-decision"])
    house.clear()
    served(house, house.ask())


def test_a_stream_does_not_wait_for_a_sink(house: House) -> None:
    answer = house.ask("record_hangs", stream=True)
    assert (answer.status, answer.target) == (200, "eu")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    _give_up(house, "record_hangs", answer.headers["x-narrows-decision"])
    house.clear()
    served(house, house.ask())


def test_a_sink_cannot_move_a_target(house: House) -> None:
    """It tried to write a region into the labels of every target: nothing is in Switzerland all the same."""
    asked = house.ask("record_rewrites")
    house.wait_log("record_rewrites", "hook record")
    house.clear()
    answer = house.ask(region="ch")
    assert (answer.status, answer.code, house.called) == (403, "no_eligible_target", [])
    _give_up(house, "record_rewrites", asked.headers["x-narrows-decision"])


def _give_up(house: House, act: str, decision: str) -> None:
    """Others are kept while this one is refused, until the sink gives it up: it does not stand in their way for ever."""
    deadline = time.monotonic() + 2 * PATIENCE
    while f"sink {act} fails for decision {decision}" not in house.everything_said:
        assert time.monotonic() < deadline, house.everything_said
        time.sleep(0.1)  # the sink's own pace; more decisions would not hurry it
        house.ask()
