"""A decision says enough to derive it again: from D and the policy's text alone, in the simplest way.

The derivation stands in `deriving`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from narrows import Block, Classified, Denial, Failure, Request, hookimpl
from narrows.decision import Decision
from narrows.testing import Answer, failure_answer
from narrows.types import FailureClass
from tests.surface.deriving import derived
from tests.surface.support import JSON, Headers, Site, chat, opened
from tests.surface.test_decisions import PATH

TEXT: Final = """
[attributes.region]
values = ["eu", "us", "any"]
header = "x-region"

[attributes.desk]
values = ["legal", "sales"]
sources = ["header", "metadata"]
missing = "unrestricted"

[attributes.act]
values = ["broke"]
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "region"
target_attribute = "region"
accept = { eu = ["eu-west", "eu-central", "both"], us = ["us", "both"], any = "*" }

[constraints.desk]
kind = "attribute_match"
request_attribute = "desk"
target_attribute = "desk"

[constraints.ours]
kind = "attribute_match"
request_attribute = "x-team"
target_attribute = "team"

[constraints.strict]
kind = "allowed_classes"
classes = ["private", "paid"]

[constraints.cheap]
kind = "cost_ceiling"
max_cost_per_mtok_out = 20.0
by = { "attribute.desk.sales" = 3.0 }

[constraints.small]
kind = "cost_ceiling"
max_cost_per_request = 0.01

[plugins.purse]
kind = "purse"

[plugins.echoes]
kind = "echoes"

