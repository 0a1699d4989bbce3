"""What each outcome of a request does to the metrics, behind every way in. They are scraped with the key of their own."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import httpx
import pytest

from narrows import Attempt, Block, Decision, Denial, Gateway, Inbound, Provider, Reply, Request, Sink, hookimpl
from narrows.telemetry import Metrics, metrics_exposition
from narrows.testing import Answer, Stream, stream_events
from narrows.testing.openai_shapes import completion, encode
from narrows.types import Body
from tests.support.metrics import Scrape
from tests.surface.support import CHAT, JSON, PATIENCE, PROMPT, Site, Way, opened
from tests.surface.world import KINDS, RAISED, WORLD

KEY: Final = "nrw_metrics-canary-1b7e"
BEARER: Final = ("authorization", f"Bearer {KEY}")
EU: Final = [("x-region", "eu")]
TEXT: Final = WORLD.replace("[server]", f'[server]\nmetrics_key_sha256 = "{hashlib.sha256(KEY.encode()).hexdigest()}"')


@pytest.fixture(scope="module")
def counting(way: Way) -> Iterator[Site]:
    """The usual gateway with a key for its metrics."""
    with opened(way, TEXT, kinds=KINDS) as site:
        yield site


@pytest.fixture
def counted(counting: Site) -> Site:
    counting.clear()
    return counting


def scrape(site: Site) -> Scrape:
    response = site.get("/metrics", [BEARER])
    assert response.status_code == 200, response.text
    return Scrape(response.text)


def done(site: Site, response: httpx.Response) -> None:
    """Its decision has been recorded, behind its last byte."""
    site.decision(response)


def gained(site: Site, name: str, *asked: Callable[[], httpx.Response]) -> dict[frozenset[str], float]:
    """What these requests add to a metric, by the values of its labels."""
    before = scrape(site)
    for ask in asked:
        done(site, ask())
    return scrape(site).gained(before, name)


def of(*values: str) -> frozenset[str]:
    return frozenset(values)


# ---- requests and attempts -----------------------------------------------------------------------------------------


def test_each_outcome_is_counted_under_its_route_and_code(counted: Site) -> None:
    assert gained(
        counted, "requests_total",
        counted.ask,
        lambda: counted.ask(stream=True),
        lambda: counted.ask("american", saying=EU),
        lambda: counted.ask("nobody"),
        lambda: counted.ask(saying=[("x-act", "forbidden")]),
        lambda: counted.ask(stream="true"),
    ) == {
        of("chat", "ok"): 2, of("american", "no_eligible_target"): 1, of("other", "unknown_model"): 1,
        of("chat", "forbidden"): 1, of("other", "invalid_body"): 1,
    }  # fmt: skip


def test_what_is_no_request_for_a_model_is_not_counted(counted: Site) -> None:
    before = scrape(counted)
    counted.explain()
    for path in ("/v1/models", "/health/live", "/nowhere", "/metrics"):
        counted.get(path)
    assert scrape(counted).gained(before, "requests_total") == {}


def test_each_attempt_is_counted_under_its_class(counted: Site) -> None:
    counted.provider.script("eu-1", Answer(500))
    assert gained(counted, "attempts_total", counted.ask) == {of("eu", "server_error"): 1, of("us", "ok"): 1}


def test_tokens_and_money_are_what_the_decision_says(counted: Site) -> None:
    before = scrape(counted)
    (row,) = counted.decision(counted.ask("american")).attempts
    after = scrape(counted)
    assert row.cost_micro_usd
    assert after.gained(before, "tokens_total") == {
        of("us", "input"): row.input_tokens, of("us", "output"): row.output_tokens,
    }  # fmt: skip
    (usd,) = after.gained(before, "cost_usd_total").values()
    assert usd == pytest.approx(row.cost_micro_usd / 1e6)


# ---- the policy ----------------------------------------------------------------------------------------------------


def test_removed_targets_are_counted_under_their_constraint_and_code(counted: Site) -> None:
    assert gained(counted, "excluded_targets_total", lambda: counted.ask(saying=EU)) == {
        of("chat", "residency", "attribute_mismatch"): 1
    }
    assert gained(counted, "excluded_targets_total", counted.ask) == {}


def test_a_blocked_fallback_is_counted_where_a_rule_stood_between(counted: Site) -> None:
    counted.provider.script("eu-1", Answer(500))

    def blocked() -> httpx.Response:
        return counted.ask(saying=EU)

    assert gained(counted, "blocked_fallback_total", blocked) == {of("chat", "residency"): 1}
    assert counted.provider.count("us-1") == 0

    assert gained(counted, "blocked_fallback_total", counted.ask) == {}  # nothing stood there: it moved on
    assert counted.provider.count("us-1") == 1

    counted.provider.script("us-1", Answer(500))
    assert gained(counted, "blocked_fallback_total", counted.ask) == {}  # both failed, no rule removed one

    counted.provider.script("eu-1", Answer(400))
    assert gained(counted, "blocked_fallback_total", blocked) == {}  # it stopped: no target would have been tried

    counted.provider.script("eu-1", Answer())
    assert gained(counted, "blocked_fallback_total", blocked) == {}  # it was answered


def test_a_plugin_that_fails_or_breaks_its_contract_is_counted_by_name(counted: Site) -> None:
    def raising() -> httpx.Response:
        return counted.ask(saying=[("x-act", "narrow_raises")])

    def adding() -> httpx.Response:
        return counted.ask(saying=[("x-act", "adds")])

    assert gained(counted, "plugin_errors_total", raising) == {of("acts", "narrow"): 1}
    assert gained(counted, "contract_violations_total", adding) == {of("acts", "narrow"): 1}
    assert gained(counted, "plugin_errors_total", adding, counted.ask) == {}


def test_what_the_ledger_dropped_and_holds_is_shown(way: Way) -> None:
    taken, go_on = threading.Event(), threading.Event()

    class Slow(Sink):
        """Takes one decision, and keeps it for long."""

        @hookimpl
        def record(self, decision: Decision) -> None:
            taken.set()
            go_on.wait(PATIENCE)

    with opened(way, f'{TEXT}\n[sinks.slow]\nkind = "slow"\nqueue = 1\n', kinds={**KINDS, "sinks.slow": Slow}) as site:
        before = scrape(site)
        assert (before("ledger_dropped_total"), before("ledger_queue_entries")) == (0, 0)
        done(site, site.ask())
        assert taken.wait(PATIENCE)
        for _ in range(3):
            done(site, site.ask())
        after = scrape(site)
        assert after("ledger_dropped_total") == site.gateway.engine.recorders.dropped > 0
        assert after("ledger_queue_entries") == site.gateway.engine.recorders.queued > 0
        go_on.set()


# ---- seconds -------------------------------------------------------------------------------------------------------


def test_every_request_is_timed_and_every_answer_has_a_first_byte(counted: Site) -> None:
    counted.provider.script("eu-1", Stream(stream_events("eu-1")[:2]))  # it breaks off
    answers = [lambda: counted.ask(saying=EU, stream=True), lambda: counted.ask("american")]
    refusals = [lambda: counted.ask("american", saying=EU), lambda: counted.ask(saying=[("x-act", "narrow_raises")])]
    for name, expected in (
        ("request_duration_seconds_count", {of("chat"): 2, of("american"): 2}),
        ("time_to_first_chunk_seconds_count", {of("chat"): 1, of("american"): 1}),
        ("policy_duration_seconds_count", {of(): 4}),
    ):
        assert gained(counted, name, *answers, *refusals) == expected


@dataclass
class Clock:
    """Stands still, but for what a test lets pass."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.anyio
