"""A naive model of eligibility, written from the design and from nothing else: it imports nothing of Narrows.

Plain dicts in (a configuration as its file would be, a request as it is sent), plain values out. It is slow on purpose:
sets of names, one target at a time, no cache and no bitmask, so that the engine and this file can hardly be wrong in the
same way. What it does not know: rankers, failover, money that is held, sessions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from tests.properties.reference_rules import (
    SMALLEST,
    Body,
    Says,
    Table,
    Who,
    allowed_class,
    demands,
    excludes,
    measured,
    reads,
    reads_body,
)

Row = tuple[str, str, bool]
"""One exclusion: constraint, code, does it stand on an assumed demand."""

MONEY = ("price", "unpriced", "unaffordable")
SUFFIXES = ("online", "nitro", "floor", "free", "thinking", "extended", "exacto", "beta")
SOURCES = ("header", "metadata", "key", "tenant")


@dataclass(frozen=True)
class Expected:
    """What a request must get. `eligible`: in the route's order. `counts`: of (constraint, code), each target under its
    first failing rule. `reasons`: every exclusion of every target that the caller is granted."""

    code: str
    eligible: tuple[str, ...] = ()
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    reasons: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)


class Refused(Exception):
    """Refused before any target is looked at; the argument is the code."""


def expected(config: Table, asked: Table) -> Expected:
    """The answer to one request. `asked`: `key` (the secret, or None), `headers` (lower-case names), `body`."""
    try:
        who = _caller(config, asked["key"])
        route = _route(config, who, asked["body"]["model"])
        granted = [name for name in route["targets"] if _granted(config, who, name)]
        if not granted:
            raise Refused(_no_such_model(asked["body"]["model"]))
        body = measured(asked["body"])
        caller = _said_by_caller(config, asked)
        _check_may_say(config, route, granted, who, body, caller)
        for feature in sorted(body.features):
            if feature.startswith("server_tool.") and not any(
                config["targets"][name].get("capabilities", {}).get(feature) for name in granted
            ):
                raise Refused("field_refused")
    except Refused as refused:
        return Expected(str(refused))
    names = {*caller, *who.key.get("attributes", {}), *who.tenant.get("attributes", {})}
    says = {name: caller.get(name, frozenset()) | who.bound(name) for name in names}
    rows = {name: tuple(_exclusions(config, route, who, body, says, name)) for name in granted}
    if any(silence_refused(config, route, name) and name not in says for name in config.get("attributes", {})):
        return Expected("attribute_missing", reasons=rows)
    eligible = tuple(name for name in granted if not rows[name])
    if eligible:
        return Expected("ok", eligible, reasons=rows)
    counts: dict[tuple[str, str], int] = {}
    for first, *_ in rows.values():
        counts[first[:2]] = counts.get(first[:2], 0) + 1
    return Expected(decided(rows)[0], (), counts, rows)


def decided(rows: Mapping[str, Sequence[Row]]) -> tuple[str, list[str]]:
    """The five lines: the first one that some target fits with all its exclusions, and the targets that fit it."""

    def fitting(line: Callable[[str, bool], bool]) -> list[str]:
        return [name for name, one in rows.items() if all(line(code, assumed) for _, code, assumed in one)]

    if fits := fitting(lambda code, _: code == "override"):
        return "override_no_target", fits
    if fits := fitting(lambda code, _: code in MONEY):
        poor = any(code == "unaffordable" for name in fits for _, code, _ in rows[name])
        return "budget_exhausted" if poor else "cost_ceiling", fits
    if fits := fitting(lambda _, assumed: assumed):
        return "attribute_missing", fits
    if fits := fitting(lambda code, _: code == "context_window" or code.startswith("capability.")):
        return "no_capable_target", fits
    return "no_eligible_target", list(rows)


def closest(rows: Mapping[str, Sequence[Row]]) -> tuple[str, set[str]] | None:
    """The first target, of those that decided the code, that the fewest constraints block, and which; None where some
    target is blocked by none."""
    blocking = {name: {constraint for constraint, _, _ in rows[name]} for name in decided(rows)[1]}
    fewest = min(len(names) for names in blocking.values())
    return next(((name, names) for name, names in blocking.items() if len(names) == fewest), None) if fewest else None


def load_codes(config: Table) -> set[str]:
    """The codes of the problems that this configuration has with its routes; empty: it loads. Every label that a rule
    reads must be declared."""
    found = set()
    for route in config["routes"].values():
        targets = [config["targets"][name] for name in route["targets"]]
        strict = [rule for _, rule in rules(config, route) if rule["kind"] == "allowed_classes"]
        if any(not any(allowed_class(rule, target) for target in targets) for rule in strict):
            found.add("unmet_constraint")
        elif not satisfiable(config, route):
            found.add("route_unsatisfiable")
    return found


def satisfiable(config: Table, route: Table) -> bool:
    """Is a target left for some combination of values? Rules that look into the body are left out."""
    pure = [(name, rule) for name, rule in rules(config, route) if not reads_body(rule)]
    must = [
        name
        for name, table in config.get("attributes", {}).items()
        if table.get("missing", "floor") != "unrestricted" and any(name in reads(rule) for _, rule in pure)
    ]
    for values in product(*(config["attributes"][name]["values"] for name in must)):
        says = {name: frozenset({value}) for name, value in zip(must, values, strict=True)}
        if _left(config, route["targets"], pure, Who(), SMALLEST, says):
            return True
    return False


# ---- who asks, and for what --------------------------------------------------------------------------------------


def _caller(config: Table, secret: str | None) -> Who:
    keys = config.get("keys", {})
    if not keys:
        return Who(may_say=config.get("auth", {}).get("may_say", {}))
    digest = None if secret is None else hashlib.sha256(secret.encode()).hexdigest()
    for key in keys.values():
        if digest is not None and key["sha256"] == digest:
            return Who(key, config.get("tenants", {}).get(key.get("tenant"), {}))
    raise Refused("unauthenticated")


def _route(config: Table, who: Who, model: str) -> Table:
    visible = who.key.get("routes", list(config["routes"]))
    if model in config["routes"] and model in visible:
        route: Table = config["routes"][model]
        return route
    raise Refused(_no_such_model(model))


def _no_such_model(model: str) -> str:
    """The same for a route that does not exist and for one that the caller may not see or has no target on."""
    return "field_refused" if ":" in model and model.rpartition(":")[2] in SUFFIXES else "unknown_model"


def _granted(config: Table, who: Who, target: str) -> bool:
    provider = config["targets"][target]["provider"]
    return target in who.key.get("targets", [target]) and provider in who.key.get("providers", [provider])


# ---- what the request says -----------------------------------------------------------------------------------------


def _said_by_caller(config: Table, asked: Table) -> dict[str, frozenset[str]]:
    """Attribute -> values, from headers and the body's metadata."""
    found: dict[str, frozenset[str]] = {}

    def add(attribute: str, values: Sequence[object], declared: Sequence[str] | None) -> None:
        for value in values:
            word = value.strip().lower() if isinstance(value, str) else ""
            if not word or len(word) > 128 or (declared is not None and word not in declared):
                raise Refused("attribute_unknown")
            found[attribute] = found.get(attribute, frozenset()) | {word}

    for name, table in config.get("attributes", {}).items():
        sources = table.get("sources", SOURCES)
        header = table.get("header", name)
        if "header" in sources:
            for key, value in asked["headers"]:
                if key == header:
                    add(name, value.split(","), table["values"])
        if "metadata" in sources:
            for key, value in (asked["body"].get("metadata") or {}).items():
                if _folded(key) in (_folded(name), _folded(header)) and value is not None:
                    values = [value] if isinstance(value, str) else value
                    if not isinstance(values, list) or not values or not all(isinstance(v, str) for v in values):
                        raise Refused("attribute_unknown")
                    add(name, values, table["values"])
    for name in undeclared(config):
        for key, value in asked["headers"]:
            if key == name:
                add(name, value.split(","), None)
    return found


