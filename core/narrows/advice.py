"""What a configuration may do and hardly means to: warnings of `check`. They refuse nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narrows.attributes import CALLER_SOURCES, Attribute, Reader
from narrows.demands import Rule
from narrows.errors import Problem
from narrows.snapshot import Route


def advice(routes: Iterable[Route], rules: Iterable[Rule], reader: Reader) -> Iterable[Problem]:
    """Rules that bind nobody, attributes that bind nobody somewhere, and silence that is refused."""
    routes, rules = tuple(routes), tuple(rules)
    yield from _unused(routes, rules)
    for attribute in reader.attributes.values():
        if attribute.declared:
            yield from _unread(attribute, routes, rules)
    for route in routes:
        for name in sorted(route.silence_refused):
            if reader.attributes[name].missing == "floor":
                yield _silence(route, reader.attributes[name])


def _unused(routes: Sequence[Route], rules: Sequence[Rule]) -> Iterable[Problem]:
    used = {rule.name for route in routes for rule in route.rules}
    for rule in rules:
        if rule.name not in used:
            yield _warning(
                "unused_constraint",
                f"no route names the constraint {rule.name!r}, and it is not `always`: it binds nobody",
                f"constraints.{rule.name}",
                "Name it in the `constraints` of a route, or write `always = true`.",
            )


def _unread(attribute: Attribute, routes: Sequence[Route], rules: Sequence[Rule]) -> Iterable[Problem]:
    readers = [rule.name for rule in rules if rule.attributes is not None and attribute.name in rule.attributes]
    unread = [route.name for route in routes if not any(rule.reads(attribute.name) for rule in route.rules)]
    if not unread:
        return
    where = "any route" if len(unread) == len(routes) else f"route {', '.join(sorted(unread))}"
    remedy = (
        f"`always = true` on [constraints.{readers[0]}] binds every route." if readers else "Write a rule that does."
    )
    yield _warning(
        "unread_attribute",
        f"no rule on {where} reads {attribute.name!r}: what a request says of it changes nothing there",
        f"attributes.{attribute.name}",
        remedy,
    )


def _silence(route: Route, attribute: Attribute) -> Problem:
    says = " or ".join(sorted(set(CALLER_SOURCES) & attribute.sources)) or "key or tenant"
    return _warning(
        "silence_refused",
        f"on route {route.name!r} no target is permitted for every value of {attribute.name!r}: a request that does not"
        f" say it ({says}) is refused",
        f"attributes.{attribute.name}",
        None,
    )


def _warning(code: str, message: str, path: str, remedy: str | None) -> Problem:
    return Problem(code, message, path, remedy=remedy, severity="warning")
