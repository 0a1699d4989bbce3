"""The rule by itself: pure questions, short tests. Each "no" has a "yes" beside it."""

from __future__ import annotations

import pytest
from narrows_example import BusinessHours
from pydantic import ValidationError

from narrows import CheckedConfig, Principal, Request, Target

SHIFTS = {"early": "emea", "late": "apac"}


def rule(on_duty: dict[str, str] | None = None) -> BusinessHours:
    return BusinessHours(request_attribute="shift", on_duty=on_duty)


def target(*team: str, name: str = "hamburg") -> Target:
    labels = {"team": team[0] if len(team) == 1 else team} if team else {}
    return Target(name, provider="local", kind="echo", model="m-1", labels=labels)


def why_not(asked: BusinessHours, demand: str, of: Target) -> str | None:
    found = asked.excludes(demand, of)
    assert found is None or found.code == "off_duty"
    return None if found is None else found.why


def test_each_value_that_is_said_is_one_demand() -> None:
    said = Request("support", Principal("ci"), {"shift": frozenset({"early", "late"}), "region": frozenset({"eu"})})
    assert set(rule().demands(said)) == {"early", "late"}
    assert set(rule().demands(Request("support"))) == set()


def test_only_the_team_on_duty() -> None:
    assert why_not(rule(SHIFTS), "early", target("emea")) is None
    assert why_not(rule(SHIFTS), "late", target("emea")) == "team is not apac, which is on duty for late"


def test_without_a_table_the_value_is_the_team() -> None:
    assert why_not(rule(), "emea", target("emea")) is None
    assert why_not(rule(), "early", target("emea")) == "team is not early, which is on duty for early"


def test_words_are_compared_without_case_and_space() -> None:
    assert why_not(rule({" Early": "EMEA "}), "early", target("Emea")) is None


def test_a_target_that_may_be_another_teams_is_out() -> None:
    assert why_not(rule(), "emea", target("emea", "apac")) is not None
    assert why_not(rule(), "emea", target("emea", "EMEA")) is None


@pytest.mark.parametrize("unknown", [target(), target("emea")], ids=["no team", "nobody on duty"])
def test_what_is_not_known_is_no_permission(unknown: Target) -> None:
    assert why_not(rule(SHIFTS), "night", unknown) == "no team is on duty for night"
    assert why_not(rule(SHIFTS), "early", target()) is not None
    assert why_not(rule(SHIFTS), "early", target("emea")) is None


def test_a_target_without_a_team_is_found_at_load() -> None:
    (text,) = rule().problems([target("emea"), target(name="osaka")])
    assert "osaka" in text
    assert 'labels = { team = "…" }' in text


def test_a_value_that_nobody_is_on_duty_for_is_found_at_load() -> None:
    config = CheckedConfig({}, {}, {"shift": frozenset({"early", "late", "night"})})
    (problem,) = rule(SHIFTS).check(config)
    assert (problem.code, problem.path) == ("nobody_on_duty", "on_duty")
    assert "'night'" in problem.message
    assert list(rule().check(config)) == []
    assert list(rule({**SHIFTS, "night": "amer"}).check(config)) == []


@pytest.mark.parametrize("on_duty", [{}, {"early": " "}, {"early": "emea", "EARLY ": "apac"}])
def test_a_table_that_says_nothing_or_two_things_is_refused(on_duty: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        rule(on_duty)
