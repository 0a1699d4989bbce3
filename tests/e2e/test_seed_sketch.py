"""The sketch this project grew from, at the provider's socket: `x-region: eu` never reaches frontier_us, whatever fails.

`local` fails, so that something has to be chosen. Each refusal has its control: without the header frontier_us *is* called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import httpx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from narrows import ConfigError, FailureClass, Gateway, transport
from narrows.failover import MOVING
from narrows.testing import (
    Answer,
    Hold,
    RecordingProvider,
    Refuse,
    Script,
    Stall,
    Stream,
    error_event,
    event,
    failure_answer,
)
from tests.e2e.support import CHAT, SOON, Serve, Stage, chat, staged
from tests.support.config import toml
from tests.support.sse import sse_events

pytestmark = pytest.mark.usefixtures("quick")

F = FailureClass
SKETCH = (Path(__file__).parents[1] / "cases/seed-sketch.toml").read_text("utf-8")
ENV = {"DEEPSEEK_API_KEY": "sk-seed-canary"}
EU = {"x-region": "eu"}
LOCAL, US, EUROPE, GOLD = "local-small", "deepseek-r1-us", "deepseek-r1-eu", "gold-eu"
DOWN = failure_answer(F.SERVER_ERROR, status=503)
FIRST = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}}]})

WHO = pytest.mark.parametrize("headers", [EU, {}], ids=["eu", "silent"])
PLAIN_OR_STREAM = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


@pytest.fixture(scope="module")
def sketched(serve_once: Serve) -> Iterator[Stage]:
    text = SKETCH.replace("http://127.0.0.1:9901/v1", "{url}").replace('"escalation"', '"ordered"')
    with staged(serve_once, text, ENV) as stage:
        yield stage


@pytest.fixture
def sketch(sketched: Stage) -> Stage:
    """The sketch, fresh."""
    sketched.reset()
    return sketched


def counts(stage: Stage) -> tuple[int, ...]:
    """Calls of local, frontier_us, frontier_eu, gold_eu."""
    return stage.counts(LOCAL, US, EUROPE, GOLD)


def frontier(headers: Mapping[str, str]) -> str:
    """Who follows local, in the route's order."""
    return "frontier_eu" if headers else "frontier_us"


def once_after(local: int, headers: Mapping[str, str]) -> tuple[int, ...]:
    """So many calls of local, then one of whoever follows."""
    return (local, 0, 1, 0) if headers else (local, 1, 0, 0)


def test_it_loads_but_for_its_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-seed-canary")
    with pytest.raises(ConfigError) as refused:
        Gateway.from_text(SKETCH)
    assert [problem.code for problem in refused.value.problems] == ["not_built_yet"]
    gateway = Gateway.from_text(SKETCH.replace('"escalation"', '"ordered"'))
    assert [warning.code for warning in gateway.warnings] == ["binds_only_who_says"]


# ---- over everything that can happen -------------------------------------------------------------------------------


@WHO
@PLAIN_OR_STREAM
def test_success(sketch: Stage, headers: dict[str, str], stream: bool) -> None:
    response = sketch.ask("agent", headers, stream=stream)
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, "local")
    assert counts(sketch) == (1, 0, 0, 0)


@WHO
@PLAIN_OR_STREAM
def test_retry(sketch: Stage, headers: dict[str, str], stream: bool) -> None:
    sketch.provider.script(LOCAL, DOWN, Answer())
    response = sketch.ask("agent", headers, stream=stream)
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, "local")
    assert counts(sketch) == (2, 0, 0, 0)


@WHO
@PLAIN_OR_STREAM
@pytest.mark.parametrize("spelling", ["eu", "EU", "eu , Eu"])
def test_local_is_down(sketch: Stage, headers: dict[str, str], stream: bool, spelling: str) -> None:
    sketch.provider.script(LOCAL, DOWN)
    response = sketch.ask("agent", {**headers, **({"x-region": spelling} if headers else {})}, stream=stream)
    assert (response.status_code, response.headers["x-narrows-target"]) == (200, frontier(headers))
    assert counts(sketch) == once_after(2, headers)


