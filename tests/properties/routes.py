"""Compiled routes with real rules, for the laws of the algebra: judged as the pipeline judges them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from random import Random

from hypothesis import strategies as st

from narrows import Gateway, Principal, Request, Sizes
from narrows.candidates import Candidates, Guard
from narrows.constraints import Constraint
from narrows.demands import obligations
from narrows.request import Demand
from narrows.snapshot import Route
from tests.properties import engine, generate, reference

MANY = 40
Says = Mapping[str, frozenset[str]]
Demands = frozenset[tuple[str, Hashable]]
"""Constraint and demand: a set, as sessions carry them."""


@dataclass(frozen=True)
class Ruled:
    """A route of a random configuration, with at least two targets and two constraints of its own."""

    gateway: Gateway
    route: Route

    @property
    def values(self) -> Mapping[str, tuple[str, ...]]:
        """What a request may say of each attribute; anything of one that nobody declared."""
        attributes = self.gateway.snapshot.reader.attributes.values()
        return {a.name: tuple(sorted(a.values)) if a.values else generate.WORDS for a in attributes}

    @property
    def floors(self) -> Says:
        """What silence is read as."""
        return self.gateway.snapshot.reader.assumed({})

    def demanded(self, request: Request, says: Says, assumed: Says | None = None) -> Demands:
        """What a request that says this obliges; with `assumed`, also what its silence does."""
        obliged = obligations(self.route.rules, request, says, assumed or {})
        return frozenset((name, row.demand) for name, rows in obliged.items() for row in rows)

    def left(self, demands: Demands, order: Random | None = None) -> frozenset[str]:
        """The targets that these demands leave: every plugin asked in some order, each answer through the guard."""
        rows = list(demands)
        plugins = [impl for impl in self.route.narrowers if isinstance(impl.owner, Constraint)]
        if order is not None:
            order.shuffle(rows)
            order.shuffle(plugins)
        obliged = {
            impl.plugin: tuple(Demand(*row, "said") for row in rows if row[0] == impl.plugin) for impl in plugins
        }
        request = Request(self.route.name).obliged(obliged)
        candidates = Candidates(self.route.pool, self.route.pool.full)
        for impl in plugins:
            guard = Guard(impl.plugin, candidates, impl.prefix)
            candidates = guard.accept(impl.function(request, candidates))
        return frozenset(target.name for target in candidates)


@cache
def every_route() -> tuple[Ruled, ...]:
    """All of them, compiled once."""
    return tuple(_some_ruled(MANY))


def _some_ruled(most: int) -> Iterable[Ruled]:
    found = 0
    for seed in count():
        make = generate.configuration if seed % 2 else generate.floored
        config = make(Random(seed))
        if not config["attributes"] or reference.load_codes(config):
            continue
        gateway = engine.load(config)
        for route in gateway.snapshot.routes.values():
            if len(route.pool) > 1 and len(route.rules) > 2:
                found += 1
                yield Ruled(gateway, route)
                if found == most:
                    return


def ruled() -> st.SearchStrategy[Ruled]:
    """One of many routes, compiled once."""
    return st.integers(0, MANY - 1).map(lambda place: every_route()[place])


@st.composite
def says(draw: st.DrawFn, route: Ruled) -> Says:
    """What a request says: some values of some attributes."""
    said = {
        name: draw(st.frozensets(st.sampled_from(values), max_size=3)) for name, values in sorted(route.values.items())
    }
    return {name: values for name, values in said.items() if values}


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A request of some caller with some body, which says nothing yet."""
    tags = draw(st.frozensets(st.just("intern")))
    principal = Principal("k0", draw(st.none() | st.just("acme")), tags)
    tokens = draw(st.sampled_from([0, 6, 61, 1000]))
    sizes = Sizes(tokens, tokens * 8, draw(st.none() | st.sampled_from([0, 50])), draw(st.integers(1, 3)))
    features = draw(st.frozensets(st.sampled_from(generate.FEATURES), max_size=2))
    return Request("chat", principal, {}, features, sizes)
