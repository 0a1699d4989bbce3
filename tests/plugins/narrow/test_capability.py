"""`capability`: only what a target declares it cannot do excludes it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import Target
from narrows_plugins.narrow.capability import Capability
from tests.plugins.narrow.ruling import block, demands, hooks, left, reasons, request


def target(name: str, **capabilities: bool) -> Target:
    return Target(name, "acme", "echo", name, capabilities=capabilities)


ABLE, UNABLE, SILENT = target("able", tools=True, vision=True), target("unable", tools=False), target("silent")
RULE = block(Capability)


def test_only_a_declared_no_excludes() -> None:
    assert left(RULE, [ABLE, UNABLE, SILENT], request(features=["tools"])) == ["able", "silent"]
    assert reasons(RULE, [ABLE, UNABLE], request(features=["tools"])) == {
        "unable": ("capability.tools", "cannot call tools")
    }


def test_what_the_request_does_not_need_excludes_nobody() -> None:
    assert left(RULE, [ABLE, UNABLE, SILENT], request(features=["vision"])) == ["able", "unable", "silent"]
    assert left(RULE, [UNABLE], request()) == ["unable"]


def test_every_feature_is_judged() -> None:
    blind = target("blind", tools=True, vision=False)
    assert left(RULE, [ABLE, UNABLE, blind], request(features=["tools", "vision"])) == ["able"]


@pytest.mark.parametrize("feature", ["audio", "json_schema", "parallel_tools", "tools", "vision", "telepathy"])
def test_a_feature_of_any_name_has_its_code_and_a_reason(feature: str) -> None:
    found = reasons(RULE, [target("no", **{feature: False})], request(features=[feature]))
    code, why = found["no"]
    assert code == f"capability.{feature}"
    assert why


def test_it_reads_features_alone_and_demands_data() -> None:
    assert RULE.reads == {"features"}
    asked = demands(RULE, request({"x": ["y"]}, features=["tools", "vision"]))
    assert asked == {"tools", "vision"}
    assert {msgspec.json.decode(msgspec.json.encode(demand)) for demand in asked} == asked


def test_the_registry_takes_it() -> None:
    assert hooks("constraints.capability", RULE) == ("narrow",)


features = st.frozensets(st.sampled_from(["tools", "vision", "audio"]))


@given(features, features, st.dictionaries(st.sampled_from(["tools", "vision", "audio"]), st.booleans()))
def test_needing_more_never_leaves_more(one: frozenset[str], more: frozenset[str], can: dict[str, bool]) -> None:
    targets = [target("one", **can)]
    assert len(left(RULE, targets, request(features=one | more))) <= len(left(RULE, targets, request(features=one)))
    assert bool(left(RULE, targets, request(features=one))) == all(can.get(feature, True) for feature in one)
