"""`attribute_match`: what is demanded, who is excluded and why, and the laws of DESIGN section 4 that it must keep."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from narrows import CheckedConfig, Exclusion, Problem, Target
from narrows.types import LabelValue
from narrows_plugins.narrow.attribute_match import AttributeMatch, fits
from tests.plugins.narrow.ruling import block, demands, hooks, judged, left, reasons, request

ACCEPT = {"eu": ["eu-west", "eu-central"], "us": ["us-east"], "any": "*"}


def target(name: str, **labels: LabelValue) -> Target:
    return Target(name, "acme", "openai_compatible", name, labels=labels)


EU, US = target("eu", region="eu"), target("us", region="us")
WEST, EAST = target("west", region="eu-west"), target("east", region="us-east")
BOTH = target("both", region=("eu-west", "us-east"))
TWO_EU = target("two_eu", region=("eu-west", "eu-central"))
NONE = target("none", tier="small")


def equal() -> AttributeMatch:
    return block(AttributeMatch, request_attribute="x-region", target_attribute="region")


def accepting() -> AttributeMatch:
    return block(AttributeMatch, request_attribute="x-region", target_attribute="region", accept=ACCEPT)


def test_without_accept_the_label_must_be_the_value() -> None:
    assert left(equal(), [EU, US], request({"x-region": ["eu"]})) == ["eu"]
    assert reasons(equal(), [EU, US], request({"x-region": ["eu"]})) == {
        "us": ("attribute_mismatch", "region is not eu")
    }


def test_who_says_nothing_demands_nothing() -> None:
    assert left(equal(), [EU, US, NONE], request()) == ["eu", "us", "none"]


def test_another_attribute_is_not_read() -> None:
    assert left(equal(), [EU, US], request({"region": ["eu"]})) == ["eu", "us"]


def test_two_values_must_both_fit() -> None:
    assert left(equal(), [EU, US], request({"x-region": ["eu", "us"]})) == []


def test_with_accept_the_label_must_be_listed() -> None:
    asked = request({"x-region": ["eu"]})
    assert left(accepting(), [WEST, EAST, TWO_EU], asked) == ["west", "two_eu"]
    assert reasons(accepting(), [WEST, EAST], asked) == {"east": ("attribute_mismatch", "region is not eu")}


def test_a_label_that_may_be_either_passes_only_if_all_are_accepted() -> None:
    asked = request({"x-region": ["eu"]})
    assert left(accepting(), [BOTH, TWO_EU], asked) == ["two_eu"]
    assert reasons(accepting(), [BOTH], asked) == {"both": ("attribute_mismatch", "region is not always eu")}


def test_a_star_demands_nothing() -> None:
    rule = accepting()
    assert demands(rule, request({"x-region": ["any"]})) == frozenset()
    assert demands(rule, request({"x-region": ["any", "eu"]})) == {"eu"}
    assert left(rule, [WEST, EAST, NONE], request({"x-region": ["any"]})) == ["west", "east", "none"]


def test_an_undeclared_label_fits_no_demand() -> None:
    asked = request({"x-region": ["eu"]})
    assert reasons(equal(), [EU, NONE], asked) == {"none": ("unlabelled", "declares no region, and eu is asked for")}
    assert left(equal(), [EU, NONE], asked) == ["eu"]


def test_a_value_that_accept_does_not_know_fits_nothing() -> None:
    assert left(accepting(), [WEST, EAST], request({"x-region": ["asia"]})) == []
    assert left(accepting(), [WEST, EAST], request({"x-region": ["us"]})) == ["east"]


def test_a_carried_star_still_wants_a_label() -> None:
    """A demand may come from an earlier configuration, in which the value was not yet accepted by everything."""
    assert accepting().excludes("any", WEST) is None
    assert accepting().excludes("any", NONE) == Exclusion("unlabelled", "declares no region, and any is asked for")


def test_case_and_space_make_no_difference() -> None:
    shouting = target("shouting", region=" EU-West ")
    rule = block(AttributeMatch, request_attribute="r", target_attribute="region", accept={" Eu": ["eu-WEST"]})
    assert left(rule, [shouting, EAST], request({"r": ["eu"]})) == ["shouting"]
    assert left(equal(), [target("upper", region="EU")], request({"x-region": ["eu"]})) == ["upper"]


def test_a_label_that_is_no_string_is_compared_as_it_is_written() -> None:
    rule = block(AttributeMatch, request_attribute="x-retention", target_attribute="zero_retention")
    targets = [target("kept", zero_retention=False), target("gone", zero_retention=True)]
    assert left(rule, targets, request({"x-retention": ["true"]})) == ["gone"]


def test_a_target_without_the_label_is_a_problem_that_prints_the_lines() -> None:
    assert list(equal().problems([EU, US])) == []
    (text,) = equal().problems([EU, NONE, target("old one")])
    assert text == (
        "targets none, old one declare no region, which this rule compares. Add what is true of each:\n"
        '[targets.none]\nregion = "…"\n[targets."old one"]\nregion = "…"'
    )


def test_an_own_label_stands_under_labels() -> None:
    rule = block(AttributeMatch, request_attribute="x-quantisation", target_attribute="quantisation")
    (text,) = rule.problems([EU])
    assert text.startswith("target eu declares no quantisation")
    assert text.endswith('[targets.eu]\nlabels = { quantisation = "…" }')


def checked(rule: AttributeMatch, **attributes: str) -> list[Problem]:
    config = CheckedConfig(
        {}, {}, {name.replace("_", "-"): frozenset(said.split()) for name, said in attributes.items()}
    )
    return list(rule.check(config))


def test_accept_needs_an_entry_for_every_declared_value_and_no_other() -> None:
    assert checked(accepting(), x_region="eu us any") == []
    assert checked(accepting(), x_region="eu us any uk") == [
        Problem(
            "missing_key",
            "accept has no entry for 'uk', a value of attribute 'x-region'",
            "accept",
            remedy='Add uk = ["…"], the labels that fit it, or uk = "*".',
        )
    ]
    assert checked(accepting(), x_region="eu any") == [
        Problem(
            "unknown_reference",
            "'us' is no value of attribute 'x-region'",
            "accept.us",
            suggestion=None,
            remedy="Its values: any, eu.",
        )
    ]
    assert [(p.path, p.suggestion) for p in checked(accepting(), x_region="eu use any")] == [
        ("accept.us", "use"),
        ("accept", None),
    ]


def test_accept_needs_a_declared_attribute() -> None:
    (problem,) = checked(accepting(), x_regio="eu us any")
    assert (problem.code, problem.path, problem.suggestion) == ("unknown_reference", "accept", "x-regio")
    assert problem.message == "there is no [attributes.x-region], and accept needs the values that it declares"


def test_without_accept_the_attribute_may_be_any() -> None:
    assert checked(equal()) == checked(equal(), x_region="eu us any uk") == []


def test_it_reads_the_one_attribute() -> None:
    assert equal().attributes_read() == {"x-region"}
    assert equal().reads == {"attributes"}


def test_the_registry_takes_it() -> None:
    assert hooks("constraints.residency", equal()) == ("check", "narrow")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"request_attribute": " "}, "is empty; write"),
        ({"target_attribute": ""}, "is empty; write"),
        ({"accept": {}}, "has no entry"),
        ({"accept": {"eu": []}}, "must be a list of the labels that fit"),
        ({"accept": {"eu": "eu-west"}}, "must be a list of the labels that fit"),
        ({"accept": {"eu": ["eu-west", ""]}}, "must be a list of the labels that fit"),
        ({"accept": {"eu": [3]}}, "must be a list of the labels that fit"),
        ({"accept": {"eu": ["a"], "EU": ["b"]}}, "has two entries for one value"),
        ({"accpt": {}}, "Extra inputs"),
    ],
)
def test_options_that_are_refused(options: dict[str, object], text: str) -> None:
    right: dict[str, object] = {"request_attribute": "r", "target_attribute": "region", "accept": ACCEPT}
    block(AttributeMatch, **right)
    with pytest.raises(ValidationError, match=text):
        block(AttributeMatch, **right | options)


# ---- laws --------------------------------------------------------------------------------------------------------

VALUES = ("eu", "us", "any", "uk")
LABELS = ("eu-west", "eu-central", "us-east", "eu", "EU", "us", "")
values = st.frozensets(st.sampled_from(VALUES))
labels = st.one_of(st.none(), st.sampled_from(LABELS), st.lists(st.sampled_from(LABELS), max_size=3).map(tuple))
accepts = st.none() | st.dictionaries(
    st.sampled_from(VALUES),
    st.just("*") | st.lists(st.sampled_from(LABELS[:-1]), min_size=1, max_size=3),
    min_size=1,
)


def pool(regions: list[LabelValue | None]) -> list[Target]:
    return [target(str(n), **({} if label is None else {"region": label})) for n, label in enumerate(regions)]


def rule_of(accept: object) -> AttributeMatch:
    more = {} if accept is None else {"accept": accept}
    return block(AttributeMatch, request_attribute="a", target_attribute="region", **more)


@given(accepts, st.lists(labels, max_size=5), values, values)
def test_saying_more_never_leaves_more(
    accept: object, regions: list[LabelValue | None], one: frozenset[str], more: frozenset[str]
) -> None:
    rule, targets = rule_of(accept), pool(regions)
    assert demands(rule, request({"a": one})) <= demands(rule, request({"a": one | more}))
    assert set(left(rule, targets, request({"a": one | more}))) <= set(left(rule, targets, request({"a": one})))


@given(accepts, st.lists(labels, max_size=5), values, values)
def test_demands_together_leave_what_each_leaves(
    accept: object, regions: list[LabelValue | None], one: frozenset[str], other: frozenset[str]
) -> None:
    rule, targets = rule_of(accept), pool(regions)
    both = {t.name for t in judged(rule, targets, one | other)}
    assert both == {t.name for t in judged(rule, targets, one)} & {t.name for t in judged(rule, targets, other)}


@given(accepts, labels, values)
def test_the_formula(
    accept: dict[str, list[str]] | None, region: str | tuple[str, ...] | None, said: frozenset[str]
) -> None:
    """excludes unless the label is not empty and every one of it is accepted: written out, without our helpers."""
    rule, (one,) = rule_of(accept), pool([region])
    words = {word.lower() for word in ([region] if isinstance(region, str) else region or ())}
    declared = region is not None and region != ()
    for value in said:
        listed = {value} if accept is None else accept.get(value, ())
        fine = declared and ("*" in listed or words <= {word.lower() for word in listed})
        assert (rule.excludes(value, one) is None) == fine


@given(accepts, labels, values)
def test_excludes_answers_the_same_again_and_demands_are_data(
    accept: object, region: LabelValue | None, said: frozenset[str]
) -> None:
    rule, (one,), asked = rule_of(accept), pool([region]), request({"a": said})
    assert demands(rule, asked) == demands(rule_of(accept), asked)
    for demand in demands(rule, asked):
        assert msgspec.json.decode(msgspec.json.encode(demand)) == demand
        assert rule.excludes(demand, one) == rule.excludes(demand, one) == rule_of(accept).excludes(demand, one)


def test_fits() -> None:
    assert fits(frozenset({"eu"}), frozenset({"eu", "uk"}))
    assert fits(frozenset({"eu"}), None)
    assert not fits(frozenset({"eu", "us"}), frozenset({"eu"}))
    assert not fits(frozenset(), frozenset({"eu"}))
    assert not fits(frozenset(), None)


@pytest.mark.parametrize("name", [" x-region", "x-region "])
def test_a_name_with_space_at_its_ends_would_bind_nobody(name: str) -> None:
    with pytest.raises(ValidationError, match="has space at its ends"):
        block(AttributeMatch, request_attribute=name, target_attribute="region")
    block(AttributeMatch, request_attribute=name.strip(), target_attribute="region")  # the control