async def test_which_seconds_are_whose() -> None:
    clock = Clock()

    class Late(Block):
        """Takes its time to judge."""

        @hookimpl
        def authorize(self, request: Request) -> Denial | None:
            clock.now += 1
            return None

    class Vendor(Provider):
        """Takes its time to answer, and before its last byte."""

        @hookimpl
        async def dispatch(self, attempt: Attempt) -> Reply:
            clock.now += 2
            return Reply(200, (("content-type", "text/event-stream"),), Body(self.events()))

        async def events(self) -> AsyncIterator[bytes]:
            first, *more = stream_events("m")
            clock.now += 4
            yield first
            clock.now += 8
            for event in more:
                yield event

    async def read() -> AsyncIterator[bytes]:
        clock.now += 16
        yield b'{"model": "chat", "stream": true, '
        clock.now += 32
        yield b'"messages": [{"role": "user", "content": "hello"}]}'
        clock.now += 64

    text = (
        '[plugins.late]\nkind = "late"\n[providers.vendor]\nkind = "vendor"\n'
        '[targets.t]\nprovider = "vendor"\nmodel = "m"\n[routes.chat]\ntargets = ["t"]\n'
    )
    kinds: dict[str, type[Block]] = {"plugins.late": Late, "providers.vendor": Vendor}
    gateway = Gateway.from_text(text, kinds=kinds, open_access=True)
    gateway.engine = replace(gateway.engine, clock=clock)
    async with gateway:
        async with gateway.answer(Inbound("POST", CHAT, (JSON,)), read) as reply:
            assert reply.status == 200
            async for _ in reply.chunks:
                pass
            clock.now += 128  # the caller takes its time, too
        async with gateway.answer(Inbound("GET", "/metrics", (), "127.0.0.1"), read) as reply:
            found = Scrape(b"".join([chunk async for chunk in reply.chunks]).decode())
    assert found("policy_duration_seconds_sum") == 1
    assert found("time_to_first_chunk_seconds_sum", route="chat") == 1 + 2 + 4 + (16 + 32 + 64)
    assert found("request_duration_seconds_sum", route="chat") == 1 + 2 + 4 + 8 + (16 + 32 + 64) + 128


