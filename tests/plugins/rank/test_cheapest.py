"""`cheapest`: by what this very request is expected to cost; free first, unpriced last."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from narrows import Price, Sizes, Target
from narrows.candidates import Pool
from narrows_plugins.rank.cheapest import Cheapest
from tests.plugins.narrow.ruling import block, hooks
from tests.plugins.rank.orders import ranked

USD = 1_000_000


def priced(name: str, price: Price, window: int | None = None, most: int | None = None) -> Target:
    return Target(name, "p", "echo", name, context_window=window, max_output_tokens=most, price=price)


def order(*targets: Target, at_most: int = 400, max_output: int | None = None, n: int = 1, **options: object) -> str:
    places, _, _ = ranked(block(Cheapest, **options), Pool(targets), sizes=Sizes(0, at_most, max_output, n))
    return "".join(targets[place].name for place in places)


READER = priced("r", Price(1 * USD, 10 * USD))
WRITER = priced("w", Price(10 * USD, 1 * USD))


@pytest.mark.parametrize(
    ("at_most", "max_output", "first"),
    [
        (40, None, "w"),
        (40_000, None, "r"),
        (400, 99, "r"),
        (400, 101, "w"),
        (40_000, 9_999, "r"),
        (40_000, 10_001, "w"),
    ],
)
def test_which_is_the_cheapest_depends_on_the_request(at_most: int, max_output: int | None, first: str) -> None:
    """A prompt of 400 bytes counts as 100 tokens; an answer without a limit as 1,024."""
    assert order(READER, WRITER, at_most=at_most, max_output=max_output)[0] == first
    assert order(WRITER, READER, at_most=at_most, max_output=max_output)[0] == first


def test_free_is_first_unpriced_is_last_and_equals_keep_the_order_of_the_file() -> None:
    free, cheap, half = priced("f", Price(0, 0)), priced("c", Price(1, 1)), priced("h", Price(input=0))
    unpriced = priced("u", Price())
    assert order(unpriced, half, cheap, free) == "fcuh"
    assert order(priced("x", Price(5, 5)), priced("y", Price(5, 5)), priced("z", Price(4, 5))) == "zxy"


def test_less_than_a_micro_usd_decides_too() -> None:
    assert order(priced("x", Price(3, 0)), priced("y", Price(2, 0)), at_most=4) == "yx"


def test_answers_are_bounded_by_the_target_multiplied_by_n_and_as_long_as_the_option_says() -> None:
    assert order(READER, priced("b", Price(2 * USD, 11 * USD), most=10)) == "br"
    assert order(READER, priced("b", Price(2 * USD, 11 * USD), window=10)) == "br"
    assert order(READER, WRITER, max_output=60) == "rw"
    assert order(READER, WRITER, max_output=60, n=2) == "wr"
    assert order(READER, WRITER, expected_output_tokens=99) == "rw"
    assert order(READER, WRITER, expected_output_tokens=101) == "wr"


def test_the_reason_is_told_with_the_cost_of_the_first() -> None:
    pool = Pool([priced("u", Price()), READER])
    _, reason, signals = ranked(block(Cheapest), pool, sizes=Sizes(0, 401, 1))
    assert (reason, signals) == ("expected_cost", {"unpriced": 1, "expected_micro_usd": 101 + 10})
    assert ranked(block(Cheapest), pool, mask=0b01)[2] == {"unpriced": 1}


prices = st.none() | st.integers(0, 10 * USD)
targets = st.lists(st.builds(Price, prices, prices), min_size=1, max_size=6).map(
    lambda made: [priced(str(place), price) for place, price in enumerate(made)]
)


@settings(deadline=None)
@given(targets, st.integers(0, 10**6), st.none() | st.integers(1, 10**5), st.data())
def test_it_orders_all_that_is_left_by_cost_and_nothing_else(
    made: list[Target], at_most: int, max_output: int | None, data: st.DataObject
) -> None:
    mask = data.draw(st.integers(1, (1 << len(made)) - 1))
    places, _, _ = ranked(block(Cheapest), Pool(made), mask=mask, sizes=Sizes(0, at_most, max_output))
    assert sorted(places) == [place for place in range(len(made)) if mask >> place & 1]

    def naive(place: int) -> tuple[bool, int]:
        price = made[place].price
        if price.input is None or price.output is None:
            return True, 0
        output = 1024 if max_output is None else max_output
        return False, (at_most + 3) // 4 * price.input + output * price.output

    assert list(places) == sorted(sorted(places), key=naive)


def test_the_registry_takes_it() -> None:
    assert hooks("rankers.cheapest", block(Cheapest)) == ("rank",)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1", 10**8])
def test_what_is_no_length_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        block(Cheapest, expected_output_tokens=wrong)
