"""What each attempt is charged with: as its provider reports, else as estimated, and which of the two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from narrows import Decision, Usage
from narrows.decision import AttemptRow
from narrows.testing import Answer, Scripted, Stall, Stream, completion, event, failure_answer, stream_events
from narrows.types import FailureClass
from tests.support.purse import Purse
from tests.surface.support import Site, Way, opened

CONFIG = """
[plugins.purse]
kind = "purse"

[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"
max_retries = 0

[providers.hasty]
kind = "openai_compatible"
base_url = "{url}"
max_retries = 0
timeout_secs = 0.15

[targets.a]
provider = "vendor"
model = "a"
price = { input = 2.0, output = 10.0, cached_input = 0.5 }
max_output_tokens = 1000

[targets.b]
provider = "vendor"
model = "b"
price = { input = 1.0, output = 1.0 }
max_output_tokens = 1000

[targets.hasty]
provider = "hasty"
model = "hasty"
price = { input = 2.0, output = 10.0 }
max_output_tokens = 1000

[routes.chat]
targets = ["a", "b"]

[routes.hasty]
targets = ["hasty"]

[routes.slow]
targets = ["a"]
deadline_secs = 0.15

[routes.patient]
targets = ["a"]
deadline_secs = 0.5

[routes.short]
targets = ["a"]
"""
TEXT = "Hello there, whoever you are."
REPORTED = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}
PAID = 600 * 2 + 400 * 0.5 + 100 * 10
"""Micro-USD of it."""

NO_COUNTS: tuple[object, ...] = (
    {"prompt_tokens": -5, "completion_tokens": 5},
    {"prompt_tokens": 5, "completion_tokens": -(10**18)},
    {"prompt_tokens": 7.5, "completion_tokens": 5},
    {"prompt_tokens": "7", "completion_tokens": "5"},
    {"prompt_tokens": 10**12, "completion_tokens": 5},
    {"prompt_tokens": 7},
    {"prompt_tokens": None, "completion_tokens": None},
    [7, 5],
    "7",
    None,
)


@pytest.fixture(scope="module")
def purse() -> Purse:
    return Purse()


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def running(request: pytest.FixtureRequest, purse: Purse) -> Iterator[Site]:
    way: Way = request.param
    with opened(way, CONFIG, kinds={"plugins.purse": purse.kind()}) as site:
        yield site


@pytest.fixture
def site(running: Site, purse: Purse) -> Site:
    running.clear()
    purse.clear()
    return running


def charged(site: Site, answer: Scripted, *, route: str = "short", model: str = "a", **body: Any) -> AttemptRow:
    """The row of one request with that answer. The decision and the settlement agree with it."""
    site.provider.script(model, answer)
    decision = site.decision(site.ask(route, **body))
    (row,) = decision.attempts
    assert decision.cost_micro_usd == row.cost_micro_usd
    return row


def plain(usage: object, text: str = TEXT, **more: object) -> Answer:
    return Answer(body={**completion("a", text), "usage": usage, **more})


def streamed(*usages: object, text: str = TEXT) -> Stream:
    """The text, and behind it one chunk for each of these usages."""
    *events, done = stream_events("a", text)
    return Stream((*events, *(event({"choices": [], "usage": usage}) for usage in usages), done))


# ---- reported --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_reported_tokens_are_charged_and_cached_ones_at_their_own_price(site: Site, purse: Purse, stream: bool) -> None:
    row = charged(site, streamed(REPORTED) if stream else plain(REPORTED), stream=stream)
    assert (row.usage, row.input_tokens, row.output_tokens, row.cached_tokens) == ("reported", 1000, 100, 400)
    assert row.cost_micro_usd == PAID
    assert purse.wait() == Usage(1000, 100, 400, reported=True, cost_micro_usd=int(PAID))


def test_cached_tokens_are_never_more_than_the_prompt(site: Site) -> None:
    row = charged(site, plain({**REPORTED, "prompt_tokens": 300}))
    assert (row.input_tokens, row.cached_tokens, row.cost_micro_usd) == (300, 300, 300 * 0.5 + 100 * 10)


@pytest.mark.parametrize(
    "details", [{"cached_tokens": -1}, {"cached_tokens": "9"}, {"cached_tokens": 10**12}, [], "x", 9]
)
def test_what_is_no_count_of_cached_tokens_costs_the_discount_only(site: Site, details: object) -> None:
    row = charged(site, plain({**REPORTED, "prompt_tokens_details": details}))
    assert (row.usage, row.input_tokens, row.cached_tokens) == ("reported", 1000, 0)


def test_usage_spread_over_chunks_is_put_together_and_the_last_count_stands(site: Site) -> None:
    parts = (
        {"prompt_tokens": 1000, "completion_tokens": 1},
        {"completion_tokens": 60},
        {"completion_tokens": 100},
        None,
    )
    row = charged(site, streamed(*parts), stream=True)
    assert (row.usage, row.input_tokens, row.output_tokens) == ("reported", 1000, 100)


def test_reasoning_is_part_of_the_completion_unless_the_total_says_that_it_comes_on_top(site: Site) -> None:
    reasoning = {**REPORTED, "completion_tokens_details": {"reasoning_tokens": 80}}
    assert charged(site, plain({**reasoning, "total_tokens": 1100})).output_tokens == 100
    assert charged(site, plain(reasoning)).output_tokens == 100
    assert charged(site, plain({**reasoning, "total_tokens": 1180})).output_tokens == 180


def test_several_answers_are_charged_together(site: Site, purse: Purse) -> None:
    """Reported once for all of them; estimated, all of them are measured."""
    choices = [{"index": place, "message": {"role": "assistant", "content": "x" * 400}} for place in range(3)]
    row = charged(site, plain(REPORTED, choices=choices), n=3)
    assert (row.output_tokens, row.cost_micro_usd) == (100, PAID)
    row = charged(site, plain(None, choices=choices), n=3)
    assert (row.usage, row.output_tokens) == ("estimated", 300)
    assert max(purse.holds) >= 3 * 1000 * 10, "three of the longest answers are held"


# ---- estimated -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("usage", NO_COUNTS, ids=str)
def test_what_is_no_count_is_not_reported(site: Site, purse: Purse, usage: object, stream: bool) -> None:
    """About four bytes a token, of the prompt and of what the model wrote: not of the envelope around it."""
    row = charged(site, streamed(usage) if stream else plain(usage), stream=stream)
    assert (row.usage, row.cached_tokens, row.output_tokens) == ("estimated", 0, -(-len(TEXT) // 4))
    assert row.input_tokens > 0
    assert row.cost_micro_usd == row.input_tokens * 2 + row.output_tokens * 10
    assert purse.wait() == Usage(row.input_tokens, row.output_tokens, cost_micro_usd=row.cost_micro_usd)


def test_nonsense_behind_a_report_does_not_undo_it(site: Site) -> None:
    row = charged(site, streamed(REPORTED, {"prompt_tokens": "x"}, {"prompt_tokens": -1}), stream=True)
    assert (row.usage, row.cost_micro_usd) == ("reported", PAID)


def test_the_gateway_does_not_ask_for_usage_that_the_caller_did_not_ask_for(site: Site) -> None:
    """It would change the caller's stream. So a stream without is estimated; one with is passed on and believed."""
    site.ask("short", stream=True)
    (call,) = site.provider.calls
    assert "stream_options" not in json.loads(call.body)
    response = site.ask("short", stream=True, stream_options={"include_usage": True})
    (row,) = site.decision(response).attempts
    assert row.usage == "reported"


# ---- failures, and nobody waiting ------------------------------------------------------------------------------------


def test_a_failure_costs_nothing_and_the_next_attempt_is_added(site: Site, purse: Purse) -> None:
    site.provider.script("a", failure_answer(FailureClass.SERVER_ERROR))
    site.provider.script("b", plain(REPORTED))
    decision = site.decision(site.ask("chat"))
    assert [(row.failure_class, row.cost_micro_usd) for row in decision.attempts] == [("server_error", 0), ("ok", 1100)]
    assert decision.cost_micro_usd == purse.wait().cost_micro_usd == 1100


@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        (Stall(), False),
        (Stall(after_headers=True), True),
        (Stall(after_headers=True, body=stream_events("a")[1]), True),
    ],
    ids=["no-headers", "no-event", "in-the-middle"],
)
def test_a_time_out_settles_at_its_worst_case(site: Site, purse: Purse, answer: Stall, stream: bool) -> None:
    """The provider may have answered in full all the same: every byte of the prompt a token, the longest answer."""
    row = charged(site, answer, route="hasty", model="hasty", stream=stream)
    assert (row.failure_class, row.usage, row.output_tokens) == ("timeout", "estimated", 1000)
    assert row.cost_micro_usd == row.input_tokens * 2 + 1000 * 10
    assert purse.wait().cost_micro_usd == row.cost_micro_usd == max(purse.holds)


