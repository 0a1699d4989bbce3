"""Could any request be served on a route? If not, the route is a mistake, and the load refuses it.

Constraints only subtract, so the widest request says one value of each attribute that it must say, and nothing of the
others. The search intersects the masks of single values, attribute by attribute. Source: DESIGN section 4.
"""

from __future__ import annotations

from collections.abc import Iterable

from narrows.attributes import Attribute
from narrows.candidates import Pool
from narrows.demands import Rule, attribute_rules, left
from narrows.request import Request


def satisfiable(pool: Pool, rules: tuple[Rule, ...], attributes: Iterable[Attribute]) -> bool:
    """Is some target left for some request? `rules`: those that read no size and no feature.

    An attribute that nobody need say (`unrestricted`, undeclared) leaves most when nothing is said of it.
    """
    request = Request("")
    reachable = {left(pool, rules, request)}
    for attribute in attributes:
        readers = attribute_rules(rules, attribute.name)
        if not readers or attribute.values is None or attribute.missing == "unrestricted":
            continue
        masks = {left(pool, readers, request, {attribute.name: frozenset({value})}) for value in attribute.values}
        # Keyed by what is left, so the search is bounded by distinct sets, not by combinations of values.
        reachable = _widest({mask & other for mask in reachable for other in masks})
    return any(reachable)


def _widest(masks: set[int]) -> set[int]:
    """Only the masks that are no subset of another: a narrower one reaches nothing that the wider one does not."""
    ordered = sorted(masks, key=int.bit_count, reverse=True)
    kept: list[int] = []
    for mask in ordered:
        if not any(mask & ~wider == 0 for wider in kept):
            kept.append(mask)
    return set(kept)
