"""`cost_ceiling`: the lowest cap that applies, exact to one micro-USD, and targets without the price that is compared."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from narrows import CheckedConfig, Price, Principal, Sizes, Target
from narrows.request import ForbiddenRead
from narrows_plugins.narrow.cost_ceiling import CostCeiling
from tests.plugins.narrow.ruling import block, demands, hooks, left, reasons, request

USD = 1_000_000


def target(
    name: str,
    price_in: int | None = None,
    price_out: int | None = None,
    *,
    most: int | None = None,
    window: int | None = None,
) -> Target:
    price = Price(input=price_in, output=price_out)
    return Target(name, "acme", "echo", name, max_output_tokens=most, context_window=window, price=price)


CHEAP, EDGE, ABOVE = target("cheap", 0, 0), target("edge", 0, 100 * USD), target("above", 0, 100 * USD + 1)
GOLD, UNPRICED = target("gold", 0, 140 * USD), target("unpriced", 1)


def test_the_edge_is_exact() -> None:
    rule = block(CostCeiling, max_cost_per_mtok_out=100)
    assert left(rule, [CHEAP, EDGE, ABOVE, GOLD], request()) == ["cheap", "edge"]
    assert reasons(rule, [GOLD, ABOVE], request()) == {
        "gold": ("price", "output costs more than 100 USD per million tokens"),
        "above": ("price", "output costs more than 100 USD per million tokens"),
    }


def test_an_input_cap_compares_input() -> None:
    rule = block(CostCeiling, max_cost_per_mtok_in=0.1)
    targets = [target("edge", 100_000), target("above", 100_001), target("unpriced", None, 0)]
    assert left(rule, targets, request()) == ["edge"]
    assert reasons(rule, targets, request()) == {
        "above": ("price", "input costs more than 0.1 USD per million tokens"),
        "unpriced": ("unpriced", "declares no input price, and input is capped"),
    }


def test_a_target_without_the_price_that_is_compared_leaves() -> None:
    rule = block(CostCeiling, max_cost_per_mtok_out=100)
    assert reasons(rule, [UNPRICED, CHEAP], request()) == {
        "unpriced": ("unpriced", "declares no output price, and output is capped")
    }
    assert left(rule, [UNPRICED, CHEAP], request()) == ["cheap"]


def test_a_cap_of_nothing_leaves_what_is_free() -> None:
    assert left(block(CostCeiling, max_cost_per_mtok_out=0), [CHEAP, target("one", 0, 1)], request()) == ["cheap"]


def test_two_maximums_both_bind() -> None:
    rule = block(CostCeiling, max_cost_per_mtok_out=10, max_cost_per_mtok_in=1)
    targets = [target("fine", USD, 10 * USD), target("out", USD, 11 * USD), target("in", 2 * USD, 10 * USD)]
    assert left(rule, targets, request()) == ["fine"]


def test_the_lowest_cap_that_applies_binds() -> None:
    rule = block(
        CostCeiling,
        max_cost_per_mtok_out=100,
        by={"tag.intern": 10, "tenant.payments": 50, "attribute.output-use.Training-Data": 20, "tag.rich": 1000},
    )
    intern = Principal("ci", tags=frozenset({"intern", "other"}))
    tenant = Principal("ci", tenant="payments")
    training = {"output-use": ["training-data"]}
    assert demands(rule, request()) == {("out", 100 * USD)}
    assert demands(rule, request(principal=intern)) == {("out", 10 * USD)}
    assert demands(rule, request(principal=tenant)) == {("out", 50 * USD)}
    assert demands(rule, request(training)) == {("out", 20 * USD)}
    assert demands(rule, request(training, principal=intern)) == {("out", 10 * USD)}
    assert demands(rule, request({"output-use": ["internal"]})) == {("out", 100 * USD)}
    assert demands(rule, request(principal=Principal("ci", tags=frozenset({"rich"})))) == {("out", 100 * USD)}
    assert rule.attributes_read() == {"output-use"}


def test_a_value_may_hold_dots() -> None:
    rule = block(CostCeiling, max_cost_per_mtok_out=9, by={"attribute.api.v1.5": 1, "tag.a.b": 2})
    assert demands(rule, request({"api": ["v1.5"]})) == {("out", USD)}
    assert demands(rule, request(principal=Principal("ci", tags=frozenset({"a.b"})))) == {("out", 2 * USD)}


@pytest.mark.parametrize(
    ("options", "reads"),
    [
        ({"max_cost_per_mtok_out": 1}, set()),
        ({"max_cost_per_mtok_out": 1, "by": {"tag.t": 1}}, {"principal"}),
        ({"max_cost_per_mtok_in": 1, "by": {"attribute.a.v": 1}}, {"attributes"}),
        ({"max_cost_per_request": 1}, {"sizes"}),
        (
            {"max_cost_per_request": 1, "by": {"tenant.t": 1, "attribute.a.v": 1}},
            {"attributes", "principal", "sizes"},
        ),
    ],
)
def test_it_reads_only_what_it_needs(options: dict[str, object], reads: set[str]) -> None:
    """`demands` is given a view without the rest, so that these would raise if they were read."""
    rule = block(CostCeiling, **options)
    assert rule.reads == reads
    assert len(demands(rule, request({"a": ["v"]}))) == 1


def test_the_view_does_raise() -> None:
    rule = block(CostCeiling, max_cost_per_request=1)
    with pytest.raises(ForbiddenRead):
        list(rule.demands(request().view(frozenset({"attributes"}), {})))


# ---- max_cost_per_request ----------------------------------------------------------------------------------------


def test_a_request_is_capped_by_the_most_it_can_cost() -> None:
    # 1,000 prompt tokens at 3 USD/M are 3,000 micro-USD, 2 x 500 answer tokens at 7 USD/M are 7,000
    asked = request(sizes=Sizes(at_least=100, at_most=1000, max_output=500, n=2))
    one = target("one", 3 * USD, 7 * USD)
    assert left(block(CostCeiling, max_cost_per_request=0.010000), [one], asked) == ["one"]
    assert left(block(CostCeiling, max_cost_per_request=0.009999), [one], asked) == []
    assert reasons(block(CostCeiling, max_cost_per_request=0.009999), [one], asked) == {
        "one": ("price", "may cost more than 0.009999 USD for this request")
    }


@pytest.mark.parametrize(
    ("asked", "most", "window", "tokens"),
    [
        (500, None, None, 500),
        (500, 100, None, 100),
        (50, 100, 8000, 50),
        (None, 100, 8000, 100),
        (None, None, 8000, 8000),
        (None, None, None, 32_768),
    ],
)
def test_the_longest_answer(asked: int | None, most: int | None, window: int | None, tokens: int) -> None:
    one = target("one", 0, USD, most=most, window=window)  # so that a token costs one micro-USD
    sizes = request(sizes=Sizes(max_output=asked))
    assert left(block(CostCeiling, max_cost_per_request=tokens / USD), [one], sizes) == ["one"]
    assert left(block(CostCeiling, max_cost_per_request=(tokens - 1) / USD), [one], sizes) == []


def test_a_request_cap_needs_both_prices() -> None:
    rule = block(CostCeiling, max_cost_per_request=5)
    targets = [target("in", 1), target("out", None, 1), target("both", 1, 1), target("free", 0, 0)]
    assert left(rule, targets, request(sizes=Sizes(at_most=10))) == ["both", "free"]
    gone = ("unpriced", "lacks an input or output price, and a request's cost is capped")
    assert reasons(rule, targets, request()) == {"in": gone, "out": gone}


# ---- load --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "must have max_cost_per_mtok_out, max_cost_per_mtok_in or max_cost_per_request"),
        ({"by": {"tag.t": 1}}, "must have max_cost_per_mtok_out"),
        ({"max_cost_per_mtok_out": -0.1}, "no amount of money"),
        ({"max_cost_per_mtok_in": float("nan")}, "no amount of money"),
        ({"max_cost_per_request": float("inf")}, "no amount of money"),
        ({"max_cost_per_mtok_out": 1, "by": {"tag.t": -1}}, "no amount of money"),
        ({"max_cost_per_mtok_out": "1"}, "valid number"),
        ({"max_cost_per_mtok_out": True}, "valid number"),
        ({"max_cost_per_mtok_out": 1, "max_cost_per_mtok_in": 1, "by": {"tag.t": 1}}, "exactly one maximum"),
        ({"max_cost_per_mtok_out": 1, "by": {"intern": 1}}, '"tag.NAME", "tenant.NAME" or "attribute.NAME.VALUE"'),
        ({"max_cost_per_mtok_out": 1, "by": {"tag.": 1}}, "tag.NAME"),
        ({"max_cost_per_mtok_out": 1, "by": {"tenant": 1}}, "tag.NAME"),
        ({"max_cost_per_mtok_out": 1, "by": {"attribute.a": 1}}, "tag.NAME"),
        ({"max_cost_per_mtok_out": 1, "by": {"attribute..v": 1}}, "tag.NAME"),
        ({"max_cost_per_mtok_out": 1, "by": {"key.k": 1}}, "tag.NAME"),
    ],
)
def test_options_that_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        block(CostCeiling, **options)


def test_a_missing_price_is_no_problem_at_load() -> None:
    assert list(block(CostCeiling, max_cost_per_mtok_out=1).problems([UNPRICED])) == []


def test_a_value_that_nobody_declares_is_a_problem() -> None:
    by = {"attribute.output-use.Trainin-Data": 1, "attribute.other.v": 1, "tag.t": 1, "tenant.t": 1}
    rule = block(CostCeiling, max_cost_per_mtok_out=1, by=by)
    declared = {"output-use": frozenset({"internal", "training-data"})}
    (problem,) = rule.check(CheckedConfig({}, {}, declared))
    assert problem.message == "'trainin-data' is no value of attribute 'output-use'"
    assert (problem.path, problem.suggestion) == ("by.attribute.output-use.Trainin-Data", "training-data")
    right = block(CostCeiling, max_cost_per_mtok_out=1, by={"attribute.output-use.Training-Data": 1})
    assert list(right.check(CheckedConfig({}, {}, declared))) == []


def test_the_registry_takes_it() -> None:
    assert hooks("constraints.budget", block(CostCeiling, max_cost_per_mtok_out=1)) == ("check", "narrow")


# ---- laws --------------------------------------------------------------------------------------------------------

micro = st.integers(0, 200 * USD)
prices = st.lists(st.tuples(st.none() | micro, st.none() | micro), max_size=5)
said = st.frozensets(st.sampled_from(["a", "b", "c"]))
kinds = st.sampled_from(["max_cost_per_mtok_out", "max_cost_per_mtok_in", "max_cost_per_request"])
caps = st.dictionaries(st.sampled_from(["attribute.x.a", "attribute.x.b"]), st.integers(0, 200))


@given(kinds, st.integers(0, 200), caps, prices, said, said)
def test_saying_more_never_leaves_more(
    kind: str,
    cap: int,
    by: dict[str, int],
    priced: list[tuple[int | None, int | None]],
    one: frozenset[str],
    more: frozenset[str],
) -> None:
    rule = block(CostCeiling, **{kind: cap, "by": by})
    targets = [target(str(n), *price) for n, price in enumerate(priced)]
    sizes = Sizes(at_most=1000, max_output=1000)
    few = left(rule, targets, request({"x": one | more}, sizes=sizes))
    assert set(few) <= set(left(rule, targets, request({"x": one}, sizes=sizes)))


@given(kinds, caps, said, st.integers(0, 2**40), st.none() | st.integers(0, 2**70), st.integers(1, 100))
def test_demands_are_data_and_excludes_is_pure(
    kind: str, by: dict[str, int], one: frozenset[str], at_most: int, most: int | None, n: int
) -> None:
    rule = block(CostCeiling, **{kind: 50, "by": by})
    asked = request({"x": one}, sizes=Sizes(at_most=at_most, max_output=most, n=n))
    assert demands(rule, asked) == demands(rule, asked)
    for demand in demands(rule, asked):
        assert len(msgspec.json.encode(demand)) < 200
        for one_target in (GOLD, UNPRICED, CHEAP, EDGE):
            assert rule.excludes(demand, one_target) == rule.excludes(demand, one_target)
