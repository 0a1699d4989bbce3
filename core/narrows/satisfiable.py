"""Could any request be served on a route? If not, the route is a mistake, and the load refuses it.

Constraints only subtract, so the widest request says one value of each attribute that it must say, and nothing of the
others. One target is enough: it may be served where, for each such attribute, some value leaves it. Source: DESIGN
section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narrows.attributes import Attribute
from narrows.candidates import Pool
from narrows.demands import Rule, attribute_rules, left
from narrows.request import Request


def satisfiable(pool: Pool, rules: tuple[Rule, ...], attributes: Iterable[Attribute]) -> bool:
    """Is some target left for some request? `rules`: those that read no size and no feature.

    An attribute that nobody need say (`unrestricted`, undeclared) leaves most when nothing is said of it.
    """
    request = Request("")
    reachable = left(pool, rules, request)
    for attribute in attributes:
        readers = attribute_rules(rules, attribute.name)
        if not readers or attribute.values is None or attribute.missing == "unrestricted":
            continue
        some = 0
        for value in attribute.values:
            some |= left(pool, readers, request, {attribute.name: frozenset({value})})
        reachable &= some
    return bool(reachable)


def values_read(rule: Rule, attributes: Iterable[Attribute]) -> Iterator[dict[str, frozenset[str]]]:
    """Nothing said, and each single value of each attribute that the rule reads and a request must say."""
    yield {}
    for attribute in attributes:
        if rule.reads(attribute.name) and attribute.missing != "unrestricted":
            for value in sorted(attribute.values or ()):
                yield {attribute.name: frozenset({value})}
