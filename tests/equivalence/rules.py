"""Guarantees about what a rule removes: it is gone for good, over success, repeats, failover and streams."""

from __future__ import annotations

from collections.abc import Mapping

from narrows import FailureClass
from narrows.failover import MOVING
from tests.equivalence.bench import Bench
from tests.equivalence.callers import ANY, EU, EU_OR_ANY, REGION, SAYS_REGION
from tests.equivalence.gates import ALICE, BOB, keys
from tests.equivalence.upstreams import Plan

BROKEN = FailureClass.SERVER_ERROR
SKETCH = {"residency": {**REGION, "request_attribute": "x-region"}}
"""Residency as in the sketch that this project grew from: nobody declared the attribute."""


def region(name: str, fails: FailureClass | None = None, times: int | None = None) -> Plan:
    return Plan({"region": name}, fails, times)


async def residency(bench: Bench) -> None:
    """A target of another region is never called: over success, a repeat, failover on every moving class, and when all
    that may be used fail; streamed or not."""
    broken = {f"eu_{fails}": region("eu", fails) for fails in sorted(MOVING)}
    targets = {**broken, "us": region("us"), "eu": region("eu"), "eu_last": region("eu", BROKEN)}
    targets |= {"flaky_plain": region("eu", BROKEN, 1), "flaky_stream": region("eu", BROKEN, 1)}
    routes: dict[str, dict[str, object]] = {"served": {"targets": ["us", "eu"]}}
    routes |= {name: {"targets": [name, "us", "eu"]} for name in broken}
    routes |= {name: {"targets": [name, "us"]} for name in ("flaky_plain", "flaky_stream")}
    routes["all_fail"] = {"targets": [*broken, "us", "eu_last"]}
    for route in routes.values():
        route["constraints"] = ["residency"]
    async with bench.gateway(targets, routes=routes, constraints=SKETCH) as gate:
        for stream in (False, True):
            assert (await gate.ask("served", EU, stream=stream)).target == "eu"
            assert gate.taken() == {"eu": 1}
            for name, plan in broken.items():
                assert (await gate.ask(name, EU, stream=stream)).target == "eu"
                tries = 1 if plan.fails is FailureClass.RATE_LIMITED else 2
                assert gate.taken() == {name: tries, "eu": 1}
            flaky = "flaky_stream" if stream else "flaky_plain"
            assert (await gate.ask(flaky, EU, stream=stream)).target == flaky
            assert gate.taken() == {flaky: 2}
            assert (await gate.ask("all_fail", EU, stream=stream)).target == "eu_last"
            assert gate.taken().keys() == {*broken, "eu_last"}
        for name in ("served", *broken):  # the control: without the header the same routes do call it
            assert (await gate.ask(name)).target == "us"
            assert gate.taken()["us"] == 1


async def silence(bench: Bench) -> None:
    """A request that says nothing reaches only what every declared value permits, also where that fails."""
    targets = {"eu": region("eu", BROKEN), "us": region("us"), "unknown": Plan({"region": ["eu", "us"]})}
    async with bench.gateway(
        targets,
        routes={"chat": {"targets": ["eu", "us", "unknown"], "constraints": ["residency"]}},
        attributes=SAYS_REGION,
        constraints={"residency": EU_OR_ANY},
        auth={"may_say": {"region": ["any"]}},
    ) as gate:
        for stream in (False, True):
            assert (await gate.ask(stream=stream)).status >= 500
            assert gate.taken() == {"eu": 2}
        assert (await gate.ask("chat", ANY)).target == "us"
        assert gate.taken() == {"eu": 2, "us": 1}


async def silence_refused(bench: Bench) -> None:
    """Where silence is refused, or no target fits every value, a silent request calls nobody."""
    us_or_eu = {"values": ["eu", "us"]}
    attributes = {"region": {**us_or_eu, "header": "x-region"}, "desk": {**us_or_eu, "missing": "refuse"}}
    constraints = {"residency": REGION, "desks": {**REGION, "request_attribute": "desk"}}
    async with bench.gateway(
        {"us": region("us"), "eu": region("eu")},
        routes={
            "floor": {"targets": ["us", "eu"], "constraints": ["residency"]},
            "refuse": {"targets": ["us", "eu"], "constraints": ["desks"]},
        },
        attributes=attributes,
        constraints=constraints,
    ) as gate:
        for route in ("floor", "refuse"):
            assert (await gate.ask(route)).refused == (400, "attribute_missing")
            assert (await gate.ask(route, {"x-region": "mars", "desk": "mars"})).refused == (400, "attribute_unknown")
        assert gate.taken() == {}
        assert (await gate.ask("floor", EU)).target == "eu"
        assert (await gate.ask("refuse", {"desk": "us"})).target == "us"
        assert gate.taken() == {"eu": 1, "us": 1}


def user(*parts: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"role": "user", "content": list(parts)}]


NEEDS: Mapping[str, Mapping[str, object]] = {
    "tools": {"tools": [{"type": "function", "function": {"name": "look"}}]},
    "vision": {"messages": user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})},
    "audio": {"modalities": ["text", "audio"]},
    "json_schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
    "reasoning": {"reasoning_effort": "high"},
    "streaming": {"stream": True},
}