def undeclared(config: Table) -> set[str]:
    """The attributes that some constraint reads and nobody declares."""
    return {a for rule in config.get("constraints", {}).values() for a in reads(rule)} - set(
        config.get("attributes", {})
    )


def _folded(key: str) -> str:
    return key.strip().lower().replace("_", "-")


def _check_may_say(config: Table, route: Table, granted: Sequence[str], who: Who, body: Body, caller: Says) -> None:
    for name, values in caller.items():
        if name in config.get("attributes", {}) and not who.bound(name):
            for value in values - who.allowed(name):
                if not free(config, route, granted, who, body, name, value):
                    raise Refused("attribute_forbidden")


def free(config: Table, route: Table, granted: Sequence[str], who: Who, body: Body, attribute: str, value: str) -> bool:
    """May anybody say it, of an attribute that nothing binds?"""
    table = config["attributes"][attribute]
    readers = [(name, rule) for name, rule in rules(config, route) if attribute in reads(rule)]
    if table.get("missing", "floor") == "unrestricted" or not readers:
        return True
    said: Says = {attribute: frozenset({value})}
    if all(demands(rule, said, who, body) <= demands(rule, {}, who, body) for _, rule in readers):
        return False
    if silence_refused(config, route, attribute):
        return True
    silent: Says = {attribute: frozenset(table["values"])}
    spoken = _left(config, granted, readers, who, body, said)
    return spoken <= _left(config, granted, readers, who, body, silent)


