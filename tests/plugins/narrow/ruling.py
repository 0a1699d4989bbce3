"""How the tests of rules judge: through the pool and the guard, as the pipeline does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from narrows import Block, Constraint, Principal, Request, Sizes, Target
from narrows.candidates import Candidates, Cut, Guard, Pool
from narrows.constraints import judging
from narrows.registry import Implementations, Kind, Registered
from narrows.request import Demand

B = TypeVar("B", bound=Block)
Said = Mapping[str, Iterable[str]]


def block(cls: type[B], **options: object) -> B:
    """The block as the configuration makes it: strictly, from JSON."""
    return cls.model_validate_json(json.dumps(options))


def request(
    said: Said | None = None,
    *,
    features: Iterable[str] = (),
    sizes: Sizes | None = None,
    principal: Principal | None = None,
) -> Request:
    """A request on route "chat" that says this of itself."""
    attributes = {name: frozenset(values) for name, values in (said or {}).items()}
    return Request("chat", principal or Principal("ci"), attributes, frozenset(features), sizes or Sizes())


def demands(rule: Constraint[Any], asked: Request) -> frozenset[Any]:
    """What the rule demands of a request of which it may read only what it declares."""
    return frozenset(rule.demands(asked.view(rule.reads, asked.attributes)))


def judged(rule: Constraint[Any], targets: Sequence[Target], demanded: Iterable[Any]) -> Candidates:
    """What is left of the targets under these demands, accepted by the guard."""
    obliged = request().obliged({"rule": tuple(Demand("rule", demand, "said") for demand in demanded)})
    offered = Candidates(Pool(targets), (1 << len(targets)) - 1)
    return Guard("rule", offered).accept(judging("rule", "", rule)(obliged, offered))


def left(rule: Constraint[Any], targets: Sequence[Target], asked: Request) -> list[str]:
    """The names of the targets that the rule leaves this request."""
    return [target.name for target in judged(rule, targets, demands(rule, asked))]


def reasons(rule: Constraint[Any], targets: Sequence[Target], asked: Request) -> dict[str, tuple[str, str]]:
    """Target -> code and why, for each that went."""
    found: dict[str, tuple[str, str]] = {}
    cuts: tuple[Cut, ...] = judged(rule, targets, demands(rule, asked))._cuts
    for cut in cuts:
        for exclusion, mask in cut.groups:
            for place, target in enumerate(targets):
                if mask >> place & 1:
                    found.setdefault(target.name, (exclusion.code, exclusion.why))
    return found


def hooks(path: str, made: Block) -> tuple[str, ...]:
    """The hooks that the registry finds in this block. Raises ConfigError where it refuses it."""
    group, _, name = path.partition(".")
    kind = Kind(f"{group}.{name}", "narrows", "0", type(made))
    return Implementations([Registered(name, path, kind, made)]).hooks(path)
