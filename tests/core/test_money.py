"""Money is exact: integers inside, what was written at the edges, and a reservation is never smaller than the bill."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Target
from narrows.money import MICRO, attempt_cost, micro_usd, tokens_cost, usd, worst_case
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
    output = min(bounds) if bounds else 32_768 if window is None else window
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
    output = 1000 if asked is None else asked
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
