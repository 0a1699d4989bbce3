"""`POST /v1/explain`: the shape of INTERFACES, always 200, no upstream call, and what it says is what live does."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from narrows import Block, Denial, Request, Usage, hookimpl
from narrows.errors import STATUS
from tests.surface.support import EXPLAIN, JSON, Headers, Site, assert_refused, chat, opened
from tests.surface.test_errors import IMAGE, MET, Met
from tests.surface.world import RAISED

KEYS = {"outcome", "status", "code", "policy", "route", "principal", "attributes", "demands", "targets", "closest",
        "order", "tokens", "cost_micro_usd"}  # fmt: skip
MORE = {"message", "decision", "unpriced", "rank"}
BOUNDS = {"at_least", "at_most"}


def assert_shape(found: dict[str, Any]) -> None:
    """Exactly the keys of INTERFACES (and a few more), each of its type."""
    assert found.keys() == KEYS | MORE
    assert found["outcome"] in ("eligible", "refused")
    assert found["status"] == (200 if found["outcome"] == "eligible" else STATUS[found["code"]])
    assert (found["code"] == "ok") == (found["outcome"] == "eligible")
    assert (found["message"] is None) == (found["outcome"] == "eligible")
    for said in found["attributes"].values():
        assert said.keys() == {"values", "sources", "assumed"}
        assert isinstance(said["assumed"], bool)
        assert said["assumed"] == (said["sources"] == [])
    for row in found["demands"]:
        assert row.keys() == {"constraint", "demand", "source"}
        assert row["source"] in ("said", "assumed")
    for row in found["targets"]:
        assert row.keys() == {"target", "eligible", "exclusions"}
        assert row["eligible"] == (row["exclusions"] == [])
        assert all(one.keys() == {"constraint", "code", "why"} for one in row["exclusions"])
    if found["closest"] is not None:
        assert found["closest"].keys() == {"target", "blocked_by"}
        assert found["closest"]["blocked_by"]
    assert isinstance(found["order"], list)
    ranked = {"algorithm": "ordered", "reason": "", "signals": {}}
    assert found["rank"] == (ranked if found["outcome"] == "eligible" else None)
    for name in ("tokens", "cost_micro_usd"):
        assert found[name].keys() == BOUNDS
        assert 0 <= found[name]["at_least"] <= found[name]["at_most"]


def test_a_served_request_exactly(site: Site) -> None:
    found = site.explain(saying=[("x-region", "EU")], max_tokens=10)
    assert_shape(found)
    assert found == {
        "outcome": "eligible",
        "status": 200,
        "code": "ok",
        "message": None,
        "decision": found["decision"],
        "policy": site.gateway.policy,
        "route": "chat",
        "principal": "anonymous",
        "attributes": {
            "region": {"values": ["eu"], "sources": ["header"], "assumed": False},
        },
        "demands": [{"constraint": "residency", "demand": "eu", "source": "said"}],
        "targets": [
            {"target": "eu", "eligible": True, "exclusions": []},
            {
                "target": "us",
                "eligible": False,
                "exclusions": [{"constraint": "residency", "code": "attribute_mismatch", "why": "region is not eu"}],
            },
        ],
        "closest": None,
        "order": ["eu"],
        "rank": {"algorithm": "ordered", "reason": "", "signals": {}},
        "tokens": {"at_least": 2, "at_most": 48},
        "cost_micro_usd": {"at_least": 0, "at_most": 0},
        "unpriced": ["eu"],
    }
    assert site.provider.calls == []


def test_a_refused_request_exactly(site: Site) -> None:
    found = site.explain("american", saying=[("x-region", "eu")], metadata={"region": "us"}, max_tokens=10)
    assert_shape(found)
    assert (found["outcome"], found["status"], found["code"]) == ("refused", 403, "no_eligible_target")
    assert found["message"].startswith('0 of 1 targets eligible on "american": 1 region is not eu [residency].')
    assert found["attributes"]["region"] == {
        "values": ["eu", "us"],
        "sources": ["header", "metadata"],
        "assumed": False,
    }
    assert found["demands"] == [
        {"constraint": "residency", "demand": "eu", "source": "said"},
        {"constraint": "residency", "demand": "us", "source": "said"},
    ]
    assert found["targets"] == [
        {
            "target": "us",
            "eligible": False,
            "exclusions": [{"constraint": "residency", "code": "attribute_mismatch", "why": "region is not eu"}],
        }
    ]
    assert found["closest"] == {"target": "us", "blocked_by": ["residency"]}
    assert found["order"] == []


def test_every_reason_of_every_target_is_there(site: Site) -> None:
    found = site.explain("search", saying=[("x-region", "us")], tools=[{"type": "web_search"}])
    reasons = {row["target"]: [one["constraint"] for one in row["exclusions"]] for row in found["targets"]}
    assert reasons == {"eu": ["residency", "capability"], "searcher": ["residency"]}
    assert found["closest"] == {"target": "searcher", "blocked_by": ["residency"]}


def test_the_cost_is_bounded(site: Site) -> None:
    found = site.explain("american", max_tokens=10)
    at_most = found["tokens"]["at_most"]
    assert found["cost_micro_usd"]["at_most"] == pytest.approx(at_most * 2 + 10 * 4, abs=1)
    assert 0 < found["cost_micro_usd"]["at_least"] <= found["cost_micro_usd"]["at_most"]


@pytest.mark.parametrize("met", [met for met in MET if met.calls == 0 and met.method == "POST" and not met.path.endswith("nothing")],
                         ids=lambda met: f"{met.code}-{dict(met.saying)}")  # fmt: skip
def test_what_live_refuses_explain_refuses_in_the_same_words(site: Site, met: Met) -> None:
    retyped = any(name == "content-type" for name, _ in met.saying)
    headers = met.saying if retyped else (JSON, *met.saying)
    body = chat(met.model, **met.more)
    live = site.send(body, headers)
    error = assert_refused(live, met.code)
    response = site.send(body, headers, path=EXPLAIN)
    assert response.status_code == 200
    found = response.json()
    assert_shape(found)
    assert (found["outcome"], found["status"], found["code"]) == ("refused", live.status_code, met.code)
    assert found["message"] == error["message"]
    assert found["decision"] != error["decision"]
    assert RAISED not in response.text
    assert site.provider.calls == []


SAYINGS: list[Headers] = [(), [("x-region", "eu")], [("x-region", "us")], [("x-region", "eu, us")], [("tier", "gold")],
                          [("tier", "gold"), ("x-region", "us")]]  # fmt: skip
WANTED: list[dict[str, object]] = [
    {},
    {"messages": IMAGE},
    {"tools": [{"type": "web_search"}]},
    {"max_tokens": 10, "n": 2},
]


def test_live_does_what_explain_says(site: Site) -> None:
    models = (*site.gateway.snapshot.routes, "nobody")
    outcomes = set()
    for model, saying, wanted in product(models, SAYINGS, WANTED):
        site.provider.clear()
        found = site.explain(model, saying=saying, **wanted)
        assert_shape(found)
        assert site.provider.calls == []
        live = site.send(chat(model, **wanted), (JSON, *saying))
        assert (live.status_code, live.headers.get("x-narrows-code", "ok")) == (found["status"], found["code"])
        decision = site.decision(live)
        assert list(decision.order) == found["order"]
        assert decision.route == found["route"]
        eligible = [row["target"] for row in found["targets"] if row["eligible"]]
        if found["outcome"] == "eligible":
            assert live.headers["x-narrows-target"] == found["order"][0]
            assert sorted(eligible) == sorted(found["order"])
            assert site.provider.count() == 1
        else:
            assert site.provider.calls == []
        outcomes.add(found["code"])
    assert outcomes == {"ok", "no_eligible_target", "no_capable_target", "attribute_missing", "attribute_forbidden",
                        "unknown_model", "field_refused"}  # fmt: skip


def test_explain_is_no_request_for_a_model(site: Site) -> None:
    decision = site.explain("american", saying=[("x-region", "eu")])["decision"]
    site.control()
    assert decision not in {known.id for known in site.probe.wait(1)}
    assert site.log.count(decision) == 0


def test_explain_takes_post_alone(site: Site) -> None:
    response = site.get(EXPLAIN)
    assert_refused(response, "method_not_allowed")
    assert response.headers["allow"] == "POST"


# ---- money: explain asks for room and holds nothing ----------------------------------------------------------------


class Purse:
    """An allowance that writes down what is done with it."""

    def __init__(self, journal: list[str]) -> None:
        self.journal = journal

    def room(self) -> int:
        self.journal.append("room")
        return 10**9

    def hold(self, amount: int) -> int:
        self.journal.append("hold")
        return amount

    def settle(self, usage: Usage) -> None:
        self.journal.append(f"settle {usage.cost_micro_usd}")

    def release(self) -> None:
        self.journal.append("release")


def test_explain_holds_nothing() -> None:
    journal: list[str] = []

    class Budgets(Block):
        """Gives a purse to everybody."""

        @hookimpl
        def budget(self, request: Request) -> Purse | Denial:
            return Purse(journal)

    text = '\n[plugins.b]\nkind = "b"\n' + PRICED
    with opened("asyncio", text, kinds={"plugins.b": Budgets}) as site:
        assert site.explain()["outcome"] == "eligible"
        explained, journal[:] = list(journal), []
        site.control()
    assert "room" in explained
    assert not {step for step in explained if step.startswith(("hold", "settle"))} - {"settle 0"}
    assert "hold" in journal


PRICED = """
[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"

[targets.us]
provider = "vendor"
model = "us-1"
price = { input = 2.0, output = 4.0 }
max_output_tokens = 100

[routes.chat]
targets = ["us"]
"""
