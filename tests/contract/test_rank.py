"""`rank` hooks: a prefix is allowed, adding and repeating are not, and failing costs preference only."""

from __future__ import annotations

import pytest

from narrows.testing import failure_answer
from narrows.types import FailureClass
from tests.contract.hostile import rankers
from tests.contract.house import House, named, refused, served

NAME = "hostile_ranks"
VIOLATIONS = {
    "adds": "added a target that was not among the candidates",
    "adds_first": "added a target that was not among the candidates",
    "says_why_and_adds": "added a target that was not among the candidates",
    "adds_a_stranger": "added a target that was not among the candidates",
    "ranks_names": "added a target that was not among the candidates",
    "repeats": "named a target twice",
    "ranks_text": "returned a str",
    "ranks_a_table": "returned a dict",
    "ranks_lazily": "returned a generator",
    "ranks_a_broken_sequence": "cannot be read",
    "changes_before_ranking": "changed the candidates it was offered",
    "changes_and_keeps_the_order": "changed the candidates it was offered",
}
FAILURES = {
    "rank_raises": "RuntimeError",
    "rank_hangs": "no answer within 0.3 s",
    "ranks_late": "no answer within 0.3 s",
}
DROPPED = {
    "says_a_text": "its reason is no word",
    "signals_a_text": "its signal 'prompt' is a str",
    "signals_under_a_text": "the name of a signal is no word",
    "signals_a_list": "its signal 'prompt' is a list",
    "signals_that_raise": "its signals cannot be read: RuntimeError",
}


def test_every_act_has_its_test() -> None:
    assert {*VIOLATIONS, *FAILURES, *DROPPED, "says_why", "backwards", "prefix", "changes_and_raises"} == set(
        rankers.ACTS
    )


@pytest.mark.parametrize("act", VIOLATIONS)
def test_an_order_outside_the_contract_is_refused(house: House, act: str) -> None:
    answer = house.ask(act, route="ranked")
    refused(house, answer, NAME, "rank", "contract_violation", VIOLATIONS[act])
    house.clear()
    served(house, house.ask(route="ranked"))


@pytest.mark.parametrize("act", FAILURES)
def test_a_ranker_that_fails_costs_preference_only(house: House, act: str) -> None:
    """Served in the order of the configuration; what a late one says is not heard."""
    answer = house.ask(act, route="ranked")
    assert (answer.status, answer.target, house.called) == (200, "eu", ["eu"])
    assert FAILURES[act] in named(house, NAME, "rank")
    assert house.wait_decision(answer)["rank"] == {"algorithm": NAME, "reason": "failed", "signals": {}}
    house.clear()
    served(house, house.ask("backwards", route="ranked"), by="eu2")  # it is heard where it does not fail


def test_a_ranker_says_why(house: House) -> None:
    answer = house.ask("says_why", route="ranked")
    served(house, answer, by="eu2")
    signals = {"first": "eu2", "left": 2, "score": 0.5, "sure": True}
    assert house.wait_decision(answer)["rank"] == {"algorithm": NAME, "reason": "backwards", "signals": signals}


@pytest.mark.parametrize("act", DROPPED)
def test_what_a_ranker_says_of_itself_is_dropped_where_it_could_hold_a_text(house: House, act: str) -> None:
    """The order is good, so it stands; what would stand in the record beside it does not. The plugin is named."""
    answer = house.ask(act, route="ranked")
    assert (answer.status, answer.target, house.called) == (200, "eu2", ["eu2"])
    assert DROPPED[act] in named(house, NAME, "rank")
    decision = house.wait_decision(answer)
    assert decision["rank"] == {"algorithm": NAME, "reason": "", "signals": {}}
    assert rankers.SECRET not in f"{decision} {house.log}"


def test_a_ranker_that_changes_the_set_and_raises_is_refused_all_the_same(house: House) -> None:
    answer = house.ask("changes_and_raises", route="ranked")
    assert (answer.status, answer.code, house.called) == (500, "contract_violation", [])
    assert f"plugin {NAME!r} broke the contract of hook 'rank': it changed the candidates" in answer.message


@pytest.mark.parametrize("act", ["backwards", "prefix"])
def test_a_prefix_is_an_order(house: House, act: str) -> None:
    """The rest follow by themselves, and nobody else does."""
    house.script("eu2", failure_answer(FailureClass.SERVER_ERROR))
    answer = house.ask(act, route="ranked")
    assert (answer.status, answer.target) == (200, "eu")
    assert house.called == ["eu2", "eu"]
    assert house.wait_decision(answer)["order"] == ["eu2", "eu"]
    house.clear()
    served(house, house.ask(route="ranked"), by="eu")
