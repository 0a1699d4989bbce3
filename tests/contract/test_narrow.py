"""`narrow` hooks that break their contract. Each is refused with its name and without an upstream call; the same request
without its act is served by the same gateway."""

from __future__ import annotations

import pytest

from narrows.testing import failure_answer
from narrows.types import FailureClass
from tests.contract.hostile import constraints, narrowers
from tests.contract.house import House, named, refused, served

VIOLATIONS = {
    "adds_by_replace": "returned a target that it was not offered",
    "adds_by_hand": "returned a target that it was not offered",
    "adds_by_force": "returned a target that it was not offered",
    "mask_that_lies": "returned a target that it was not offered",
    "negative_mask": "returned a target that it was not offered",
    "foreign_set": "of another pool",
    "returns_a_list": "returned a list",
    "returns_an_empty_list": "returned a list",
    "returns_false": "returned a bool",
    "returns_names": "returned a set",
    "returns_a_subclass": "returned a Wider",
    "changes_and_returns": "changed the candidates it was offered",
    "changes_and_says_nothing": "changed the candidates it was offered",
    "changes_then_shrinks": "changed the candidates it was offered",
    "changes_the_pool": "changed the candidates it was offered",
    "changes_the_exclusions": "changed the candidates it was offered",
    "no_code": "without a reason",
    "no_why": "without a reason",
    "code_is_none": "without a reason",
    "why_is_none": "without a reason",
    "no_reason": "removed eu without a reason",
    "half_a_reason": "removed eu2 without a reason",
    "reason_that_does_not_cover": "removed eu2 without a reason",
    "reason_is_a_pair": "without a reason",
    "reason_is_text": "an exclusion it gave is not one",
    "reason_without_removal": "a reason for a target that it did not remove",
    "drops_exclusions": "changed earlier exclusions",
    "drops_exclusions_while_shrinking": "changed earlier exclusions",
    "rewrites_exclusions": "changed earlier exclusions",
    "exclusions_as_a_list": "changed earlier exclusions",
}
FAILURES = {
    "raises": "(RuntimeError)",
    "raises_in_an_await": "(LookupError)",
    "raises_a_group": "(ExceptionGroup)",
    "blames_another": "(ContractViolation)",
    "removes_a_name": "(TypeError)",
    "changes_a_label": "(TypeError)",
    "hangs": "(no answer within 0.3 s)",
    "answers_late": "(no answer within 0.3 s)",
}
HARMLESS = {"shrinks", "shrinks_in_an_await", "borrowed_name", "blocks"}
RULE_FAILURES = {
    "forgets_the_region": "(TypeError)",
    "demands_raises": "(RuntimeError)",
    "demands_nothing_that_can_be_kept": "(TypeError)",
    "demands_too_much": "(ValueError)",
    "demands_no_json": "(TypeError)",
    "excludes_raises": "(RuntimeError)",
    "excludes_with_text": "(TypeError)",
}


def test_every_act_has_its_test() -> None:
    assert {*VIOLATIONS, *FAILURES, *HARMLESS} == set(narrowers.ACTS)
    assert set(RULE_FAILURES) == set(constraints.ACTS)


def test_without_an_act_residency_alone_decides(house: House) -> None:
    """What stands between a caller and `us` in every test below, and that `us` answers where it may."""
    served(house, house.ask())
    house.clear()
    served(house, house.ask(region="us"), by="us")


@pytest.mark.parametrize("act", VIOLATIONS)
def test_an_answer_outside_the_contract_is_refused(house: House, act: str) -> None:
    refused(house, house.ask(act), act, "narrow", "contract_violation", VIOLATIONS[act])
    house.clear()
    served(house, house.ask())


@pytest.mark.parametrize("act", FAILURES)
def test_a_plugin_that_fails_is_never_skipped(house: House, act: str) -> None:
    refused(house, house.ask(act), act, "narrow", "constraint_failed", FAILURES[act])
    house.clear()
    served(house, house.ask())


def test_a_wider_set_on_the_second_call_is_refused(house: House) -> None:
    """What it answers was right for the first request, which was about another region."""
    served(house, house.ask("remembers", region="us"), by="us")
    house.clear()
    answer = house.ask("remembers", region="eu")
    refused(house, answer, "remembers", "narrow", "contract_violation", "returned a target that it was not offered")
    house.clear()
    served(house, house.ask("remembers", region="us"), by="us")


@pytest.mark.parametrize("act", ["widens_what_it_was_offered", "widens_what_it_answered"])
def test_what_a_plugin_keeps_is_not_what_goes_on(house: House, act: str) -> None:
    """It widens its copy between two attempts, when failover looks for what is left."""
    for model in ("eu", "eu2"):
        house.script(model, failure_answer(FailureClass.SERVER_ERROR))
    answer = house.ask(act)
    assert (answer.status, answer.code) == (500, "upstream_error")
    assert house.called == ["eu", "eu2"] if act == "widens_what_it_was_offered" else ["eu"]
    house.clear()
    house.script("eu", failure_answer(FailureClass.SERVER_ERROR))
    assert house.ask().target == "eu2"  # without the act, failover goes on inside the set


@pytest.mark.parametrize("act", ["shrinks", "shrinks_in_an_await"])
def test_an_honest_plugin_removes_under_its_own_name(house: House, act: str) -> None:
    answer = house.ask(act)
    served(house, answer, by="eu2")
    (row,) = [row for row in house.wait_decision(answer)["excluded"] if row["target"] == "eu"]
    assert (row["constraint"], row["code"], row["why"]) == (act, f"{PREFIX}.unwanted", "it is not wanted")


def test_nobody_removes_in_another_rules_name(house: House) -> None:
    """A forged cut says that residency did it, by an operator's override. The core stamps it with who it was."""
    answer = house.ask("borrowed_name")
    served(house, answer, by="eu2")
    (row,) = [row for row in house.wait_decision(answer)["excluded"] if row["target"] == "eu"]
    assert (row["constraint"], row["code"]) == ("borrowed_name", f"{PREFIX}.override")


def test_a_plugin_that_blocks_is_named_afterwards(house: House) -> None:
    """Nobody can interrupt it: the request is served, and the log says who held up all others."""
    answer = house.ask("blocks")
    assert (answer.status, answer.target, house.called) == (200, "eu", ["eu"])
    assert "WARNING" in (line := named(house, "blocks", "narrow"))
    assert "blocked" in line
    house.clear()
    served(house, house.ask())


@pytest.mark.parametrize("act", RULE_FAILURES)
@pytest.mark.parametrize("route", ["ruled", "nobody_left"])
def test_a_constraint_that_fails_is_never_skipped(house: House, act: str, route: str) -> None:
    """Also where another rule has removed every target: what this one would have said belongs into the refusal."""
    refused(house, house.ask(act, route=route), act, "narrow", "constraint_failed", RULE_FAILURES[act])
    house.clear()
    answer = house.ask(route=route)
    if route == "ruled":
        served(house, answer)
    else:
        assert (answer.status, answer.code, house.called) == (403, "no_eligible_target", [])


def test_explain_is_refused_alike(house: House) -> None:
    """The same code as a live request: 200, and the refusal inside."""
    answer = house.ask("adds_by_hand", path="/v1/explain")
    assert answer.status == 200
    assert (answer.json["outcome"], answer.json["code"]) == ("refused", "contract_violation")
    assert "'adds_by_hand'" in answer.json["message"]
    assert [row["target"] for row in house.ask(path="/v1/explain").json["targets"] if row["eligible"]] == ["eu", "eu2"]


PREFIX = "hostile_narrows"
