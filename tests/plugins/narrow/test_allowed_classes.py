"""`allowed_classes`: a strict route keeps to its classes, and wrong labels fail the load."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from narrows import Target
from narrows.types import LabelValue
from narrows_plugins.narrow.allowed_classes import AllowedClasses, allowed
from tests.plugins.narrow.ruling import block, demands, hooks, left, reasons, request


def target(name: str, label: LabelValue | None = None) -> Target:
    return Target(name, "acme", "echo", name, labels={} if label is None else {"class": label})


PRIVATE, PUBLIC, PAID, NONE = (
    target("mine", "private"),
    target("open", "public"),
    target("gold", "paid"),
    target("none"),
)
EITHER = target("either", ("private", "public"))


def strict(*classes: str) -> AllowedClasses:
    return block(AllowedClasses, classes=list(classes))


def test_other_classes_leave() -> None:
    assert left(strict("private"), [PRIVATE, PUBLIC, PAID], request()) == ["mine"]
    assert reasons(strict("private"), [PRIVATE, PUBLIC], request()) == {"open": ("class", "class is not private")}


def test_several_classes_may_be_allowed() -> None:
    assert left(strict("private", "paid"), [PRIVATE, PUBLIC, PAID], request()) == ["mine", "gold"]
    assert reasons(strict("private", "paid"), [PUBLIC], request()) == {
        "open": ("class", "class is not paid or private")
    }


def test_a_target_that_may_be_either_needs_both() -> None:
    assert left(strict("private"), [EITHER], request()) == []
    assert left(strict("private", "public"), [EITHER], request()) == ["either"]
    assert reasons(strict("private"), [EITHER], request()) == {"either": ("class", "class is not always private")}


def test_an_unclassed_target_leaves() -> None:
    assert reasons(strict("private"), [PRIVATE, NONE], request()) == {
        "none": ("unlabelled", "declares no class, and only private is allowed")
    }


def test_case_makes_no_difference() -> None:
    assert left(strict("Private"), [target("loud", "PRIVATE")], request()) == ["loud"]


def test_it_demands_the_same_of_everybody_and_reads_nothing() -> None:
    rule = strict("private", "paid", "paid")
    assert rule.reads == frozenset()
    assert demands(rule, request({"x": ["y"]})) == demands(rule, request()) == {("paid", "private")}


def test_an_unclassed_target_on_the_route_is_a_problem() -> None:
    (text,) = strict("private").problems([PRIVATE, NONE])
    assert text == (
        "target none declares no class, which this rule compares. Add what is true of each:\n"
        '[targets.none]\nclass = "…"'
    )


def test_a_route_without_an_allowed_target_is_a_problem() -> None:
    (text,) = strict("private").problems([PUBLIC, PAID])
    assert text == "no target of the route is of class private; add one, or allow a class that it has"


def test_both_problems_are_told_at_once() -> None:
    assert len(list(strict("private").problems([PUBLIC, NONE]))) == 2


def test_a_route_with_a_disallowed_target_beside_an_allowed_one_is_none() -> None:
    assert list(strict("private").problems([PUBLIC, PRIVATE])) == []


@pytest.mark.parametrize("classes", [[], [""], ["private", " "]])
def test_options_that_are_refused(classes: list[str]) -> None:
    with pytest.raises(ValidationError, match="must name at least one class"):
        strict(*classes)


def test_the_registry_takes_it() -> None:
    assert hooks("constraints.private-only", strict("private")) == ("narrow",)


names = st.sampled_from(["private", "public", "paid", "own"])


@given(st.lists(names, min_size=1, max_size=4), st.none() | names | st.lists(names, max_size=3).map(tuple))
def test_allowed_is_not_empty_and_within(classes: list[str], label: str | tuple[str, ...] | None) -> None:
    rule, one = strict(*classes), target("one", label)
    (demand,) = demands(rule, request())
    assert msgspec.json.decode(msgspec.json.encode(demand)) == list(demand)
    declared = set() if label is None else {label} if isinstance(label, str) else set(label)
    assert (rule.excludes(demand, one) is None) == (bool(declared) and declared <= set(classes))
    assert allowed(one, classes) == (rule.excludes(demand, one) is None)
