"""The request as rules see it: who, which route, what it says of itself, how large, which features. No content.

A rule declares what it `reads`; it gets a view that raises on the rest. So a rule that proves a guarantee from
attributes cannot secretly depend on the caller or the body. Source: DESIGN section 4.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from narrows.types import EMPTY, Principal

Reads: TypeAlias = Literal["attributes", "principal", "features", "sizes"]
"""The parts of a request that a constraint may read."""
EVERYTHING: frozenset[Reads] = frozenset({"attributes", "principal", "features", "sizes"})


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the request is. `at_least`/`at_most`: prompt tokens. `max_output`: the caller's own limit, tokens per
    answer. `n`: how many answers. `body_bytes`: the body as it was received."""

    at_least: int = 0
    at_most: int = 0
    max_output: int | None = None
    n: int = 1
    body_bytes: int = 0


class Demand(NamedTuple):
    """One obligation of one constraint, and where it came from."""

    constraint: str
    demand: Hashable
    source: Literal["said", "assumed", "carried"]


class ForbiddenRead(Exception):
    """A rule read a part of the request that it had not declared in `reads`."""


@dataclass(frozen=True, slots=True)
class Request:
    """What hooks after `authenticate` are given. No credential, no content.

    `attributes`: declared name -> set of values. `features`: what the body needs of a target ("tools", "vision", …).
    """

    route: str
    _principal: Principal = Principal("anonymous")
    _attributes: Mapping[str, frozenset[str]] = field(default_factory=lambda: EMPTY)
    _features: frozenset[str] = frozenset()
    _sizes: Sizes = Sizes()
    _demands: Mapping[str, tuple[Demand, ...]] = field(default_factory=dict)
    _reads: frozenset[Reads] = EVERYTHING
    _ticket: int | None = None

    @property
    def attributes(self) -> Mapping[str, frozenset[str]]:
        """Every attribute that has a value, by its declared name."""
        self._allow("attributes")
        return MappingProxyType(self._attributes)  # the rules after this one read the same

    @property
    def principal(self) -> Principal:
        """The authenticated caller."""
        self._allow("principal")
        return self._principal

    @property
    def features(self) -> frozenset[str]:
        """Capabilities that this body needs: "tools", "parallel_tools", "vision", "audio", "json_schema", …"""
        self._allow("features")
        return self._features

    @property
    def sizes(self) -> Sizes:
        """Prompt tokens (a floor and a ceiling), the output limit, n."""
        self._allow("sizes")
        return self._sizes

    @property
    def ticket(self) -> int:
        """The number of this request among the ranked ones of its route: 0, 1, 2, … What a ranker draws lots by. Only
        rankers are given one: a rule that drew lots would be no rule."""
        if self._ticket is None:
            raise ForbiddenRead("only a ranker may read the request's ticket; a rule must not draw lots")
        return self._ticket

    def view(self, reads: frozenset[Reads], attributes: Mapping[str, frozenset[str]]) -> Request:
        """This request with other attributes, and only the named parts readable."""
        return Request(self.route, self._principal, attributes, self._features, self._sizes, {}, reads)

    def obliged(self, demands: Mapping[str, tuple[Demand, ...]]) -> Request:
        """This request with what it obliges, by constraint."""
        return Request(self.route, self._principal, self._attributes, self._features, self._sizes, demands, self._reads)

    def with_ticket(self, ticket: int) -> Request:
        """This request as a ranker is given it. For the core, and for tests of rankers."""
        return replace(self, _ticket=ticket)

    def demands_of(self, constraint: str) -> tuple[Demand, ...]:
        """What this request obliges under that constraint: said, assumed and carried."""
        return self._demands.get(constraint, ())

    def _allow(self, part: Reads) -> None:
        if part not in self._reads:
            raise ForbiddenRead(
                f"this rule declares reads = {sorted(self._reads)} and read {part!r}; add it to `reads`"
            )