[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"
max_retries = 0

[targets.paris]
provider = "vendor"
model = "paris"
region = "eu-west"
class = "private"
labels = { desk = "legal", team = "a" }
price = { input = 1.0, output = 2.0 }
max_output_tokens = 1000
context_window = 4000

[targets.frankfurt]
provider = "vendor"
model = "frankfurt"
region = ["eu-west", "us"]
class = "paid"
labels = { desk = ["legal", "sales"], team = "b" }
price = { input = 3.0, output = 30.0 }
capabilities = { vision = false, tools = true }

[targets.ohio]
provider = "vendor"
model = "ohio"
region = "us"
class = "public"
labels = { desk = "sales", team = "a" }
price = { input = 0.5, output = 2.5 }
max_output_tokens = 500
context_window = 100000

[targets.texas]
provider = "vendor"
model = "texas"
region = "us"
class = "paid"
labels = { desk = "sales", team = "a" }

[targets.both]
provider = "vendor"
model = "both"
region = "both"
labels = { desk = "legal" }

[routes.floor]
targets = ["paris", "both", "ohio"]
constraints = ["residency", "desk"]

[routes.chat]
targets = ["paris", "frankfurt", "ohio", "texas"]
constraints = ["residency", "desk"]

[routes.plain]
targets = ["paris", "frankfurt", "ohio", "texas"]

[routes.desks]
targets = ["paris", "frankfurt", "ohio", "texas"]
constraints = ["desk"]

[routes.strict]
targets = ["ohio", "texas", "paris", "frankfurt"]
constraints = ["strict", "cheap"]

[routes.small]
targets = ["texas", "ohio", "paris", "frankfurt"]
constraints = ["small", "ours"]
"""


class Echoes(Block):
    """A classifier of a third party's that gives the vendor's own text, or our own word, for its evidence."""

    @hookimpl
    def classify_error(self, failure: Failure) -> Classified | None:
        """What the vendor says, as evidence."""
        said = failure.body.decode()
        if failure.phase != "response" or "ECHO" not in said:
            return None
        return Classified(FailureClass.CONTENT_POLICY, evidence=json.loads(said)["error"]["message"])


class Purse(Block):
    """Has no money for who says `act: broke`."""

    @hookimpl
    def budget(self, request: Request) -> Denial | None:
        """A rate limit."""
        return Denial("rate_limited", "later", retry_after=1) if request.attributes.get("act") else None


@pytest.fixture(scope="module")
def world() -> Iterator[Site]:
    with opened("asyncio", TEXT, kinds={"plugins.purse": Purse, "plugins.echoes": Echoes}) as site:
        yield site


@pytest.fixture
def site(world: Site) -> Site:
    world.clear()
    return world


def asked(site: Site, route: str, saying: Headers = (), **more: object) -> tuple[dict[str, Any], Decision]:
    """D as its caller reads it, and the decision."""
    response = site.send(chat(route, **more), (JSON, *saying))
    decision = site.decision(response)
    found = site.get(f"{PATH}/{decision.id}")
    assert found.status_code == 200, found.text
    document: dict[str, Any] = found.json()
    return document, decision


IMAGE: Final[list[object]] = [
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
]
LONG: Final[list[object]] = [{"role": "user", "content": " ".join(map(str, range(10_000)))}]
REQUESTS: Final[list[tuple[str, Headers, dict[str, object], int]]] = [
    ("chat", [("x-region", "eu")], {}, 3),
    ("chat", [("x-region", "us, eu")], {}, 4),
    ("desks", [("x-region", "any"), ("desk", "sales")], {}, 2),
    ("floor", [], {"metadata": {"desk": "legal"}}, 2),  # silent on region: every value is assumed
    ("plain", [], {"messages": IMAGE}, 1),
    ("plain", [], {"messages": LONG}, 1),
    ("chat", [("x-region", "eu")], {"messages": LONG}, 4),
    ("strict", [("x-region", "any")], {}, 3),
    ("strict", [("x-region", "any"), ("desk", "sales")], {}, 3),
    ("small", [("x-region", "any"), ("x-team", "a")], {"max_tokens": 5000}, 2),
    ("small", [("x-region", "any"), ("x-team", "c")], {"n": 3}, 4),
]


@pytest.mark.parametrize(("route", "saying", "more", "gone"), REQUESTS)
def test_each_exclusion_is_derived_again(
    site: Site, route: str, saying: Headers, more: dict[str, object], gone: int
) -> None:
    d, decision = asked(site, route, saying, **more)
    policy = site.gateway.engine.recorders.reader.policy(d["policy"])
    assert policy is not None
    found = sorted((row["target"], row["constraint"], row["code"]) for row in d["excluded"])
    assert found == derived(d, policy)
    assert len(found) == gone
    assert (d["outcome"] == "refused") == (gone == 4)
    left = [name for name in d["labels"] if name not in {target for target, _, _ in found}]
    assert d["order"] == left
    assert decision.document() == {**d, "facts": decision.document()["facts"]} | {"ts": decision.ts}


def test_the_derivation_can_fail(site: Site) -> None:
    """With one label, or one demand, of another kind it derives something else."""
    d, _ = asked(site, "chat", [("x-region", "eu")])
    policy = site.gateway.engine.recorders.reader.policy(d["policy"]) or ""
    changed = {**d, "labels": {**d["labels"], "ohio": {**d["labels"]["ohio"], "region": "eu-west"}}}
    assert derived(changed, policy) != derived(d, policy)
    assert derived({**d, "demands": d["demands"][1:]}, policy) != derived(d, policy)
    assert derived(d, policy.replace('"eu-central"', '"us"')) != derived(d, policy)


def test_who_said_what_is_told(site: Site) -> None:
    d, _ = asked(site, "floor", [("desk", "legal")], metadata={"desk": ["sales"]})
    assert d["attributes"] == {
        "desk": {"values": ["legal", "sales"], "sources": ["header", "metadata"], "assumed": False},
        "region": {"values": ["any", "eu", "us"], "sources": [], "assumed": True},
    }
    assert [row for row in d["demands"] if row["constraint"] != "capability"] == [
        {"constraint": "residency", "demand": "eu", "source": "assumed"},
        {"constraint": "residency", "demand": "us", "source": "assumed"},
        {"constraint": "desk", "demand": "legal", "source": "said"},
        {"constraint": "desk", "demand": "sales", "source": "said"},
    ]


def test_the_order_and_why(site: Site) -> None:
    d, _ = asked(site, "chat", [("x-region", "us")])
    assert d["rank"] == {"algorithm": "ordered", "reason": "", "signals": {}}
    assert d["order"] == ["ohio", "texas"]


ATTEMPT: Final = {
    "n", "target", "provider", "kind", "purpose", "class", "status", "endpoint_dead", "started_ms", "duration_ms",
    "tokens", "usage", "cost_micro_usd",
}  # fmt: skip


def test_attempts_say_what_became_of_each(site: Site) -> None:
    site.provider.script("ohio", failure_answer(FailureClass.RATE_LIMITED))
    d, _ = asked(site, "chat", [("x-region", "us")])
    first, second = d["attempts"]
    assert first.keys() >= ATTEMPT
    assert [(row["n"], row["target"], row["class"], row["status"], row["purpose"]) for row in (first, second)] == [
        (1, "ohio", "rate_limited", 429, "answer"), (2, "texas", "ok", 200, "answer")
    ]  # fmt: skip
    assert (first["provider"], first["kind"], second["usage"]) == ("vendor", "openai_compatible", "reported")
    assert second["tokens"]["input"] > 0
    assert d["cost_micro_usd"] == sum(row["cost_micro_usd"] or 0 for row in d["attempts"])
    assert (d["outcome"], d["status"], d["code"]) == ("answered", 200, "ok")


MOVING: Final = {FailureClass.TIMEOUT, FailureClass.RATE_LIMITED, FailureClass.SERVER_ERROR}


@pytest.mark.parametrize("failure", FailureClass)
@pytest.mark.parametrize(("route", "removed"), [("plain", False), ("chat", True)])
def test_blocked_fallback(site: Site, failure: FailureClass, route: str, removed: bool) -> None:
    """It ended in a class that would have moved, and a rule had removed a target of the route. Control: none had."""
    for model in ("paris", "frankfurt", "ohio", "texas"):
        site.provider.script(model, failure_answer(failure))
    d, _ = asked(site, route, [("x-region", "us")])
    assert bool(d["excluded"]) == removed
    assert d["blocked_fallback"] == (removed and failure in MOVING)
    for model in ("paris", "frankfurt", "ohio", "texas"):
        site.provider.script(model, Answer())
    d, _ = asked(site, route, [("x-region", "us")])
    assert d["blocked_fallback"] is False


def test_a_refusal_keeps_none_of_the_callers_words(site: Site) -> None:
    """What the caller wrote as a model, a field or a value stands in its answer, and not in the record."""
    for words in ({"model": "CANARY"}, {"metadata": {"desk": "CANARY"}}, {"provider": {"order": "CANARY"}}):
        response = site.send(
            json.dumps({"model": "chat", "messages": [{"role": "user", "content": "hi"}], **words}).encode(), [JSON]
        )
        assert response.status_code >= 400
        decision = site.decision(response)
        assert "CANARY" not in repr(decision) + str(decision.document())
    d, decision = asked(site, "chat", [("x-region", "eu"), ("desk", "sales")])
    assert d["outcome"] == "refused"
    assert decision.message.startswith("0 of 4 targets")
    d, decision = asked(site, "chat", [("x-region", "us"), ("act", "broke")])
    assert (d["code"], d["order"], decision.message) == ("rate_limited", [], "")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("ECHO of the vendor's text", "other"),
        ("unanswered", "other"),
        ("", ""),
        ("a_word", "a_word"),
        ("w" * 33, "other"),
    ],
)
def test_evidence_is_a_word(site: Site, said: str, kept: str) -> None:
    """And `unanswered` is ours: a plugin that answered cannot say that nobody did."""
    body = {"error": {"message": said, "type": "ECHO"}}
    site.provider.script("paris", Answer(500, body))
    d, _ = asked(site, "chat", [("x-region", "eu")])
    (attempt,) = d["attempts"]
    assert (attempt["class"], attempt["evidence"]) == ("content_policy", kept)