# ---- nothing gets out ----------------------------------------------------------------------------------------------


def test_no_text_of_a_caller_or_a_vendor_is_exposed(counted: Site) -> None:
    canary = "CANARY-77aa"
    counted.provider.script("us-1", Answer(200, encode(completion(canary, canary))))
    saying = [("x-request-id", canary), ("x-narrows-session", canary), ("user-agent", canary), ("x-region", canary)]
    for response in (
        counted.ask(canary),
        counted.ask("american", user=canary, metadata={"k": canary}),
        counted.ask("american", saying=saying),
        counted.ask("search", tools=[{"type": canary}]),
        counted.ask(saying=[("x-act", "narrow_raises")]),
    ):
        done(counted, response)
    for accept in ("text/plain", "application/openmetrics-text"):
        text = counted.get("/metrics", [BEARER, ("accept", accept)]).text
        for planted in (canary, PROMPT, RAISED, KEY):
            assert planted not in text


def test_a_scrape_is_no_decision_and_no_line(counted: Site) -> None:
    scrape(counted)
    done(counted, counted.ask())
    counted.probe.only()
    assert counted.log.count("metrics") == 0


def test_many_series_are_written_beside_the_loop_and_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def noting(function: Callable[..., object]) -> Callable[..., object]:
        def noted(*arguments: object) -> object:
            threads.append(threading.get_ident())
            return function(*arguments)

        return noted

    monkeypatch.setattr(Metrics, "families", noting(Metrics.families))
    monkeypatch.setattr(metrics_exposition, "exposed", noting(metrics_exposition.exposed))
    with opened("asyncio", TEXT, kinds=KINDS) as site:
        scrape(site)
    copied, written = threads
    assert copied != written
