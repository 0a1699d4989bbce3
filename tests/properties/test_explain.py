"""Explain is live: what it tells of a request is what happens to that request."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from narrows import Block, Decision, hookimpl
from narrows.config import loads
from narrows.gateway import Gateway
from narrows.registry import Registry
from tests.properties import engine, generate, reference
from tests.properties.engine import BusinessHours, Table
from tests.support.config import toml

CASES = 150


class Keeper(Block):
    """Keeps every decision, as a sink would."""

    kept: list[Any] = []  # noqa: RUF012 - pydantic copies it for each block

    @hookimpl
    def record(self, decision: Decision) -> None:
        self.kept.append(decision)


def first_reasons(document: Any) -> Counter[tuple[str, str]]:
    """The counts that a refusal must name: each target under its first failing rule."""
    return Counter(
        (row["exclusions"][0]["constraint"], row["exclusions"][0]["code"])
        for row in document["targets"]
        if row["exclusions"]
    )


def keeping(config: Table) -> tuple[Gateway, Keeper]:
    """A gateway that keeps its decisions."""
    registry = Registry({"constraints.business_hours": BusinessHours, "plugins.keeper": Keeper})
    targets = {name: {**table, "model": name} for name, table in config["targets"].items()}
    plugins = {"keep": {"kind": "keeper"}}
    gateway = Gateway(loads(toml({**config, "targets": targets, "plugins": plugins}), registry, {}))
    (block,) = (entry.block for entry in gateway.loaded.blocks if entry.name == "keep")
    assert isinstance(block, Keeper)
    return gateway, block


@pytest.mark.anyio
async def test_set_order_reasons_and_code_are_those_of_the_live_request(anyio_backend: str) -> None:
    random = Random(f"explain {anyio_backend}")
    exhausted = served = 0
    while served + exhausted < CASES:
        config = generate.configuration(random)
        if reference.load_codes(config):
            continue
        gateway, keeper = keeping(config)
        async with gateway:
            for _ in range(12):
                asked = generate.asked(random, config)
                document = await engine.explain(gateway, asked)
                answer = await engine.ask(gateway, asked)
                decision: Decision = keeper.kept.pop()
                assert not keeper.kept, "explain is no decision"
                assert list(decision.order) == document["order"]
                attributes = {
                    name: {"values": list(said.values), "sources": list(said.sources), "assumed": said.assumed}
                    for name, said in decision.attributes.items()
                }
                assert attributes == document["attributes"]
                demands = [
                    {"constraint": d.constraint, "demand": d.demand, "source": d.source} for d in decision.demands
                ]
                assert demands == document["demands"]
                if document["outcome"] == "eligible":
                    served += 1
                    tried = [row.target for row in decision.attempts]
                    assert tried == document["order"][: len(tried)]
                    assert answer.target == tried[-1]
                    assert document["closest"] is None
                    eligible = [row["target"] for row in document["targets"] if row["eligible"]]
                    assert sorted(eligible) == sorted(document["order"])
                    continue
                assert answer.code == decision.code == document["code"]
                assert (answer.status, answer.json()["error"]["message"]) == (document["status"], document["message"])
                rows = answer.json()["error"]["exclusions"]
                if rows:
                    exhausted += 1
                    counted = {(row["constraint"], row["code"]): row["count"] for row in rows}
                    assert counted == first_reasons(document)
                    assert sum(counted.values()) == len(document["targets"])
                    assert f"Closest: {document['closest']['target']}, " in document["message"]
    assert min(exhausted, served) > CASES // 5