def test_a_deadline_settles_at_the_worst_case_too(site: Site) -> None:
    row = charged(site, Stall(), route="slow")
    assert (row.failure_class, row.status, row.evidence, row.output_tokens) == ("timeout", None, "deadline", 1000)


def test_an_error_that_is_not_waited_for_is_that_error_and_no_time_out(site: Site) -> None:
    """Its status has come, and the rest has not when the deadline passes."""
    row = charged(site, Stream((b'{"error":',), status=500, end=False), route="patient")
    assert (row.failure_class, row.status, row.cost_micro_usd) == ("server_error", 500, 0)


def test_a_stream_that_breaks_off_is_charged_with_what_came(site: Site) -> None:
    events = stream_events("a", TEXT)
    row = charged(site, Stream(events[:3], cut_at=len(b"".join(events[:3]))), stream=True)
    assert (row.failure_class, row.usage, row.output_tokens) == (
        "server_error",
        "estimated",
        -(-len("Hello there,") // 4),
    )
    assert row.cost_micro_usd == row.input_tokens * 2 + row.output_tokens * 10


def test_an_upstream_that_cannot_be_reached_costs_nothing() -> None:
    from tests.support.servers import closed_port

    with closed_port() as port, opened("asyncio", CONFIG.replace("{url}", f"http://127.0.0.1:{port}")
                                       .replace('[plugins.purse]\nkind = "purse"', "")) as site:  # fmt: skip
        decision: Decision = site.decision(site.ask("hasty"))
        (row,) = decision.attempts
        assert (row.input_tokens, row.output_tokens, row.cost_micro_usd) == (0, 0, 0)