def silence_refused(config: Table, route: Table, attribute: str) -> bool:
    """Must a request on this route say it?"""
    table = config["attributes"][attribute]
    missing = table.get("missing", "floor")
    readers = [(name, rule) for name, rule in rules(config, route) if attribute in reads(rule)]
    if not readers or missing == "unrestricted":
        return False
    everything: Says = {attribute: frozenset(table["values"])}
    return missing == "refuse" or not _left(config, route["targets"], readers, Who(), SMALLEST, everything)


# ---- what it obliges, and what that leaves --------------------------------------------------------------------------


def rules(config: Table, route: Table) -> list[tuple[str, Table]]:
    """The constraints of a route in their order: its list, those that are always on, the two of the core."""
    blocks: Table = config.get("constraints", {})
    names = [*route.get("constraints", [])]
    names += [name for name, rule in blocks.items() if rule.get("always") and name not in names]
    core = [("capability", {"kind": "capability"}), ("context_window", {"kind": "context_window"})]
    return [*((name, blocks[name]) for name in names), *core]


def _left(
    config: Table, targets: Sequence[str], rules: Sequence[tuple[str, Table]], who: Who, body: Body, says: Says
) -> set[str]:
    """The targets that no demand of these rules excludes, for a request that says exactly this."""
    return {
        name
        for name in targets
        if all(
            excludes(rule, demand, config["targets"][name]) is None
            for _, rule in rules
            for demand in demands(rule, says, who, body)
        )
    }


def _exclusions(config: Table, route: Table, who: Who, body: Body, says: Says, target: str) -> Iterator[Row]:
    """Every reason why a target may not serve the request, in the order of the rules; said demands first."""
    floor = {
        name: frozenset(table["values"])
        for name, table in config.get("attributes", {}).items()
        if table.get("missing", "floor") == "floor" and name not in says
    }
    for name, rule in rules(config, route):
        said = demands(rule, says, who, body)
        assumed = demands(rule, {**says, **floor}, who, body) - said
        for demand, guessed in [*((d, False) for d in sorted(said)), *((d, True) for d in sorted(assumed))]:
            code = excludes(rule, demand, config["targets"][target])
            if code is not None:
                yield name, code, guessed
