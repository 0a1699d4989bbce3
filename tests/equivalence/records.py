"""Guarantees about what is kept of a request, and about explain, which tells it before."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from narrows import FailureClass
from tests.equivalence.bench import Bench
from tests.equivalence.callers import EU, REGION
from tests.equivalence.gates import ALICE, PROMPT, keys
from tests.equivalence.upstreams import UPSTREAM_KEY, Plan

BROKEN = FailureClass.SERVER_ERROR
SKETCH = {"residency": {**REGION, "request_attribute": "x-region"}}


async def record(bench: Bench) -> None:
    """The decision names the target, provider and kind of each attempt, its class and status, who asked and who was
    removed by what; and its cost is that target's own price times what the provider reported."""
    price = {"price": {"input": 1.0, "output": 2.0}}  # USD per million: 1 and 2 micro-USD a token
    targets = {
        "us": Plan({"region": "us"}),
        "bad": Plan({"region": "eu", **price}, BROKEN),
        "eu": Plan({"region": "eu", **price}),
    }
    routes = {"chat": {"targets": ["us", "bad", "eu"], "constraints": ["residency"]}}
    async with bench.gateway(targets, routes=routes, constraints=SKETCH, keys=keys()) as gate:
        told = await gate.ask("chat", EU, key=ALICE)
        assert gate.taken() == {"bad": 2, "eu": 1}
        (decision,) = gate.decisions
        assert (decision.id, decision.principal, decision.route) == (
            told.headers["x-narrows-decision"],
            "alice",
            "chat",
        )
        assert (decision.outcome, decision.status, decision.code) == ("answered", 200, "ok")
        rows = [(row.n, row.target, row.provider, row.kind, row.failure_class) for row in decision.attempts]
        assert rows == [
            (1, "bad", "of_bad", bench.kind, "server_error"),
            (2, "bad", "of_bad", bench.kind, "server_error"),
            (3, "eu", "of_eu", bench.kind, "ok"),
        ]
        assert [(row.target, row.constraint) for row in decision.excluded] == [("us", "residency")]
        usage, last = told.json["usage"], decision.attempts[-1]
        reported = (usage["prompt_tokens"], usage["completion_tokens"])
        assert (last.input_tokens, last.output_tokens, last.usage) == (*reported, "reported")
        assert decision.cost_micro_usd == last.cost_micro_usd == reported[0] + 2 * reported[1] > 0

        refused = await gate.ask("chat", {"x-region": "mars"}, key=ALICE)
        assert refused.refused == (403, "no_eligible_target")
        assert (gate.decisions[-1].outcome, gate.decisions[-1].attempts) == ("refused", ())
        assert gate.taken() == {}


async def no_content_kept(bench: Bench) -> None:
    """Neither a prompt nor an answer nor a credential is in a decision or in the log, however the request ended."""
    targets = {
        "bad": Plan({"region": "eu"}, BROKEN),
        "stops": Plan({"region": "eu"}, FailureClass.INVALID_REQUEST),
        "eu": Plan({"region": "eu"}),
        "holds": Plan({"region": "eu"}, holds=True),
    }
    routes: dict[str, dict[str, object]] = {
        "chat": {"targets": ["bad", "eu"], "constraints": ["residency"]},
        "stops": {"targets": ["stops"]},
        "holds": {"targets": ["holds"]},
    }
    async with bench.gateway(targets, routes=routes, constraints=SKETCH, keys=keys()) as gate:
        with _logged() as lines:
            said = {"user": "USER-canary", "metadata": {"note": "NOTE-canary"}}
            for stream in (False, True):
                assert (await gate.ask("chat", EU, key=ALICE, stream=stream, more=said)).target == "eu"
                assert (await gate.ask("stops", key=ALICE, stream=stream, more=said)).status == 400
            assert (await gate.ask("chat", {"x-region": "mars"}, key=ALICE, more=said)).status == 403
            assert (await gate.ask(key=ALICE, provider="PROVIDER-canary", more=said)).status == 400
            assert (await gate.ask(key=ALICE, raw=PROMPT.encode())).status == 400
            assert (await gate.ask(key=PROMPT)).status == 401
        assert gate.taken() == {"bad": 4, "eu": 2, "stops": 2}
        assert all(PROMPT.encode() in handed.body for handed in bench.upstreams.handed("eu"))  # it was there to be kept
        assert len(gate.decisions) == 8
        assert len(lines) >= 8
        kept = json.dumps([decision.document() for decision in gate.decisions]) + repr(gate.decisions) + "".join(lines)
        assert "alice" in kept
        for secret in (PROMPT, "canary", "Answered by", ALICE, UPSTREAM_KEY):
            assert secret not in kept


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Every line that is logged meanwhile, at any level, with its traceback."""
    lines: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    log, handler = logging.getLogger("narrows"), Keeping()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


async def explain(bench: Bench) -> None:
    """Explain calls nobody, and says what the same request then does: who is tried, in which order, who is not and why,
    and how it is refused."""
    targets = {
        "us": Plan({"region": "us"}, BROKEN),
        "eu_one": Plan({"region": "eu"}, BROKEN),
        "eu_two": Plan({"region": "eu"}, BROKEN),
    }
    routes: dict[str, dict[str, object]] = {
        "chat": {"targets": list(targets), "constraints": ["residency"]},
        "us": {"targets": ["us"], "constraints": ["residency"]},
    }
    async with bench.gateway(targets, routes=routes, constraints=SKETCH, keys=keys()) as gate:
        for route, headers in (("chat", EU), ("chat", {}), ("us", EU), ("nowhere", EU)):
            told = await gate.ask(route, headers, key=ALICE, path="/v1/explain")
            assert told.status == 200
            assert gate.taken() == {}
            live = await gate.ask(route, headers, key=ALICE)
            tried = [row.target for row in gate.decisions[-1].attempts]
            assert told.json["order"] == list(dict.fromkeys(tried))
            assert {row["target"] for row in told.json["targets"] if not row["eligible"]} == (
                {row.target for row in gate.decisions[-1].excluded}
            )
            if told.json["outcome"] == "refused":
                assert (told.json["status"], told.json["code"]) == live.refused
                assert gate.taken() == {}
            else:
                assert gate.taken() == dict.fromkeys(told.json["order"], 2)
