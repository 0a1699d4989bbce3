"""`weighted`: chances in proportion to the weights, whatever a rule has removed, and the same again under a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from narrows import ConfigError, Gateway, Target
from narrows.candidates import Pool
from narrows_plugins.rank.weighted import Weighted
from tests.plugins.narrow.ruling import block, hooks
from tests.plugins.rank.orders import ranked

NAMES = ("a", "b", "c", "d")
POOL = Pool([Target(name, "p", "echo", name) for name in NAMES])
WEIGHTS = {"a": 5, "b": 2, "c": 0.5}
"""`d` is not named: it weighs 1."""

DRAWS = 4000
CHI_SQUARED = {1: 10.83, 2: 13.82, 3: 16.27, 5: 20.52, 23: 49.73}
"""What chance alone exceeds once in a thousand times, by degrees of freedom. The seed makes each test's draw the same."""


def weight(place: int) -> float:
    return WEIGHTS.get(NAMES[place], 1.0)


def likelihood(order: tuple[int, ...]) -> float:
    """Of this order, drawn without replacement."""
    result, left = 1.0, sum(map(weight, order))
    for place in order:
        result *= weight(place) / left
        left -= weight(place)
    return result


def chi_squared(seen: Mapping[tuple[int, ...], int], every: list[tuple[int, ...]]) -> float:
    assert set(seen) <= set(every)
    expected = {order: DRAWS * likelihood(order) for order in every}
    return sum((seen.get(order, 0) - n) ** 2 / n for order, n in expected.items())


@pytest.mark.parametrize(
    "mask", [0b1111, 0b0111, 0b1110, 0b1011, 0b0011, 0b1100, 0b1001], ids=lambda mask: f"{mask:04b}"
)
def test_each_order_of_what_is_left_comes_as_often_as_its_weights_say(mask: int) -> None:
    """Renormalised: a subset is drawn as if the others had never been in the file. The order behind the first, too."""
    ranker = block(Weighted, weights=WEIGHTS, seed=11)
    seen = Counter(ranked(ranker, POOL, ticket, mask)[0] for ticket in range(DRAWS))
    every = list(permutations(place for place in range(4) if mask >> place & 1))
    assert chi_squared(seen, every) < CHI_SQUARED[len(every) - 1]


def test_the_measure_tells_wrong_weights_from_right_ones() -> None:
    """The control: the same draws are no draws of other weights."""
    ranker = block(Weighted, weights={**WEIGHTS, "b": 1.6}, seed=11)
    seen = Counter(ranked(ranker, POOL, ticket, 0b0111)[0] for ticket in range(DRAWS))
    assert chi_squared(seen, list(permutations(range(3)))) > CHI_SQUARED[5]


def test_without_a_seed_the_chances_are_the_same_and_the_draws_are_others() -> None:
    one, other = block(Weighted, weights=WEIGHTS), block(Weighted, weights=WEIGHTS)
    first = [ranked(one, POOL, ticket)[0] for ticket in range(DRAWS)]
    assert first != [ranked(other, POOL, ticket)[0] for ticket in range(DRAWS)]
    assert chi_squared(Counter(first), list(permutations(range(4)))) < 2 * CHI_SQUARED[23]  # no seed: no luck of ours
    assert first == [ranked(one, POOL, ticket)[0] for ticket in range(DRAWS)], "explain draws as the request will"


@settings(deadline=None)
@given(st.integers(), st.integers(0, 10**9), st.integers(1, 15))
def test_a_seed_and_a_ticket_are_the_order_and_narrowing_turns_nothing_round(seed: int, ticket: int, mask: int) -> None:
    one, again = block(Weighted, weights=WEIGHTS, seed=seed), block(Weighted, weights=WEIGHTS, seed=seed)
    whole, reason, signals = ranked(one, POOL, ticket)
    assert ranked(again, POOL, ticket) == (whole, reason, signals)
    assert ranked(one, POOL, ticket, mask)[0] == tuple(place for place in whole if mask >> place & 1)
    assert (reason, signals["ticket"], signals["seeded"]) == ("drawn", ticket, True)
    assert signals["share"] == pytest.approx(weight(whole[0]) / 8.5)


def test_the_order_under_a_seed_never_changes() -> None:
    """Frozen: who replays a month's requests with a later version must find the orders of that month."""
    ranker = block(Weighted, weights=WEIGHTS, seed=7)
    drawn = ["".join(NAMES[place] for place in ranked(ranker, POOL, ticket)[0]) for ticket in range(6)]
    assert drawn == ["abdc", "badc", "badc", "adbc", "bacd", "abcd"]


def test_zero_is_the_last_resort_in_the_order_of_the_file_and_never_excluded() -> None:
    ranker = block(Weighted, weights={"a": 0, "b": 1, "c": 0, "d": 1e-300}, seed=1)
    for ticket in range(50):
        places, _, _ = ranked(ranker, POOL, ticket)
        assert places[2:] == (0, 2)
    assert ranked(ranker, POOL, 0, 0b0101)[0] == (0, 2)
    assert ranked(ranker, POOL, 0, 0b0101)[2]["share"] == 0.0
    assert ranked(ranker, POOL, 0, 0b0001)[0] == (0,)


def test_the_registry_takes_it_and_it_asks_no_judge() -> None:
    assert hooks("rankers.weighted", block(Weighted)) == ("check", "rank")
    assert block(Weighted).judges() == ()


@pytest.mark.parametrize("wrong", [-1, -0.001, float("inf"), float("nan"), 1e10, "3", True, None])
def test_what_is_no_weight_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        Weighted.model_validate({"weights": {"a": wrong}})


CONFIG = """
[providers.p]
kind = "echo"
[targets.large]
provider = "p"
model = "l"
[targets.small]
provider = "p"
model = "s"
[targets.other]
provider = "p"
model = "o"
[routes."a b"]
targets = ["large", "small"]
algorithm = "weighted"
[routes."a b".weighted]
weights = { large = 3, ⟨name⟩ = ⟨weight⟩ }
"""


@pytest.mark.parametrize(
    ("name", "weight", "code", "suggestion"),
    [
        ("smal", "1", "unknown_reference", "small"),
        ("other", "1", "unknown_reference", None),  # of another route's, or of nobody's
        ("small", "-1", "wrong_type", None),
        ("small", "nan", "wrong_type", None),
    ],
)
def test_a_problem_has_its_place(name: str, weight: str, code: str, suggestion: str | None) -> None:
    text = CONFIG.replace("⟨name⟩", name).replace("⟨weight⟩", weight)
    with pytest.raises(ConfigError) as refused:
        Gateway.from_text(text)
    (problem,) = refused.value.problems
    line = text.splitlines().index(f"weights = {{ large = 3, {name} = {weight} }}") + 1
    assert (problem.code, problem.path, problem.line) == (code, f"routes.a b.weighted.weights.{name}", line)
    assert problem.suggestion == suggestion
    assert problem.remedy
    Gateway.from_text(CONFIG.replace("⟨name⟩", "small").replace("⟨weight⟩", "1"))