async def capability(bench: Bench) -> None:
    """A target that declares that it cannot do what a request needs is not called for it; undeclared means capable. A
    tool that the vendor runs is the other way round."""
    targets = {"plain": Plan({"capabilities": dict.fromkeys(NEEDS, False)}), "bad": Plan(fails=BROKEN), "able": Plan()}
    routes = {"chat": {"targets": ["plain", "able"]}, "alone": {"targets": ["plain"]}}
    routes["failing"] = {"targets": ["bad", "plain"]}
    async with bench.gateway(targets, routes=routes) as gate:
        for need in NEEDS.values():
            assert (await gate.ask("alone", more=need)).refused == (400, "no_capable_target")
            assert gate.taken() == {}
            assert (await gate.ask("failing", more=need)).status >= 500
            assert gate.taken() == {"bad": 2}
            assert (await gate.ask(more=need)).target == "able"
            assert gate.taken() == {"able": 1}
        assert (await gate.ask(tools=[{"type": "web_search"}])).refused == (400, "field_refused")
        assert gate.taken() == {}
        assert (await gate.ask()).target == "plain"
        assert gate.taken() == {"plain": 1}


async def context_window(bench: Bench) -> None:
    """A target whose window is certainly too small for the prompt is not called."""
    long = [{"role": "user", "content": " ".join(f"word{number}" for number in range(2000))}]
    targets = {"small": Plan({"context_window": 1000}), "bad": Plan(fails=BROKEN), "large": Plan()}
    routes = {"chat": {"targets": ["small", "large"]}, "alone": {"targets": ["small"]}}
    routes["failing"] = {"targets": ["bad", "small"]}
    async with bench.gateway(targets, routes=routes) as gate:
        assert (await gate.ask("alone", messages=long)).refused == (400, "no_capable_target")
        assert gate.taken() == {}
        assert (await gate.ask("failing", messages=long)).status >= 500
        assert gate.taken() == {"bad": 2}
        for stream in (False, True):
            assert (await gate.ask(messages=long, stream=stream)).target == "large"
            assert gate.taken() == {"large": 1}
            assert (await gate.ask(stream=stream)).target == "small"
            assert gate.taken() == {"small": 1}


async def price_ceiling(bench: Bench) -> None:
    """A target above the ceiling, or without the price that is compared, is not called, also when cheaper ones fail."""
    targets = {
        "dear": Plan({"cost_per_mtok_out": 140}),
        "unpriced": Plan(),
        "bad": Plan({"cost_per_mtok_out": 0}, BROKEN),
        "fair": Plan({"cost_per_mtok_out": 90}),
    }
    capped = {"constraints": ["budget"]}
    routes: dict[str, dict[str, object]] = {
        "chat": {"targets": ["dear", "bad", "unpriced", "fair"], **capped},
        "failing": {"targets": ["bad", "dear", "unpriced"], **capped},
        "alone": {"targets": ["dear", "unpriced", "fair"], "constraints": ["low"]},
        "free": {"targets": ["dear"]},
        "open": {"targets": ["unpriced"]},
    }
    caps = {
        "budget": {"kind": "cost_ceiling", "max_cost_per_mtok_out": 100},
        "low": {"kind": "cost_ceiling", "max_cost_per_mtok_out": 100, "by": {"tag.intern": 10}},
    }
    async with bench.gateway(targets, routes=routes, constraints=caps, keys=keys(bob={"tags": ["intern"]})) as gate:
        for stream in (False, True):
            assert (await gate.ask(key=ALICE, stream=stream)).target == "fair"
            assert gate.taken() == {"bad": 2, "fair": 1}
            assert (await gate.ask("failing", key=ALICE, stream=stream)).status >= 500
            assert gate.taken() == {"bad": 2}
        assert (await gate.ask("alone", key=BOB)).refused == (402, "cost_ceiling")
        assert gate.taken() == {}
        for route, target in (("alone", "fair"), ("free", "dear"), ("open", "unpriced")):
            assert (await gate.ask(route, key=ALICE)).target == target
            assert gate.taken() == {target: 1}


async def allowed_classes(bench: Bench) -> None:
    """A strict route never calls a target of another class, whatever fails on it."""
    targets = {"private": Plan({"class": "private"}, BROKEN), "public": Plan({"class": "public"})}
    strict: dict[str, object] = {"targets": ["public", "private"], "constraints": ["strict"]}
    routes: dict[str, dict[str, object]] = {"strict": strict, "open": {"targets": ["private", "public"]}}
    only = {"strict": {"kind": "allowed_classes", "classes": ["private"]}}
    async with bench.gateway(targets, routes=routes, constraints=only) as gate:
        for stream in (False, True):
            assert (await gate.ask("strict", stream=stream)).status >= 500
            assert gate.taken() == {"private": 2}
        assert (await gate.ask("open")).target == "public"
        assert gate.taken() == {"private": 2, "public": 1}
