"""`weighted`: the order is drawn, each target with a chance in proportion to its weight.

    [routes.chat]
    targets = ["a", "b", "c"]
    algorithm = "weighted"

    [routes.chat.weighted]
    weights = { a = 3, b = 1, c = 0 }               # a first in three of four requests; c only when both have failed
    seed = 7                                        # optional: the same requests in the same order get the same orders

The whole order is drawn without replacement, so failover follows the weights too. Each target's place comes from a
number of its own (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006): what a rule removes turns
nothing round among the rest, and the chances of those are in proportion as before.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from hashlib import blake2b
from math import log
from typing import Annotated, Final, TypeAlias

from pydantic import Field, PrivateAttr

from narrows import Candidates, CheckedConfig, Consult, Problem, Ranked, Ranker, Request, Target, hookimpl

UNNAMED: Final = 1.0
"""The weight of a target that `weights` does not name."""

_BITS: Final = 53
"""Of a drawn number: as many as a float holds."""

Weight: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Weighted(Ranker):
    """Draws the order of each request: a target's chance to be first is in proportion to its weight."""

    weights: Mapping[str, Weight] = Field(default_factory=dict)
    """Targets of the route and their weights, 0 to 1e9. One that is not named weighs 1; 0 is the last resort."""
    seed: int | None = None
    """Orders that come again: the n-th request of the route is ordered alike after every start."""
    _chance: bytes = PrivateAttr(default_factory=lambda: secrets.token_bytes(16))

    @hookimpl
    def rank(self, request: Request, candidates: Candidates, consult: Consult) -> Ranked:
        """Every candidate: those with a weight as drawn, then those without one as they stand."""
        first = b"chance" + self._chance if self.seed is None else b"seed %d" % self.seed
        lots = blake2b(b"%s/%d/%s/" % (first, request.ticket, request.route.encode()), digest_size=8)
        drawn: list[tuple[float, Target]] = []
        last: list[Target] = []
        total = 0.0
        for target in candidates:
            weight = self.weights.get(target.name, UNNAMED)
            if not weight:
                last.append(target)
                continue
            total += weight
            lot = lots.copy()
            lot.update(target.name.encode())
            chance = ((int.from_bytes(lot.digest()) >> (64 - _BITS)) + 0.5) / (1 << _BITS)  # inside (0, 1)
            drawn.append((-log(chance) / weight, target))
        drawn.sort(key=lambda pair: pair[0])
        order = [target for _, target in drawn] + last
        share = self.weights.get(order[0].name, UNNAMED) / total if drawn else 0.0
        return Ranked(order, "drawn", {"ticket": request.ticket, "seeded": self.seed is not None, "share": share})

    @hookimpl
    def check(self, config: CheckedConfig) -> Iterable[Problem]:
        """A weight of a name that is no target of the route would silently weigh nothing."""
        targets = config.routes.get(config.route or "", ())
        for name in self.weights:
            if name not in targets:
                yield Problem(
                    "unknown_reference",
                    f"{name!r} is no target of route {config.route!r}",
                    f"weights.{name}",
                    suggestion=next(iter(get_close_matches(name, targets, 1)), None),
                    remedy=f"Its targets: {', '.join(targets)}.",
                )
