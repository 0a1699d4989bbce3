"""Guarantees about third parties' plugins: what they refuse is refused, what they break refuses, nothing widens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import PrivateAttr

from narrows import (
    Allowance,
    Block,
    Candidates,
    Constraint,
    Consult,
    Denial,
    Exclusion,
    FailureClass,
    Ranker,
    Request,
    Target,
    Usage,
    hookimpl,
)
from tests.equivalence.bench import Bench
from tests.equivalence.upstreams import Plan


class Objector(Block):
    """Objects to one route."""

    @hookimpl
    def authorize(self, request: Request) -> Denial | None:
        return Denial("forbidden", "this route is closed") if request.route == "closed" else None


async def objection(bench: Bench) -> None:
    """One plugin's objection in `authorize` ends a request before anything is called."""
    async with bench.gateway(
        {"a": Plan()},
        routes={"open": {"targets": ["a"]}, "closed": {"targets": ["a"]}},
        plugins={"objector": {"kind": "objector"}},
        kinds={"plugins.objector": Objector},
    ) as gate:
        for stream in (False, True):
            assert (await gate.ask("closed", stream=stream)).refused == (403, "forbidden")
        assert gate.taken() == {}
        assert (await gate.ask("open")).status == 200
        assert gate.taken() == {"a": 1}


class Breaking(Constraint[str]):
    """Raises while it judges what a request says of `x-break`."""

    request_attribute: str = "x-break"

    def demands(self, request: Request) -> Iterable[str]:
        return request.attributes.get(self.request_attribute, frozenset())

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        raise RuntimeError("this rule is broken")


async def broken_rule(bench: Bench) -> None:
    """A rule that cannot be judged refuses the request; it is never skipped."""
    async with bench.gateway(
        {"a": Plan()},
        routes={"chat": {"targets": ["a"], "constraints": ["breaking"]}},
        constraints={"breaking": {"kind": "breaking"}},
        kinds={"constraints.breaking": Breaking},
    ) as gate:
        for stream in (False, True):
            assert (await gate.ask("chat", {"x-break": "1"}, stream=stream)).refused == (503, "constraint_failed")
        assert gate.taken() == {}
        assert (await gate.ask()).status == 200
        assert gate.taken() == {"a": 1}


def widening() -> type[Block]:
    """A plugin that answers with the candidates of an earlier request."""
    kept: list[Candidates] = []

    class Widening(Block):
        @hookimpl
        def narrow(self, request: Request, candidates: Candidates) -> Candidates | None:
            if request.route == "widened":
                return kept[0]
            kept.append(candidates)
            return None

    return Widening


def rogue() -> type[Block]:
    """A ranker that ranks a target of another route."""
    kept: list[Target] = []

    class Rogue(Ranker):
        @hookimpl
        def rank(self, request: Request, candidates: Candidates, consult: Consult) -> Sequence[Target] | None:
            if request.route == "ranked":
                return kept
            kept.extend(candidates)
            return None

    return Rogue


async def no_widening(bench: Bench) -> None:
    """A plugin that answers with a set, or ranks a target, that it was not offered is a violation: nothing is called."""
    async with bench.gateway(
        {"a": Plan(), "b": Plan()},
        routes={
            "chat": {"targets": ["a"], "algorithm": "rogue"},
            "widened": {"targets": ["b"]},
            "ranked": {"targets": ["b"], "algorithm": "rogue"},
        },
        plugins={"widening": {"kind": "widening"}},
        kinds={"plugins.widening": widening(), "rankers.rogue": rogue()},
    ) as gate:
        assert (await gate.ask()).target == "a"
        assert gate.taken() == {"a": 1}
        for route in ("widened", "ranked"):
            for stream in (False, True):
                told = await gate.ask(route, stream=stream)
                assert told.refused == (500, "contract_violation")
                assert ("widening" if route == "widened" else "rogue") in told.text
        assert gate.taken() == {}


class Purse(Block):
    """So many micro-USD for everybody together, held before a call and settled after it."""

    micro_usd: int

    _spent: int = PrivateAttr(0)

    @hookimpl
    def budget(self, request: Request) -> Allowance:
        return Hand(self)


class Hand:
    """One request's part of the purse."""

    def __init__(self, purse: Purse) -> None:
        self._purse = purse

    def room(self) -> int:
        return self._purse.micro_usd - self._purse._spent

    def hold(self, amount: int) -> int:
        return min(amount, self.room())

    def settle(self, usage: Usage) -> None:
        self._purse._spent += usage.cost_micro_usd

    def release(self) -> None:
        """Nothing is kept aside."""


async def money(bench: Bench) -> None:
    """What a budget does not cover is refused before anything is called, also as the next candidate after a failure; a
    free target is left."""
    targets = {
        "paid": Plan({"price": {"input": 1.0, "output": 1.0}}),
        "unpriced": Plan(),
        "bad": Plan({"price": {"input": 0, "output": 0}}, FailureClass.SERVER_ERROR),
        "free": Plan({"price": {"input": 0, "output": 0}}),
    }
    routes = {
        "paid": {"targets": ["paid", "unpriced"]},
        "failing": {"targets": ["bad", "paid"]},
        "free": {"targets": ["paid", "free"]},
    }
    async with bench.gateway(
        targets,
        routes=routes,
        plugins={"purse": {"kind": "purse", "micro_usd": 2000}},
        kinds={"plugins.purse": Purse},
    ) as gate:
        for stream in (False, True):
            assert (await gate.ask("paid", max_tokens=5000, stream=stream)).refused == (402, "budget_exhausted")
            assert gate.taken() == {}
            assert (await gate.ask("failing", max_tokens=5000, stream=stream)).status >= 500
            assert gate.taken() == {"bad": 2}
            assert (await gate.ask("free", max_tokens=5000, stream=stream)).target == "free"
            assert gate.taken() == {"free": 1}
        assert (await gate.ask("paid", max_tokens=1000)).target == "paid"
        assert gate.taken() == {"paid": 1}
        told, asked = await gate.ask("paid", max_tokens=1000), 1
        while told.status == 200 and asked < 1000:  # what was really used is charged: the purse gets empty by itself
            told, asked = await gate.ask("paid", max_tokens=1000), asked + 1
        assert told.refused == (402, "budget_exhausted")
        assert gate.taken() == {"paid": asked - 1}