@WHO
@PLAIN_OR_STREAM
@pytest.mark.parametrize("failure", sorted(MOVING))
def test_every_moving_class(sketch: Stage, headers: dict[str, str], stream: bool, failure: FailureClass) -> None:
    sketch.provider.script(LOCAL, failure_answer(failure))
    response = sketch.ask("agent", headers, stream=stream)
    assert response.headers["x-narrows-target"] == frontier(headers)
    assert counts(sketch) == once_after(1 if failure is F.RATE_LIMITED else 2, headers)


@WHO
@pytest.mark.parametrize("failure", sorted(MOVING))
def test_every_moving_class_as_a_first_event(sketch: Stage, headers: dict[str, str], failure: FailureClass) -> None:
    sketch.provider.script(LOCAL, Stream((b": hello\n\n", error_event(failure))))
    response = sketch.ask("agent", headers, stream=True)
    assert response.headers["x-narrows-target"] == frontier(headers)
    assert counts(sketch) == once_after(1 if failure is F.RATE_LIMITED else 2, headers)


@WHO
@PLAIN_OR_STREAM
@pytest.mark.parametrize(
    "answer", [Refuse(), Answer(200, b"<html>"), Stream((FIRST,), cut_at=9)], ids=["closed", "html", "cut"]
)
def test_no_answer_at_all(sketch: Stage, headers: dict[str, str], stream: bool, answer: Script) -> None:
    sketch.provider.script(LOCAL, answer)
    response = sketch.ask("agent", headers, stream=stream)
    assert response.headers["x-narrows-target"] == frontier(headers)
    assert counts(sketch) == once_after(2, headers)


@WHO
@PLAIN_OR_STREAM
def test_everybody_is_down(sketch: Stage, headers: dict[str, str], stream: bool) -> None:
    for model in (LOCAL, US, EUROPE):
        sketch.provider.script(model, failure_answer(F.SERVER_ERROR, status=503, message=f"from {model}"))
    response = sketch.ask("agent", headers, stream=stream)
    assert (response.status_code, response.headers["x-narrows-target"]) == (503, "frontier_eu")
    assert response.json()["error"]["message"] == f"from {EUROPE}"
    assert counts(sketch) == ((2, 0, 2, 0) if headers else (2, 2, 2, 0))
    assert sketch.decision(response).blocked_fallback  # gold_eu, at least, was removed


@WHO
@pytest.mark.parametrize("failure", sorted(set(F) - MOVING))
def test_every_stopping_class(sketch: Stage, headers: dict[str, str], failure: FailureClass) -> None:
    sketch.provider.script(LOCAL, failure_answer(failure))
    assert sketch.ask("agent", headers).headers["x-narrows-class"] == failure
    assert counts(sketch) == (1, 0, 0, 0)


@WHO
def test_a_stream_is_cut(sketch: Stage, headers: dict[str, str]) -> None:
    cut = Stream((FIRST, FIRST), cut_at=len(FIRST) + 9)
    sketch.provider.script(LOCAL, DOWN)
    sketch.provider.script(US, cut)
    sketch.provider.script(EUROPE, cut)
    response = sketch.ask("agent", headers, stream=True)
    assert response.headers["x-narrows-target"] == frontier(headers)
    assert "upstream_incomplete" in sse_events(response.content)[-1].data
    assert counts(sketch) == once_after(2, headers)


@WHO
@pytest.mark.parametrize("when", ["waiting", "streaming"])
def test_the_caller_leaves(sketch: Stage, headers: dict[str, str], when: str) -> None:
    answer: Script = Stream((FIRST,), end=False) if when == "streaming" else Answer(before=Hold("never"))
    sketch.provider.script(LOCAL, DOWN)
    sketch.provider.script(US, answer)
    sketch.provider.script(EUROPE, answer)
    with sketch.caller("agent", headers=headers) as caller:
        if when == "streaming":
            caller.read_until(b"Hello")
        sketch.provider.wait_calls(3)
        caller.leave()
        sketch.provider.wait_closed(1, SOON)
    decision = sketch.probe.only()
    assert (decision.outcome, decision.attempts[-1].target) == ("client_disconnected", frontier(headers))
    assert counts(sketch) == once_after(2, headers)


