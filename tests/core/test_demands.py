"""What a request obliges, what demands leave, and which values anybody may say: single cases beside the laws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pytest

from narrows import Constraint, Exclusion, Principal, Request, Sizes, Target
from narrows.candidates import Pool
from narrows.demands import Rule, RuleFailed, attribute_rules, is_free, left, obligations
from narrows.request import Demand, ForbiddenRead, Reads
from narrows.types import Price
from narrows_plugins.narrow.allowed_classes import AllowedClasses
from narrows_plugins.narrow.attribute_match import AttributeMatch
from narrows_plugins.narrow.capability import Capability
from narrows_plugins.narrow.cost_ceiling import CostCeiling
from tests.plugins.narrow.ruling import block

USD = 1_000_000
EU = frozenset({"eu"})
US = frozenset({"us"})
ANY = frozenset({"any"})
EVERY = EU | US | ANY


def rule(name: str, made: Constraint[Any]) -> Rule:
    """As the compiler makes it."""
    reads = made.attributes_read() if "attributes" in made.reads else frozenset[str]()
    return Rule(name, made, "", reads, frozenset(made.reads))


def target(name: str, *, region: str = "eu", output: int | None = None, **capabilities: bool) -> Target:
    price = Price() if output is None else Price(0, output)
    return Target(name, "p", "echo", "m", {"region": region, "class": "private"}, capabilities, price=price)


RESIDENCY = rule(
    "residency",
    block(
        AttributeMatch,
        request_attribute="r",
        target_attribute="region",
        accept={"eu": ["eu"], "us": ["us"], "any": "*"},
    ),
)
EITHER = rule(
    "either",
    block(
        AttributeMatch,
        request_attribute="r",
        target_attribute="region",
        accept={"eu": ["eu"], "us": ["eu"], "any": "*"},
    ),
)
"""Of the region alone, us leaves what eu does."""
CAP = rule("cap", block(CostCeiling, max_cost_per_mtok_out=9, by={"attribute.r.eu": 5, "tag.intern": 1}))
REQUEST_CAP = rule("request-cap", block(CostCeiling, max_cost_per_request=1, by={"attribute.r.eu": 0.1}))
CLASSES = rule("classes", block(AllowedClasses, classes=["private"]))
CAPABILITY = rule("capability", Capability())


def names(pool: Pool, mask: int) -> list[str]:
    return [one.name for one in pool.members(mask)]


def rows(*rules: Rule, request: Request | None = None, said: Mapping[str, frozenset[str]] | None = None,
         assumed: Mapping[str, frozenset[str]] | None = None) -> list[Demand]:  # fmt: skip
    obliged = obligations(rules, request or Request("chat"), said or {}, assumed or {})
    return [row for some in obliged.values() for row in some]


# ---- what it obliges ---------------------------------------------------------------------------------------------------


def test_said_comes_first_and_assumed_is_what_silence_adds() -> None:
    assert rows(RESIDENCY, CAP, CLASSES, assumed={"r": EVERY}) == [
        Demand("residency", "eu", "assumed"),
        Demand("residency", "us", "assumed"),
        Demand("cap", ("out", 9 * USD), "said"),
        Demand("cap", ("out", 5 * USD), "assumed"),
        Demand("classes", ("private",), "said"),
    ]


def test_what_is_said_is_not_assumed_too() -> None:
    assert rows(RESIDENCY, CAP, said={"r": EU}) == [
        Demand("residency", "eu", "said"),
        Demand("cap", ("out", 5 * USD), "said"),
    ]
    assert rows(RESIDENCY, said={"r": EU}, assumed={"r": EU}) == [Demand("residency", "eu", "said")]


def test_a_constraint_that_demands_nothing_has_no_row() -> None:
    assert obligations((RESIDENCY,), Request("chat"), {"r": ANY}, {}) == {}
    assert rows(CAPABILITY) == []


def test_silence_on_an_attribute_that_a_rule_does_not_read_adds_nothing() -> None:
    class Once(Constraint[str]):
        asked: ClassVar[int] = 0

        def demands(self, request: Request) -> Iterable[str]:
            type(self).asked += 1
            return ()

        def excludes(self, demand: str, target: Target) -> None:
            return None

        def attributes_read(self) -> frozenset[str]:
            return frozenset({"other"})

    assert rows(rule("once", Once()), assumed={"r": EVERY}) == []
    assert Once.asked == 1


def test_demands_stand_in_one_order_whatever_the_process_hashes() -> None:
    every = frozenset(f"server_tool.{place}" for place in range(20))
    request = Request("chat", Principal("ci"), {}, every)
    assert [row.demand for row in rows(CAPABILITY, request=request)] == sorted(every)


def test_a_rule_sees_only_what_it_declares() -> None:
    class Peeks(Constraint[str]):
        reads: ClassVar[frozenset[Reads]] = frozenset({"attributes"})
        part: str

        def demands(self, request: Request) -> Iterable[str]:
            getattr(request, self.part)
            return ()

        def excludes(self, demand: str, target: Target) -> None:
            return None

    assert rows(rule("peeks", Peeks(part="attributes"))) == []
    for part in ("principal", "features", "sizes"):
        with pytest.raises(RuleFailed) as caught:
            rows(rule("peeks", Peeks(part=part)))
        assert caught.value.rule == "peeks"
        assert isinstance(caught.value.error, ForbiddenRead)


class Raises(Constraint[Any]):
    """Raises in one of its methods, or demands what cannot be one."""

    where: str

    def demands(self, request: Request) -> Iterable[Any]:
        if self.where == "demands":
            raise KeyError("a prompt")
        if self.where == "later":
            return (1 / 0 for _ in "x")
        return [["no", "hash"]] if self.where == "unhashable" else ["d"]

    def excludes(self, demand: Any, target: Target) -> Exclusion | None:
        if self.where == "excludes":
            raise KeyError("a prompt")
        return "no" if self.where == "no exclusion" else None  # type: ignore[return-value]


@pytest.mark.parametrize("where", ["demands", "later", "unhashable"])
def test_demands_that_raise_name_their_rule(where: str) -> None:
    broken = rule("broken", Raises(where=where))
    for asked in (lambda: rows(CLASSES, broken), lambda: broken.demanded(Request("chat"), {})):
        with pytest.raises(RuleFailed, match="constraint 'broken' raises") as caught:
            asked()
        assert "a prompt" not in str(caught.value)


@pytest.mark.parametrize("where", ["excludes", "no exclusion"])
def test_excludes_that_raise_name_their_rule(where: str) -> None:
    broken = rule("broken", Raises(where=where))
    with pytest.raises(RuleFailed, match="constraint 'broken' raises"):
        left(Pool([target("t")]), (CLASSES, broken), Request("chat"))


# ---- what it leaves ----------------------------------------------------------------------------------------------------


def test_what_is_left_is_what_no_demand_excludes() -> None:
    pool = Pool([target("cheap", output=4 * USD), target("dear", output=8 * USD), target("us", region="us", output=0)])
    rules = (RESIDENCY, CAP, CLASSES)
    assert names(pool, left(pool, rules, Request("chat"))) == ["cheap", "dear", "us"]
    assert names(pool, left(pool, rules, Request("chat"), {"r": EU})) == ["cheap"]
    assert names(pool, left(pool, rules, Request("chat"), {"r": US})) == ["us"]
    assert names(pool, left(pool, rules, Request("chat"), {"r": EU | US})) == []
    assert names(pool, left(pool, (), Request("chat"), {"r": EU | US})) == ["cheap", "dear", "us"]


# ---- who may say what --------------------------------------------------------------------------------------------------


def free(pool: Pool, value: str, *rules: Rule, silent: frozenset[str] | None = EVERY, granted: int | None = None,
         request: Request | None = None) -> bool:  # fmt: skip
    readers = attribute_rules(rules, "r")
    return is_free(
        pool, pool.full if granted is None else granted, readers, request or Request("chat"), "r", value, silent
    )


BOTH = Pool([target("eu"), target("us", region="us")])


def test_where_silence_is_refused_every_value_that_demands_something_is_free() -> None:
    assert [free(BOTH, value, RESIDENCY, silent=None) for value in ("eu", "us", "any")] == [True, True, False]


def test_where_silence_is_served_a_value_may_leave_no_more() -> None:
    """Silence is read as eu and us together. On these targets no request that says both is served, so each leaves more."""
    assert [free(BOTH, value, RESIDENCY) for value in ("eu", "us", "any")] == [False, False, False]
    only_eu = frozenset({"eu", "any"})
    assert [free(BOTH, value, RESIDENCY, silent=only_eu) for value in ("eu", "us", "any")] == [True, False, False]


def test_what_leaves_the_same_as_silence_but_demands_nothing_is_still_a_privilege() -> None:
    eu_only = Pool([target("eu"), target("eu2")])
    silent = frozenset({"eu", "any"})
    assert free(eu_only, "eu", RESIDENCY, silent=silent)
    assert not free(eu_only, "any", RESIDENCY, silent=silent)


def test_only_what_the_caller_is_granted_counts() -> None:
    assert not free(BOTH, "us", RESIDENCY, silent=frozenset({"eu", "any"}))
    assert free(BOTH, "us", RESIDENCY, silent=frozenset({"eu", "any"}), granted=0b01)


def test_where_no_rule_reads_it_anybody_may_say_it() -> None:
    assert free(BOTH, "any", CLASSES, CAPABILITY)


def test_every_reader_counts() -> None:
    """Of residency alone, us leaves no more than silence here; the cap is lifted by not saying eu."""
    pool = Pool([target("both", output=8 * USD), target("cheap", output=0)])
    assert free(pool, "us", EITHER)
    assert not free(pool, "us", EITHER, CAP)
    assert free(pool, "eu", EITHER, CAP)


def test_a_rule_that_reads_the_caller_is_judged_for_this_caller() -> None:
    pool = Pool([target("both", output=8 * USD), target("cheap", output=0)])
    intern = Request("chat", Principal("ci", tags=frozenset({"intern"})))
    assert free(pool, "us", EITHER, CAP, request=intern), "the lower cap of the tag binds anyway"


def test_a_rule_that_reads_sizes_is_judged_for_this_body() -> None:
    """Below both caps the value changes nothing; between them us would leave more than silence, which has eu's cap."""
    pool = Pool([target("half a dollar a token", output=500_000 * USD)])
    small, middling = (Request("chat", Principal("ci"), {}, frozenset(), Sizes(max_output=most)) for most in (0, 1))
    assert [free(pool, value, REQUEST_CAP, EITHER, request=small) for value in ("eu", "us")] == [True, True]
    assert [free(pool, value, REQUEST_CAP, EITHER, request=middling) for value in ("eu", "us")] == [True, False]
