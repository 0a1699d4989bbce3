"""The order of the rules changes no set, no code and no way out: only under which rule a target is counted first."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import anyio
import pytest

from tests.properties import engine, generate, reference
from tests.properties.engine import Table

CONFIGURATIONS = 25
SHUFFLES = 3


def shuffled(random: Random, config: Table) -> Table:
    """The same file with its constraints, and the lists of its routes, in another order."""
    names = list(config["constraints"])
    random.shuffle(names)
    routes = {
        name: {**route, "constraints": random.sample(route["constraints"], len(route["constraints"]))}
        for name, route in config["routes"].items()
    }
    return {**config, "constraints": {name: config["constraints"][name] for name in names}, "routes": routes}


def told(document: Any) -> dict[str, Any]:
    """What must not depend on the order."""
    closest = document["closest"]
    return {
        "code": document["code"],
        "order": document["order"],
        "closest": closest and (closest["target"], sorted(closest["blocked_by"])),
        "targets": {
            row["target"]: sorted((why["constraint"], why["code"], why["why"]) for why in row["exclusions"])
            for row in document["targets"]
        },
        "demands": sorted(map(repr, document["demands"])),
    }


async def counted(config: Table, asked: Table) -> tuple[dict[str, Any], list[tuple[str, str, int]]]:
    """What explain tells, and what the live refusal counts."""
    async with engine.load(config) as gateway:
        document = await engine.explain(gateway, asked)
        answer = await engine.ask(gateway, asked)
    rows = answer.json()["error"]["exclusions"] if answer.code not in ("ok", "upstream_error") else []
    return told(document), sorted((row["constraint"], row["code"], row["count"]) for row in rows)


async def _check(config: Table, asked: Table, random: Random) -> None:
    document, rows = await counted(config, asked)
    for _ in range(SHUFFLES):
        again, other = await counted(shuffled(random, config), asked)
        assert again == document
        assert sum(row[2] for row in other) == sum(row[2] for row in rows)
        if all(len(reasons) < 2 for reasons in document["targets"].values()):
            assert other == rows, "each target has one reason only: nothing to choose from"


@pytest.mark.anyio
async def test_any_order_of_the_rules_tells_the_same() -> None:
    random = Random("order")
    for _ in range(CONFIGURATIONS):
        config = generate.configuration(random)
        if not reference.load_codes(config) and len(config["constraints"]) > 1:
            await _check(config, generate.asked(random, config), random)


def test_the_same_reasons_are_counted_in_every_process() -> None:
    """Two capabilities are lacking, and sets of words have another order in each process: one order is chosen."""
    config: Table = {
        "attributes": {},
        "providers": {"one": {"kind": "echo"}},
        "targets": {"t": {"provider": "one", "capabilities": dict.fromkeys(generate.FEATURES, False)}},
        "routes": {"chat": {"targets": ["t"]}},
        "auth": {"mode": "open"},
    }
    body = {
        "model": "chat",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function"}],
        "response_format": {"type": "json_schema"},
        "reasoning_effort": "high",
    }
    _, rows = anyio.run(partial(counted, config, {"key": None, "headers": [], "body": body}))
    assert rows == [("capability", "capability.json_schema", 1)]
