"""Guarantees about what went wrong upstream: three classes move, inside what the rules left; four stop."""

from __future__ import annotations

from narrows import FailureClass
from narrows.failover import MOVING
from tests.equivalence.bench import Bench
from tests.equivalence.gates import Told
from tests.equivalence.upstreams import Plan

WIDE = ["timeout", "rate_limited", "server_error", "endpoint_dead", "context_length"]
"""Everything that a route may let move."""


async def content_refusal_stops(bench: Bench) -> None:
    """A provider's refusal is final: nobody else is asked, whatever the route lets move."""
    for told in await _stopped(bench, FailureClass.CONTENT_POLICY, wide=True):
        assert (told.status, told.code) == (400, "upstream_error")
        assert told.headers["x-narrows-class"] == "content_policy"


async def key_fault_stops(bench: Bench) -> None:
    """A wrong key of ours is the operator's fault: nobody else is asked, and the vendor's words stay here."""
    for told in await _stopped(bench, FailureClass.AUTHENTICATION):
        assert told.refused == (502, "upstream_error")
        assert "Incorrect API key" not in told.text


async def long_prompt_stops(bench: Bench) -> None:
    """A prompt that was too long for one is not sent to the next."""
    for told in await _stopped(bench, FailureClass.CONTEXT_LENGTH):
        assert (told.status, told.code) == (400, "upstream_error")


async def bad_request_stops(bench: Bench) -> None:
    """A request that is wrong at one vendor is wrong at the next, and is not sent there; also where everything moves."""
    for told in await _stopped(bench, FailureClass.INVALID_REQUEST, wide=True):
        assert (told.status, told.code) == (400, "upstream_error")


async def _stopped(bench: Bench, failure: FailureClass, *, wide: bool = False) -> list[Told]:
    """What callers got of a target that fails so. Only that target was called, once each time; the control: after a
    failure that moves, the same route does call the next one."""
    targets = {"stops": Plan(fails=failure), "moves": Plan(fails=FailureClass.SERVER_ERROR), "next": Plan()}
    routes: dict[str, dict[str, object]] = {
        "stops": {"targets": ["stops", "next"]},
        "moves": {"targets": ["moves", "next"]},
        "both": {"targets": ["moves", "stops", "next"]},
    }
    if wide:
        routes["wide"] = {"targets": ["stops", "next"], "failover_on": WIDE}
    told: list[Told] = []
    async with bench.gateway(targets, routes=routes) as gate:
        for stream in (False, True):
            for route in ("stops", *(["wide"] if wide else [])):
                told.append(await gate.ask(route, stream=stream))
                assert gate.taken() == {"stops": 1}
            told.append(await gate.ask("both", stream=stream))
            assert gate.taken() == {"moves": 2, "stops": 1}
            assert (await gate.ask("moves", stream=stream)).target == "next"
            assert gate.taken() == {"moves": 2, "next": 1}
    return told


async def moves_inside_the_set(bench: Bench) -> None:
    """A moving failure moves to the next target that the rules left, never to one that they removed or that is not on
    the route; and after the last one the caller gets that one's own error."""
    targets = {f"bad_{failure}": Plan({"class": "private"}, failure) for failure in sorted(MOVING)}
    bad = list(targets)
    targets |= {"barred": Plan({"class": "public"}), "good": Plan({"class": "private"}), "elsewhere": Plan()}
    routes: dict[str, dict[str, object]] = {
        name: {"targets": [name, "barred", "good"], "constraints": ["strict"]} for name in bad
    }
    routes["all_fail"] = {"targets": [*bad, "barred"], "constraints": ["strict"]}
    routes["open"] = {"targets": [*bad, "barred"]}
    routes["elsewhere"] = {"targets": ["elsewhere"]}
    strict = {"strict": {"kind": "allowed_classes", "classes": ["private"]}}
    async with bench.gateway(targets, routes=routes, constraints=strict) as gate:
        for stream in (False, True):
            for name in bad:
                assert (await gate.ask(name, stream=stream)).target == "good"
                taken = gate.taken()
                assert taken.pop(name) in (1, 2)
                assert taken == {"good": 1}
            told = await gate.ask("all_fail", stream=stream)
            assert (told.status >= 429, told.code, told.target) == (True, "upstream_error", bad[-1])
            assert gate.taken().keys() == {*bad}
        assert (await gate.ask("open")).target == "barred"
        assert (await gate.ask("elsewhere")).target == "elsewhere"
        assert gate.taken().keys() == {*bad, "barred", "elsewhere"}


async def leaving(bench: Bench) -> None:
    """A caller that leaves in the middle of a stream ends the call upstream, and nobody else is called for it."""
    targets = {"holds": Plan(holds=True), "next": Plan()}
    routes = {"chat": {"targets": ["holds", "next"]}, "next": {"targets": ["next"]}}
    async with bench.gateway(targets, routes=routes) as gate:
        async with gate.streaming() as chunks:
            assert b"data:" in await anext(chunks)
        await bench.upstreams.wait_left("holds")
        assert gate.taken() == {"holds": 1}
        (decision,) = gate.decisions
        assert (decision.outcome, [row.target for row in decision.attempts]) == ("client_disconnected", ["holds"])
        assert (await gate.ask("next")).target == "next"
        assert gate.taken() == {"next": 1}