@WHO
def test_the_caller_leaves_while_local_is_silent(sketch: Stage, headers: dict[str, str]) -> None:
    sketch.provider.script(LOCAL, Stall())
    with sketch.caller("agent", headers=headers) as caller:
        sketch.provider.wait_calls(1)
        caller.leave()
        sketch.provider.wait_closed(1, SOON)
    sketch.probe.only()
    assert counts(sketch) == (1, 0, 0, 0)


def test_contradicting_regions_leave_nobody(sketch: Stage) -> None:
    for said in ("eu, us", "us,eu", "mars"):
        response = sketch.ask("agent", {"x-region": said})
        assert (response.status_code, response.headers["x-narrows-code"]) == (403, "no_eligible_target")
    assert sketch.provider.connections == 0
    assert sketch.ask("agent", {"x-region": "us"}).headers["x-narrows-target"] == "frontier_us"


# ---- nobody left: the counts add up --------------------------------------------------------------------------------

REGION = st.sampled_from(["us", "ap", ("us", "eu")])
OUTPUT_PRICE = st.sampled_from([None, 0, 40, 100, 101, 500])
TARGETS = st.lists(st.tuples(REGION, OUTPUT_PRICE), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def recorder() -> Iterator[RecordingProvider]:
    with RecordingProvider() as provider:
        yield provider


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=20, deadline=None)
@given(targets=TARGETS, order=st.permutations(["budget", "residency"]))
def test_an_eu_only_request_without_an_eu_target_is_refused_with_counts_that_add_up(
    recorder: RecordingProvider, backend: str, targets: list[tuple[str | tuple[str, ...], int | None]], order: list[str]
) -> None:
    assume(any(price is not None and price <= 100 for _, price in targets))  # else the load refuses the route
    names = [f"t{number}" for number in range(len(targets))]
    text = toml(only_elsewhere(recorder.base_url, dict(zip(names, targets, strict=True)), order))
    recorder.clear()
    refused, served = anyio.run(eu_and_silent, text, backend=backend)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (403, "no_eligible_target")
    assert recorder.count() == 1  # the control's: the refused one called nobody
    assert served.status_code == 200
    rows = error["exclusions"]
    assert sum(row["count"] for row in rows) == len(names)  # each target once, under its first failing rule
    dear = sum(price is None or price > 100 for _, price in targets)
    by_rule = Counter[str]()
    for row in rows:
        by_rule[row["constraint"]] += row["count"]
    assert by_rule["budget"] == (dear if order[0] == "budget" else 0)
    assert error["message"].startswith(f'0 of {len(names)} targets eligible on "agent": ')


def only_elsewhere(
    url: str, targets: Mapping[str, tuple[str | tuple[str, ...], int | None]], order: list[str]
) -> dict[str, object]:
    """The sketch's two constraints over targets of which none is in the EU alone."""
    return {
        "constraints": {
            "budget": {"kind": "cost_ceiling", "max_cost_per_mtok_out": 100},
            "residency": {"kind": "attribute_match", "request_attribute": "x-region", "target_attribute": "region"},
        },
        "providers": {"p": {"kind": "openai_compatible", "base_url": url}},
        "targets": {
            name: {"provider": "p", "model": name, "region": region}
            | ({} if price is None else {"cost_per_mtok_out": price})
            for name, (region, price) in targets.items()
        },
        "routes": {"agent": {"targets": list(targets), "constraints": order}},
    }


async def eu_and_silent(text: str) -> tuple[httpx.Response, httpx.Response]:
    """The same request with and without its region, in this process."""
    gateway = Gateway.from_text(text, open_access=True)
    async with gateway, httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        refused = await client.post(CHAT, json=chat("agent"), headers=EU)
        return refused, await client.post(CHAT, json=chat("agent"))
