"""Money is exact: integers inside, what was written at the edges, and a reservation is never smaller than the bill."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Target
from narrows.deciding import charged
from narrows.decision import AttemptRow, Decision
from narrows.money import (
    MICRO,
    attempt_cost,
    expected_cost,
    micro_from_pico,
    micro_usd,
    tokens_cost,
    usd,
    usd_float,
    worst_case,
)
from narrows.tokens import OUTPUT_CEILING, REPORTED_MAX, most_output
from narrows.types import Price, Usage

micro = st.integers(0, 10**18)
tokens = st.integers(0, 10**9)
prices = st.none() | st.integers(0, 10**10)
price = st.builds(Price, prices, prices, prices, prices)


def target(price: Price, window: int | None = None, most: int | None = None) -> Target:
    return Target("t", "p", "echo", "m", context_window=window, max_output_tokens=most, price=price)


# ---- the edges -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "amount"),
    [(0, 0), (1, MICRO), (0.1, 100_000), (0.3, 300_000), ("0.1", 100_000), (1e-6, 1), (8.0, 8_000_000), (1e9, 10**15)],
)
def test_an_amount_is_what_was_written(written: float | str, amount: int) -> None:
    assert micro_usd(written) == amount


@settings(deadline=None)  # a busy machine is not a finding
@given(st.decimals(0, 10**6, places=6))
def test_six_places_are_exact(written: Decimal) -> None:
    assert Fraction(micro_usd(str(written)), MICRO) == Fraction(written)
    assert Fraction(micro_usd(float(written)), MICRO) == Fraction(written), "a float of TOML, too"


@settings(deadline=None)
@given(st.floats(0, 1e12))
def test_any_other_amount_is_rounded_to_the_nearest(written: float) -> None:
    assert abs(Fraction(micro_usd(written)) - Fraction(str(written)) * MICRO) <= Fraction(1, 2)


@pytest.mark.parametrize("written", [-1, -0.1, float("nan"), float("inf"), float("-inf"), "NaN", "much", "", "1 USD"])
def test_what_is_no_amount_is_refused(written: float | str) -> None:
    with pytest.raises(ValueError, match="is no amount of money"):
        micro_usd(written)


@settings(deadline=None)
@given(micro)
def test_a_text_reads_back(amount: int) -> None:
    text = usd(amount)
    assert micro_usd(text) == amount
    assert "e" not in text.lower(), "no exponent"
    assert "." not in text or not text.endswith(("0", ".")), "no trailing zeros"


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0"), (1, "0.000001"), (32_500, "0.0325"), (10 * MICRO, "10"), (100 * MICRO, "100")]
)
def test_a_text_for_people(amount: int, text: str) -> None:
    assert usd(amount) == text


@settings(deadline=None)
@given(st.integers(0, 2**53))
def test_a_metric_gets_the_nearest_number(amount: int) -> None:
    assert usd_float(amount) == float(Fraction(amount, MICRO))


# ---- costs -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(tokens, st.integers(0, 10**10))
def test_tokens_cost_rounds_up(count: int, per_million: int) -> None:
    assert tokens_cost(count, per_million) == ceil(Fraction(count * per_million, 10**6))


@settings(deadline=None)
@given(tokens, tokens, tokens, price)
def test_an_attempt_costs_its_parts_together_rounded_up_once(
    fresh: int, cached: int, output: int, given: Price
) -> None:
    usage = Usage(fresh + cached, output, cached)
    cost = attempt_cost(usage, given)
    if given.input is None or given.output is None:
        assert cost is None
        return
    cached_price = given.input if given.cached_input is None else given.cached_input
    exact = Fraction(fresh * given.input + cached * cached_price + output * given.output, 10**6)
    assert cost == ceil(exact)


@settings(deadline=None)
@given(tokens, tokens, tokens, price, st.integers(0, 10**6))
def test_a_cost_is_never_negative_and_grows_with_every_count(
    fresh: int, cached: int, output: int, given: Price, more: int
) -> None:
    cost = attempt_cost(Usage(fresh + cached, output, cached), given)
    if cost is None:
        return
    assert cost >= 0
    assert cost <= (attempt_cost(Usage(fresh + more + cached, output, cached), given) or 0)
    assert cost <= (attempt_cost(Usage(fresh + cached + more, output, cached + more), given) or 0)
    assert cost <= (attempt_cost(Usage(fresh + cached, output + more, cached), given) or 0)


@settings(deadline=None)
@given(st.integers(0, 10**24))
def test_rounding_is_up_and_by_less_than_one(pico: int) -> None:
    assert 0 <= micro_from_pico(pico) - Fraction(pico, MICRO) < 1


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(0, 10**12), max_size=6))
def test_a_decision_costs_what_its_attempts_cost_and_is_settled_with_it(costs: list[int | None]) -> None:
    rows = [
        AttemptRow(n, "t", "p", "echo", "ok", 200, input_tokens=n, output_tokens=2 * n, cost_micro_usd=cost)
        for n, cost in enumerate(costs, 1)
    ]
    total = sum(cost or 0 for cost in costs)
    decision = Decision("dec_1", 0.0, "policy", None, None, None, "answered", 200, "ok", attempts=tuple(rows))
    assert decision.cost_micro_usd == charged(rows).cost_micro_usd == total
    assert charged(rows).output == 2 * charged(rows).input == 2 * sum(range(1, len(costs) + 1))


def test_every_cost_fits_into_a_database() -> None:
    """The dearest price that a file may name, and the largest counts that are believed."""
    dearest = Price(*[micro_usd(1e9)] * 4)
    reported = attempt_cost(Usage(REPORTED_MAX, REPORTED_MAX), dearest)
    assert reported is not None
    assert reported < 2**63
    assert most_output(2**31 - 1, None, None) == most_output(None, None, 2**53) == OUTPUT_CEILING


# ---- expected --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(tokens, st.none() | st.integers(1, 10**6), st.integers(1, 128), st.integers(1, 4096), price, st.none() | tokens)
def test_what_is_expected_is_never_more_than_the_worst_case(
    at_most: int, asked: int | None, n: int, usual: int, given: Price, most: int | None
) -> None:
    one = target(given, most=most)
    expected, worst = expected_cost(at_most, asked, n, usual, one), worst_case(at_most, asked, n, one)
    assert (expected is None) == (worst is None)
    assert expected is None or worst is None or micro_from_pico(expected) <= worst


def test_more_cached_than_input_is_never_negative() -> None:
    assert attempt_cost(Usage(input=5, output=0, cached=10), Price(MICRO, MICRO)) == 10


@settings(deadline=None)
@given(tokens, st.none() | tokens, st.integers(1, 128), price, st.none() | tokens, st.none() | tokens)
def test_the_worst_case_is_exact(
    at_most: int, asked: int | None, n: int, given: Price, window: int | None, most: int | None
) -> None:
    cost = worst_case(at_most, asked, n, target(given, window, most))
    if given.input is None or given.output is None:
        assert cost is None
        return
    bounds = [bound for bound in (asked, most) if bound is not None]
    output = min(OUTPUT_CEILING, min(bounds) if bounds else 32_768 if window is None else window)
    dearest = max(given.input, given.cache_write or 0, given.cached_input or 0)
    assert cost == ceil(Fraction(at_most * dearest + output * n * given.output, 10**6))


@settings(deadline=None)
@given(st.data(), tokens, st.none() | tokens, st.integers(1, 128), price)
def test_a_reservation_is_never_smaller_than_the_bill(
    data: st.DataObject, at_most: int, asked: int | None, n: int, given: Price
) -> None:
    """Whatever the answer turns out to use within its bounds, cached input dearer than plain input included."""
    one = target(given, 1000)
    held = worst_case(at_most, asked, n, one)
    output = 1000 if asked is None else min(asked, OUTPUT_CEILING)
    used = data.draw(st.just(at_most) | st.integers(0, at_most))
    cached = data.draw(st.just(used) | st.integers(0, used))
    usage = Usage(used, data.draw(st.just(output * n) | st.integers(0, output * n)), cached)
    bill = attempt_cost(usage, given)
    assert (held is None) == (bill is None)
    assert held is None or bill is None or bill <= held


@pytest.mark.parametrize("dear", [Price(1, 0, cached_input=9), Price(1, 0, cache_write=9), Price(9, 0, 1, 1)])
def test_input_that_a_cache_makes_dearer_counts(dear: Price) -> None:
    assert worst_case(MICRO, 0, 1, target(dear)) == 9


def test_no_price_is_no_cost_and_a_price_of_zero_is_free() -> None:
    assert worst_case(1000, 10, 1, target(Price(input=0))) is None
    assert worst_case(1000, 10, 1, target(Price(output=0))) is None
    assert worst_case(1000, None, 128, target(Price(0, 0))) == 0
