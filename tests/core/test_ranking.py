"""What a ranker may say, what it may draw by, and that explain sees the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from narrows import Block, Candidates, ContractViolation, Ranked, Request, Target, hookimpl
from narrows.candidates import Pool
from narrows.ranking import MOST_CHARS, MOST_SIGNALS, Signal, Tickets, accept_order, accept_reason
from narrows.request import EVERYTHING, ForbiddenRead
from narrows.testing import failure_answer
from narrows.types import EMPTY, FailureClass
from tests.surface.support import Site, Way, opened

A, B = Target("a", "p", "k", "m"), Target("b with a space", "p", "k", "m")
CANDIDATES = Candidates(Pool([A, B]), 0b01)


def test_ranked_is_an_order_too() -> None:
    assert accept_order("r", CANDIDATES, Ranked([A])) == (0,)
    assert accept_order("r", CANDIDATES, Ranked(None, "kept")) == ()
    with pytest.raises(ContractViolation, match="added a target"):
        accept_order("r", CANDIDATES, Ranked([B]))
    odd: Any = "a"
    with pytest.raises(ContractViolation, match="returned a str"):
        accept_order("r", CANDIDATES, Ranked(odd))


def test_a_plain_order_has_no_reason() -> None:
    assert accept_reason("r", CANDIDATES, [A]) == accept_reason("r", CANDIDATES, None) == ("", {})


def test_words_numbers_and_names_of_targets_are_taken() -> None:
    signals: dict[str, Signal] = {"a": 1, "b_2": -0.5, "c": True, "d": "word", "e": B.name, "f": 2**53}
    assert accept_reason("r", CANDIDATES, Ranked([A], "why", signals)) == ("why", signals)


def test_what_is_too_long_is_cut_and_what_is_too_many_is_left_out() -> None:
    many = {f"s{number}": number for number in range(100)}
    reason, signals = accept_reason("r", CANDIDATES, Ranked([A], "w" * 1000, many))
    assert (reason, len(signals)) == ("w" * MOST_CHARS, MOST_SIGNALS)
    assert accept_reason("r", CANDIDATES, Ranked(None, "", {"k" * 99: "v" * 99}))[1] == {"k" * 64: "v" * 64}


class Word(str):
    """A text that prints as something else."""


@pytest.mark.parametrize(
    "value",
    ["two words", "Upper", "", "x\n", "é", Word("x"), None, b"x", [], {}, float("nan"), float("inf"), 2**53 + 1],
)
def test_any_other_value_is_dropped_and_not_repeated(value: Any) -> None:
    with pytest.raises(ContractViolation) as caught:
        accept_reason("r", CANDIDATES, Ranked([A], "why", {"name": value}))
    assert "two words" not in str(caught.value)


@pytest.mark.parametrize("reason", ["Two words", "1st", " ", None, 7, "x\n"])
def test_any_other_reason_is_dropped(reason: Any) -> None:
    with pytest.raises(ContractViolation, match="its reason is no word"):
        accept_reason("r", CANDIDATES, Ranked([A], reason))


@pytest.mark.parametrize("signals", [None, [("a", 1)], "a"])
def test_signals_are_a_mapping(signals: Any) -> None:
    with pytest.raises(ContractViolation, match="give a mapping"):
        accept_reason("r", CANDIDATES, Ranked([A], "why", signals))


# ---- tickets ---------------------------------------------------------------------------------------------------------


def test_tickets_count_for_each_route_and_a_look_takes_none() -> None:
    tickets = Tickets()
    assert [tickets.peek("a"), tickets.take("a"), tickets.peek("a"), tickets.take("a")] == [0, 0, 1, 1]
    assert [tickets.take("b"), tickets.take("a")] == [0, 2]


def test_only_a_ranker_is_given_a_ticket() -> None:
    request = Request("chat")
    given = request.with_ticket(7)
    assert (given.ticket, given.route, given.with_ticket(8).ticket) == (7, "chat", 8)
    for other in (request, given.view(EVERYTHING, EMPTY), given.obliged({})):
        with pytest.raises(ForbiddenRead, match="only a ranker"):
            other.ticket  # noqa: B018 - reading it is the test


# ---- live, and explained ---------------------------------------------------------------------------------------------

CONFIG = """
[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"
max_retries = 0

[plugins.draws]
kind = "draws"

[attributes.region]
values = ["eu", "us"]
header = "x-region"
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "region"
target_attribute = "region"

[targets.a]
provider = "vendor"
model = "a"
region = "eu"
[targets.b]
provider = "vendor"
model = "b"
region = "eu"
[targets.c]
provider = "vendor"
model = "c"
region = "us"

[routes.chat]
targets = ["a", "b", "c"]
constraints = ["residency"]
algorithm = "weighted"
[routes.chat.weighted]
weights = { a = 3, c = 0.5 }
seed = 4

[routes.ruled]
targets = ["a"]
"""


class Draws(Block):
    """A rule that would draw lots."""

    @hookimpl
    def narrow(self, request: Request, candidates: Candidates) -> Candidates | None:
        return candidates.without(next(iter(candidates)), "odd", "odd") if self._odd(request) else None

    def _odd(self, request: Request) -> bool:
        return request.route == "ruled" and bool(request.ticket)


KINDS = {"plugins.draws": Draws}


@pytest.fixture(params=["asyncio", "trio"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    way: Way = request.param
    with opened(way, CONFIG, kinds=KINDS) as site:
        yield site


def orders(site: Site, n: int) -> list[tuple[str, ...]]:
    return [site.decision(site.ask()).order for _ in range(n)]


def test_a_seed_gives_each_request_its_order_again_after_a_start_and_refusals_take_no_ticket(site: Site) -> None:
    first = orders(site, 12)
    assert len(set(first)) > 2
    with opened("asyncio", CONFIG, kinds=KINDS) as again:
        seen = []
        for _ in first:
            assert again.ask("ruled").status_code == 503  # of another route, and refused: neither is counted here
            told = again.explain()
            assert told == {**again.explain(), "decision": told["decision"]}, "a look changes nothing"
            decision = again.decision(again.ask())
            assert tuple(told["order"]) == decision.order
            assert told["rank"] == decision.document()["rank"]
            assert told["rank"]["reason"] == "drawn"
            seen.append(decision.order)
        assert seen == first


def test_failover_follows_the_order_that_was_drawn_and_a_rule_leaves_it_as_it_is(site: Site) -> None:
    for model in ("a", "b", "c"):
        site.provider.script(model, failure_answer(FailureClass.SERVER_ERROR))
    for _ in range(6):
        whole = tuple(site.explain()["order"])
        without_us = tuple(site.explain(saying=(("x-region", "eu"),))["order"])
        assert without_us == tuple(name for name in whole if name != "c")
        decision = site.decision(site.ask())
        assert tuple(row.target for row in decision.attempts) == decision.order == whole
    assert {name for name in "abc" if site.provider.count(name) == 6} == {"a", "b", "c"}


def test_a_rule_that_draws_lots_is_refused(site: Site) -> None:
    response = site.ask("ruled")
    assert (response.status_code, response.headers["x-narrows-code"]) == (503, "constraint_failed")
    assert site.provider.count() == 0
    assert site.ask("chat").status_code == 200
