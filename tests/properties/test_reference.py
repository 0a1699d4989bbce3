"""The engine against the naive model: thousands of random configurations and requests, explained and sent.

Explain and the live request must both give the model's code and set. A refused request calls nobody; a served one calls
the model's set in its order until one answers, and nobody else.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import FailureClass, Gateway
from narrows.testing import Answer, RecordingProvider, failure_answer
from tests.properties import engine, generate, reference
from tests.properties.engine import Table

CASES = 1000
"""On each of the two backends, with other seeds."""
REQUESTS = 12
LEAST_SHARE = 0.1
"""Of cases that leave no target, one, several: fewer, and the generator would no longer ask the question."""


def loading(random: Random) -> tuple[Table, Gateway]:
    """The next random configuration that loads. Those that do not are refused with the model's codes."""
    while True:
        config = generate.configuration(random)
        expected = reference.load_codes(config)
        if not expected:
            return config, engine.load(config)
        assert engine.problems(config) == expected, config


def check_explained(document: Any, expected: reference.Expected) -> None:
    """Code, set in its order, every target that the caller may use with every reason, and no other target."""
    assert document["code"] == expected.code
    assert document["order"] == list(expected.eligible)
    told = {
        row["target"]: [(why["constraint"], why["code"]) for why in row["exclusions"]] for row in document["targets"]
    }
    assert told == {name: [row[:2] for row in rows] for name, rows in expected.reasons.items()}
    assert all(row["eligible"] == (not row["exclusions"]) for row in document["targets"])
    near = reference.closest(expected.reasons) if expected.reasons else None
    told_near = document["closest"] and (document["closest"]["target"], set(document["closest"]["blocked_by"]))
    assert told_near == near


def check_answered(answer: engine.Answer, expected: reference.Expected, called: Table, failing: set[str]) -> None:
    """`called`: target -> calls that this request made. `failing`: the targets that never answer."""
    if expected.code != "ok":
        assert answer.code == expected.code
        assert not any(called.values())
        told = answer.json()["error"]["exclusions"]
        assert {(row["constraint"], row["code"]): row["count"] for row in told} == expected.counts
        return
    served = next((name for name in expected.eligible if name not in failing), None)
    assert answer.target == (served or expected.eligible[-1])
    assert answer.code == ("ok" if served else "upstream_error")
    last = expected.eligible.index(served) if served else len(expected.eligible)
    assert called == {name: int(name in expected.eligible[: last + 1]) for name in called}


async def check(config: Table, gateway: Gateway, asked: Table) -> reference.Expected:
    expected = reference.expected(config, asked)
    before = engine.calls(gateway)
    check_explained(await engine.explain(gateway, asked), expected)
    assert engine.calls(gateway) == before, "explain called somebody"
    answer = await engine.ask(gateway, asked)
    called = {name: count - before[name] for name, count in engine.calls(gateway).items()}
    failing = {name for name, target in config["targets"].items() if target["provider"] == "two"}
    check_answered(answer, expected, called, failing)
    return expected


@pytest.mark.anyio
async def test_many_seeded_cases(anyio_backend: str) -> None:
    random = Random(anyio_backend)
    shares: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    while shares.total() < CASES:
        config, gateway = loading(random)
        async with gateway:
            for _ in range(REQUESTS):
                expected = await check(config, gateway, generate.asked(random, config))
                shares["0" if not expected.eligible else "1" if len(expected.eligible) == 1 else "many"] += 1
                codes[expected.code] += 1
    print(f"targets left: {dict(sorted(shares.items()))}; {dict(codes.most_common())}")  # noqa: T201 - pytest -rP shows it
    assert all(shares[share] >= LEAST_SHARE * CASES for share in ("0", "1", "many"))
    assert set(codes) == {
        "ok",
        "no_eligible_target",
        "attribute_missing",
        "cost_ceiling",
        "attribute_unknown",
        "attribute_forbidden",
        "unauthenticated",
        "field_refused",
        "no_capable_target",
        "unknown_model",
    }


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_whatever_hypothesis_finds(random: Random) -> None:
    config = generate.configuration(random)
    expected = reference.load_codes(config)
    assert engine.problems(config) == expected
    if not expected:
        anyio.run(partial(_several, config, random))


async def _several(config: Table, random: Random) -> None:
    async with engine.load(config) as gateway:
        for _ in range(3):
            await check(config, gateway, generate.asked(random, config))


@pytest.mark.anyio
async def test_on_a_real_socket(anyio_backend: str, provider: RecordingProvider) -> None:
    """The same at an upstream that records its connections."""
    random = Random(f"socket {anyio_backend}")
    refused = served = 0
    for _ in range(15):
        config, _ = loading(random)
        wired = {"kind": "openai_compatible", "base_url": provider.base_url, "max_retries": 0}
        failing = {name for name, target in config["targets"].items() if target["provider"] == "two"}
        for name in config["targets"]:
            failure = failure_answer(FailureClass.RATE_LIMITED)
            provider.script(name, failure if name in failing else Answer())
        async with engine.load({**config, "providers": {"one": wired, "two": wired}}) as gateway:
            for _ in range(6):
                asked = generate.asked(random, config)
                expected = reference.expected(config, asked)
                provider.clear()
                answer = await engine.ask(gateway, asked)
                called = {name: provider.count(name) for name in config["targets"]}
                check_answered(answer, expected, called, failing)
                assert provider.count() == sum(called.values())
                served, refused = served + (expected.code == "ok"), refused + (expected.code != "ok")
    assert min(served, refused) >= 20
