"""One policy, written once, binds every kind of provider that stands in the same gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from narrows import FailureClass
from tests.equivalence.callers import EU, REGION
from tests.equivalence.gates import opened
from tests.equivalence.kinds import Kind
from tests.equivalence.table import ROWS
from tests.equivalence.upstreams import Plan, Upstreams

pytestmark = pytest.mark.anyio
RESIDENCY = {"residency": {**REGION, "request_attribute": "x-region", "always": True}}


@pytest.fixture
def upstreams() -> Iterator[dict[Kind, Upstreams]]:
    with ExitStack() as stack:
        yield {kind: stack.enter_context(ROWS[kind]()) for kind in Kind}


async def test_one_rule_binds_them_all(upstreams: dict[Kind, Upstreams]) -> None:
    """Each kind has a target here and a target there. Whichever fails, and to whichever kind the request moves."""
    targets: dict[str, tuple[Upstreams, Plan]] = {}
    for kind, made in upstreams.items():
        targets[f"us_{kind}"] = (made, Plan({"region": "us"}))
        targets[f"bad_{kind}"] = (made, Plan({"region": "eu"}, FailureClass.SERVER_ERROR))
        targets[f"eu_{kind}"] = (made, Plan({"region": "eu"}))
    us = [f"us_{kind}" for kind in Kind]
    routes: dict[str, object] = {"us": {"targets": us}, "all": {"targets": list(targets)}}
    for first in Kind:
        for second in Kind:
            routes[f"{first} {second}"] = {"targets": [f"bad_{first}", *us, f"eu_{second}"]}
    async with opened(targets, {"constraints": RESIDENCY, "routes": routes}, {}) as gate:
        for stream in (False, True):
            assert (await gate.ask("us", EU, stream=stream)).refused == (403, "no_eligible_target")
            assert gate.taken() == {}
            for first in Kind:
                for second in Kind:
                    assert (await gate.ask(f"{first} {second}", EU, stream=stream)).target == f"eu_{second}"
                    assert gate.taken() == {f"bad_{first}": 2, f"eu_{second}": 1}
        told = await gate.ask("all", EU)
        assert told.target == f"eu_{next(iter(Kind))}"
        assert not gate.taken().keys() & set(us)
        for first in Kind:  # the control: without the header the same routes do call what was barred
            told = await gate.ask(f"{first} {first}")
            assert told.target == us[0]
            assert gate.taken() == {f"bad_{first}": 2, us[0]: 1}
