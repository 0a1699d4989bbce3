"""The algebra of demands: what a request obliges on a route, and what a set of demands leaves.

    said = union of c.demands(E)    assumed = union of c.demands(A) - said
    left(D) = the targets of the pool that no (constraint, demand) of D excludes

Constraints only subtract and demands only accumulate, so left(D1 | D2) = left(D1) & left(D2) in any order. The load-time
proofs, the live request and explain all use these functions. Source: DESIGN section 4.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from narrows.candidates import Pool
from narrows.constraints import Constraint
from narrows.request import Demand, Reads, Request
from narrows.types import EMPTY

NO_SIZE_OR_FEATURE: frozenset[str] = frozenset({"features", "sizes"})


class RuleFailed(Exception):
    """A constraint raised where it was asked outside its hook. `rule` names it, `error` is what it raised."""

    def __init__(self, rule: str, error: Exception) -> None:
        self.rule, self.error = rule, error
        super().__init__(f"constraint {rule!r} raises {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint as a route has it. `attributes`: the request attributes that it reads (None: any may be)."""

    name: str
    block: Constraint[Any]
    prefix: str
    attributes: frozenset[str] | None
    parts: frozenset[Reads]

    def reads(self, attribute: str) -> bool:
        """May what the request says of this attribute change what the rule demands?"""
        return self.attributes is None or attribute in self.attributes

    @property
    def reads_body(self) -> bool:
        """May a feature or a size of the body change what it demands?"""
        return not self.parts.isdisjoint(NO_SIZE_OR_FEATURE)

    def demanded(self, request: Request, attributes: Mapping[str, frozenset[str]]) -> frozenset[Hashable]:
        """Its demands for a request that says exactly these attributes. Raises RuleFailed."""
        try:
            return _demanded(self, request.view(self.parts, attributes))
        except Exception as error:
            raise RuleFailed(self.name, error) from error

    def excluded(self, pool: Pool, demands: Iterable[Hashable]) -> int:
        """The mask of what these demands exclude. Raises RuleFailed."""
        mask = 0
        try:
            for demand in demands:
                mask |= pool.verdict(self.name, self.block, demand, self.prefix).mask
        except Exception as error:
            raise RuleFailed(self.name, error) from error
        return mask


def obligations(
    rules: Iterable[Rule],
    request: Request,
    said: Mapping[str, frozenset[str]],
    assumed: Mapping[str, frozenset[str]],
) -> dict[str, tuple[Demand, ...]]:
    """What this request obliges, by constraint: said first, then assumed because it is silent; each in one order, so that
    a refusal counts the same reasons in every process. Raises RuleFailed."""
    obliged: dict[str, tuple[Demand, ...]] = {}
    views: dict[frozenset[Reads], Request] = {}  # one for each set of readable parts, not one for each rule
    for rule in rules:
        view = views.get(rule.parts)
        if view is None:
            view = views[rule.parts] = request.view(rule.parts, said)
        name = rule.name
        try:
            told = _demanded(rule, view)
        except Exception as error:
            raise RuleFailed(name, error) from error
        rows = tuple([Demand(name, demand, "said") for demand in _ordered(told)])
        if assumed and (rule.attributes is None or not rule.attributes.isdisjoint(assumed)):
            guessed = rule.demanded(request, {**said, **assumed}) - told
            rows += tuple([Demand(name, demand, "assumed") for demand in _ordered(guessed)])
        if rows:
            obliged[name] = rows
    return obliged


def left(pool: Pool, rules: Iterable[Rule], request: Request, attributes: Mapping[str, frozenset[str]] = EMPTY) -> int:
    """The mask of the pool that the demands of these rules leave, for a request that says exactly these attributes."""
    mask = pool.full
    for rule in rules:
        mask &= ~rule.excluded(pool, rule.demanded(request, attributes))
    return mask


def attribute_rules(rules: Iterable[Rule], attribute: str) -> tuple[Rule, ...]:
    """The rules whose demands may depend on this attribute."""
    return tuple(rule for rule in rules if rule.reads(attribute))


def is_free(
    pool: Pool,
    granted: int,
    readers: tuple[Rule, ...],
    request: Request,
    attribute: str,
    value: str,
    silent: frozenset[str] | None,
) -> bool:
    """May anybody say this value of an attribute that nothing binds? Yes where it demands something and leaves no more
    than silence does. `readers`: the `attribute_rules`; `silent`: the values that silence is read as, None where silence
    is refused. Raises RuleFailed.

    Where no rule of the route reads the attribute, saying it changes nothing: free. What demands nothing (`accept` "*")
    is a privilege.
    """
    if not readers:
        return True
    alone = {attribute: frozenset({value})}
    base: Mapping[str, frozenset[str]] = {}
    if all(rule.demanded(request, alone) <= rule.demanded(request, base) for rule in readers):
        return False
    if silent is None:
        return True
    spoken = left(pool, readers, request, alone) & granted
    unspoken = left(pool, readers, request, {attribute: silent}) & granted
    return not spoken & ~unspoken


def _demanded(rule: Rule, view: Request) -> frozenset[Hashable]:
    """What the block answers, as a set. Raises TypeError for a text: its letters would be taken for demands."""
    answer = rule.block.demands(view)
    if isinstance(answer, str | bytes):
        raise TypeError("demands returned a text; return an iterable of demands, such as (text,)")
    return frozenset(answer)


def _ordered(demands: frozenset[Hashable]) -> Iterable[Hashable]:
    return demands if len(demands) < 2 else sorted(demands, key=repr)
