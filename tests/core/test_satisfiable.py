"""Could any request be served? Against trying every combination of values, and fast where there are very many."""

from __future__ import annotations

from itertools import product
from random import Random
from time import perf_counter
from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Request, Target
from narrows.attributes import Attribute
from narrows.candidates import Pool
from narrows.demands import Rule, left
from narrows.satisfiable import satisfiable
from narrows_plugins.narrow.attribute_match import AttributeMatch
from tests.plugins.narrow.ruling import block

Missing = Literal["floor", "refuse", "unrestricted"]
WORDS = ["a", "b", "c"]
SOURCES = frozenset({"header"})


def matching(attribute: str, label: str) -> Rule:
    """The rule that a label must be what the request says."""
    rule = block(AttributeMatch, request_attribute=attribute, target_attribute=label)
    return Rule(f"{attribute} is {label}", rule, "", rule.attributes_read(), frozenset(rule.reads))


def declared(name: str, values: list[str], missing: Missing = "floor") -> Attribute:
    return Attribute(name, frozenset(values), name, SOURCES, missing)


def pool(*labels: dict[str, str]) -> Pool:
    return Pool([Target(f"t{place}", "p", "echo", "m", labels=each) for place, each in enumerate(labels)])


values = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True)
attributes = st.tuples(values, values, st.sampled_from(get_args(Missing)), st.sampled_from(get_args(Missing)))
labels = st.fixed_dictionaries({"x": st.sampled_from(WORDS), "y": st.sampled_from(WORDS)})
rules = st.sets(st.tuples(st.sampled_from(["one", "two", "nobody declares it"]), st.sampled_from(["x", "y"])))


@settings(deadline=None)  # a busy machine is not a finding
@given(attributes, st.lists(labels, max_size=4), rules)
def test_it_is_what_trying_everything_finds(
    said: tuple[list[str], list[str], Missing, Missing], targets: list[dict[str, str]], read: set[tuple[str, str]]
) -> None:
    one, two = declared("one", said[0], said[2]), declared("two", said[1], said[3])
    unknown = Attribute("nobody declares it", None, "x", SOURCES, "unrestricted")
    enforced = tuple(matching(*each) for each in sorted(read))
    may_be_silent = [None]
    choices = [[*a.values] + may_be_silent * (a.missing == "unrestricted") for a in (one, two) if a.values]
    served = any(
        left(
            pool(*targets),
            enforced,
            Request(""),
            {name: frozenset({value}) for name, value in zip(("one", "two"), chosen, strict=True) if value},
        )
        for chosen in product(*choices)
    )
    assert satisfiable(pool(*targets), enforced, [one, two, unknown]) == served


def test_no_rule_and_one_target_is_enough() -> None:
    assert satisfiable(pool({}), (), [])
    assert not satisfiable(pool(), (), [])


@pytest.mark.parametrize(("missing", "served"), [("floor", False), ("refuse", False), ("unrestricted", True)])
def test_who_need_not_say_it_says_nothing(missing: Missing, served: bool) -> None:
    """Every value excludes the only target; a request that says none reaches it where silence demands nothing."""
    enforced = (matching("one", "x"),)
    assert satisfiable(pool({"x": "c"}), enforced, [declared("one", ["a", "b"], missing)]) == served
    assert satisfiable(pool({"x": "a"}), enforced, [declared("one", ["a", "b"], missing)])


def test_two_attributes_may_need_the_same_target() -> None:
    enforced = (matching("one", "x"), matching("two", "y"))
    both = [declared("one", ["a"]), declared("two", ["b"])]
    assert not satisfiable(pool({"x": "a", "y": "c"}, {"x": "c", "y": "b"}), enforced, both)
    assert satisfiable(pool({"x": "a", "y": "b"}), enforced, both)


def test_many_attributes_do_not_multiply() -> None:
    """Eight attributes of 30 values, each value leaving another half of 300 targets: 10^11 combinations."""
    random = Random(1)
    names, words = [f"a{place}" for place in range(8)], [str(word) for word in range(30)]
    targets = [{name: random.choice(words) for name in names} for _ in range(300)]
    enforced = []
    for name in names:
        accept = {value: [value, *random.sample(words, 15)] for value in words}
        rule = block(AttributeMatch, request_attribute=name, target_attribute=name, accept=accept)
        enforced.append(Rule(name, rule, "", rule.attributes_read(), frozenset(rule.reads)))
    begun = perf_counter()
    assert satisfiable(pool(*targets), tuple(enforced), [declared(name, words) for name in names])
    assert perf_counter() - begun < 5
