"""Guarantees about who is calling, and what a caller may say."""

from __future__ import annotations

from narrows import FailureClass
from tests.equivalence.bench import Bench
from tests.equivalence.gates import ALICE, BOB, CAROL, keys
from tests.equivalence.upstreams import Plan

MOVING = FailureClass.SERVER_ERROR
EU, ANY = {"x-region": "eu"}, {"x-region": "any"}
REGION = {"kind": "attribute_match", "request_attribute": "region", "target_attribute": "region"}
EU_OR_ANY = {**REGION, "accept": {"eu": ["eu"], "any": "*"}}
SAYS_REGION = {"region": {"values": ["eu", "any"], "header": "x-region"}}


async def unauthenticated(bench: Bench) -> None:
    """Without the credential of a configured key, nothing is called."""
    async with bench.gateway({"a": Plan()}, keys=keys()) as gate:
        for headers in (
            {},
            {"authorization": "Bearer nrw_somebody_else"},
            {"authorization": f"Basic {ALICE}"},
            {"authorization": f"Bearer {ALICE}", "x-api-key": BOB},
            {"x-api-key": ""},
        ):
            assert (await gate.ask("chat", headers)).refused == (401, "unauthenticated")
        assert gate.taken() == {}
        assert (await gate.ask(key=ALICE)).status == 200
        assert gate.taken() == {"a": 1}


async def grants(bench: Bench) -> None:
    """A route, target or provider that is not granted to a caller never sees its request: for this caller it does not
    exist, also where another target of the route fails."""
    targets = {"mine": Plan(fails=MOVING), "theirs": Plan()}
    routes = {
        "both": {"targets": ["mine", "theirs"]},
        "theirs": {"targets": ["theirs"]},
        "hidden": {"targets": ["mine"]},
    }
    shown = {"routes": ["both", "theirs"]}
    callers = keys(bob={**shown, "targets": ["mine"]}, carol={**shown, "providers": ["of_mine"]})
    async with bench.gateway(targets, routes=routes, keys=callers) as gate:
        for key in (BOB, CAROL):
            for route in ("theirs", "hidden", "nowhere"):
                assert (await gate.ask(route, key=key)).refused == (404, "unknown_model")
            assert gate.taken() == {}
            for stream in (False, True):
                assert (await gate.ask("both", key=key, stream=stream)).status >= 500
                assert gate.taken() == {"mine": 2}
        for route, taken in (("both", {"mine": 2, "theirs": 1}), ("theirs", {"theirs": 1}), ("hidden", {"mine": 2})):
            await gate.ask(route, key=ALICE)  # the control: who has every grant
            assert gate.taken() == taken


async def attribute_forbidden(bench: Bench) -> None:
    """A caller cannot say a value that would leave more than its silence does, unless it was granted to it."""
    targets = {"us": Plan({"region": "us"}), "eu": Plan({"region": "eu"})}
    routes = {"chat": {"targets": ["us", "eu"], "constraints": ["residency"]}}
    trusted = keys(alice={"may_say": {"region": ["any"]}})
    async with bench.gateway(
        targets, routes=routes, attributes=SAYS_REGION, constraints={"residency": EU_OR_ANY}, keys=trusted
    ) as gate:
        assert (await gate.ask("chat", ANY, key=BOB)).refused == (403, "attribute_forbidden")
        assert (await gate.ask(key=BOB, metadata={"region": "any"})).refused == (403, "attribute_forbidden")
        assert gate.taken() == {}
        assert (await gate.ask(key=BOB)).target == "eu"
        assert gate.taken() == {"eu": 1}
        assert (await gate.ask("chat", ANY, key=ALICE)).target == "us"
        assert gate.taken() == {"us": 1}


async def bound_attribute(bench: Bench) -> None:
    """What is bound to a key or its tenant holds for each of its requests, whatever the request says of itself."""
    targets = {"us": Plan({"region": "us"}), "eu": Plan({"region": "eu"})}
    routes = {"chat": {"targets": ["us", "eu"], "constraints": ["residency"]}}
    async with bench.gateway(
        targets,
        routes=routes,
        attributes=SAYS_REGION,
        constraints={"residency": EU_OR_ANY},
        tenants={"payments": {"attributes": {"region": ["eu"]}}},
        keys=keys(alice={"may_say": {"region": ["any"]}}, bob={"tenant": "payments", "may_say": {"region": ["any"]}}),
    ) as gate:
        for said in ({}, ANY, EU):
            assert (await gate.ask("chat", said, key=BOB)).target == "eu"
            assert gate.taken() == {"eu": 1}
        assert (await gate.ask("chat", ANY, key=ALICE)).target == "us"
        assert gate.taken() == {"us": 1}


async def credentials_stay(bench: Bench) -> None:
    """No credential of a caller, and no header that speaks to the gateway, is handed to an upstream."""
    said = {
        "x-api-key": ALICE,
        "cookie": "session=COOKIE-canary",
        "x-region": "eu",
        "x-narrows-session": "SESSION-canary",
        "x-other": "OTHER-canary",
        "user-agent": "somebody/1.0",
    }
    targets = {"bad": Plan({"region": "eu"}, fails=MOVING), "eu": Plan({"region": "eu"})}
    routes = {"chat": {"targets": ["bad", "eu"], "constraints": ["residency"]}}
    sketch = {"residency": {**REGION, "request_attribute": "x-region"}}
    async with bench.gateway(targets, routes=routes, constraints=sketch, keys=keys()) as gate:
        for stream in (False, True):
            assert (await gate.ask("chat", said, key=ALICE, stream=stream)).target == "eu"
        assert gate.taken() == {"bad": 4, "eu": 2}
        for handed in (*bench.upstreams.handed("bad"), *bench.upstreams.handed("eu")):
            assert not {"x-region", "x-narrows-session", "x-api-key", "cookie", "x-other"} & set(handed.headers)
            everything = f"{dict(handed.headers)} {handed.body!r}"
            assert ALICE not in everything
            assert "canary" not in everything.replace("PROMPT-canary", "").replace("sk-upstream-canary", "")
            assert handed.headers["user-agent"] == "somebody/1.0"  # the control: what may travel was there to be seen
