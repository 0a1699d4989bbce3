"""`authenticate`, `authorize` and `budget` hooks that grant, mint and forget. All of them fail closed."""

from __future__ import annotations

import pytest

from tests.contract.hostile import budgets, callers
from tests.contract.house import House, named, refused, served

MINTED = (
    "mints_a_principal",
    "mints_a_richer_identity",
    "mints_an_object",
    "mints_a_name",
    "mints_a_table",
    "mints_a_lying_name",
)
VIOLATIONS = {
    **dict.fromkeys(MINTED, ("authenticate", "returned no Identity; grants are configuration")),
    "denies_in_another_name": ("authenticate", "denied with code 'kill_switch'"),
    "says_yes": ("authorize", "neither a Denial nor None"),
    "says_no": ("authorize", "neither a Denial nor None"),
    "says_a_word": ("authorize", "neither a Denial nor None"),
    "objects_with_another_code": ("authorize", "denied with code 'no_eligible_target'"),
    "objects_with_an_unknown_code": ("authorize", "denied with code 'not_today'"),
    "allows_a_number": ("budget", "has no room, hold, settle, release"),
    "allows_true": ("budget", "has no room, hold, settle, release"),
    "allows_without_release": ("budget", "has no release"),
    "denies_with_another_code": ("budget", "denied with code 'budget_exhausted'"),
    "denies_for_ever": ("budget", "asks to wait for a time"),
    "denies_for_a_word": ("budget", "asks to wait for a time"),
    "hold_says_none": ("budget", "grants NoneType"),
    "hold_says_a_word": ("budget", "grants str"),
    "hold_says_infinity": ("budget", "grants float"),
    "hold_must_be_awaited": ("budget", "would have to be awaited in hold"),
}
FAILURES = {
    "authenticate_raises": ("authenticate", "unauthenticated", "(RuntimeError)"),
    "authenticate_hangs": ("authenticate", "unauthenticated", "(no answer within 0.3 s)"),
    "authenticates_late": ("authenticate", "unauthenticated", "(no answer within 0.3 s)"),
    "authorize_raises": ("authorize", "forbidden", "(RuntimeError)"),
    "authorize_hangs": ("authorize", "forbidden", "(no answer within 0.3 s)"),
    "authorizes_late": ("authorize", "forbidden", "(no answer within 0.3 s)"),
    "forgets_the_act": ("authorize", "forbidden", "(AttributeError)"),
    "grants_itself": ("authorize", "forbidden", "(TypeError)"),
    "budget_raises": ("budget", "budget_unverifiable", "(RuntimeError)"),
    "budget_hangs": ("budget", "budget_unverifiable", "(no answer within 0.3 s)"),
    "allows_late": ("budget", "budget_unverifiable", "(no answer within 0.3 s)"),
    "hold_raises": ("budget", "budget_unverifiable", "(RuntimeError)"),
}
HONEST = {
    "mints_nobody": (401, "unauthenticated"),
    "denies_who_is_calling": (401, "unauthenticated"),
    "objects": (403, "forbidden"),
    "denies": (429, "rate_limited"),
    "allows_nothing": (402, "budget_exhausted"),
}


def test_every_act_has_its_test() -> None:
    acts = {*callers.IDENTITIES, *callers.OBJECTIONS, *budgets.ALLOWANCES}
    assert {*VIOLATIONS, *FAILURES, *HONEST, "allows_enough", "settle_raises", "release_raises"} == acts


@pytest.mark.parametrize("act", VIOLATIONS)
def test_an_answer_outside_the_contract_is_refused(house: House, act: str) -> None:
    hook, says = VIOLATIONS[act]
    refused(house, house.ask(act), act, hook, "contract_violation", says)
    house.clear()
    served(house, house.ask())


@pytest.mark.parametrize("act", FAILURES)
def test_a_plugin_that_fails_refuses(house: House, act: str) -> None:
    hook, code, says = FAILURES[act]
    refused(house, house.ask(act), act, hook, code, says)
    house.clear()
    served(house, house.ask())


@pytest.mark.parametrize("act", HONEST)
def test_an_honest_objection_is_no_fault(house: House, act: str) -> None:
    answer = house.ask(act)
    assert (answer.status, answer.code) == HONEST[act]
    assert (house.called, house.log) == ([], [])


def test_grants_are_configuration(house: House) -> None:
    """The honest way to be `ci`: configuration grants it one target, and no plugin can add to that."""
    served(house, house.ask(caller="ci"), by="eu2")
    house.clear()
    assert (house.ask(caller="ci", region="us").code, house.called) == ("no_eligible_target", [])
    served(house, house.ask(), by="eu")  # an open gateway: without a name, everybody


@pytest.mark.parametrize("act", ["allows_enough", "settle_raises", "release_raises"])
def test_money_that_cannot_be_given_back_does_not_touch_the_answer(house: House, act: str) -> None:
    answer = house.ask(act)
    assert (answer.status, answer.target, house.called) == (200, "eu", ["eu"])
    assert answer.json["choices"]
    house.wait_decision(answer)
    if act == "allows_enough":
        assert house.log == []
    else:
        assert "RuntimeError" in named(house, act, "budget")
