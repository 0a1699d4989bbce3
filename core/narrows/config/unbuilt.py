"""What the file may say one day and not yet: one table of the words that are built and the words that are planned.

A part that is not built is the problem `not_built_yet`, never silently ignored. A word that is in neither list is a
mistake, and said to be one. Source: DESIGN section 11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from narrows.config.places import Path
from narrows.config.tree import Report, Tree
from narrows.registry import Registry

ANY: Final = "*"
SESSIONS = "sessions, the part that remembers what a conversation was restricted to"
GUARANTEES = "guarantees, the part that proves at load what can never happen"
SHADOW = "shadow mode, the part that records what a rule would have removed"
WAIVERS = "operators, the part with overrides, waivers and the kill switch"
CONTENT = "content attributes, the part that reads the text itself"
VENDORS = "the vendors' own dialects"
OPERATIONS = "operation: limits of what is in flight"
RANKERS = "the other rankers, the part that orders targets by speed, by session or by a judge"
RULES = "the other rules: data handling, licences of outputs, expressions"


class Later(NamedTuple):
    """One place in the file. `planned`: the words there that a later part brings; empty: the key itself is that part's.
    `built`: the words that work today; kinds that are installed count as built. `group`: the registry's, for kinds."""

    path: tuple[str, ...]
    brings: str
    planned: tuple[str | bool, ...] = ()
    built: tuple[str | bool, ...] = ()
    group: str = ""


TABLE: Final = (
    Later(("constraints", ANY, "scope"), SESSIONS, ("session", "content"), ("turn",)),
    Later(("constraints", ANY, "sticks"), SESSIONS),
    Later(("constraints", ANY, "exempt"), SESSIONS),
    Later(("constraints", ANY, "pieces"), SESSIONS),
    Later(("constraints", ANY, "enforce"), SHADOW, (False,), (True,)),
    Later(("constraints", ANY, "waivable"), WAIVERS, (True,), (False,)),
    Later(("constraints", ANY, "kind"), RULES, ("data_handling", "output_licence", "expression"), group="constraints"),
    Later(("guarantees",), GUARANTEES),
    Later(("examples",), GUARANTEES),
    Later(("attributes", ANY, "content"), CONTENT),
    Later(("attributes", ANY, "sources"), CONTENT, ("constant", "host", "content"), ("header", "metadata", "key", "tenant")),
    Later(("routes", ANY, "algorithm"), RANKERS,
          ("fastest", "sticky", "stage", "escalation", "classifier", "tiered"), group="rankers"),
    Later(("routes", ANY, "unknown_history"), SESSIONS),
    Later(("targets", ANY, "max_in_flight"), OPERATIONS),
    Later(("providers", ANY, "kind"), VENDORS,
          ("openai", "azure_openai", "anthropic", "gemini", "bedrock", "openrouter"), group="providers"),
    Later(("state",), SESSIONS),
    Later(("operators",), WAIVERS),
)  # fmt: skip


def planned_words(*path: str) -> tuple[str, ...]:
    """The words that a later part brings at that place of the table: ("routes", "*", "algorithm")."""
    return tuple(word for row in TABLE if row.path == path for word in row.planned if isinstance(word, str))


def planned_keys(path: Path) -> tuple[str, ...]:
    """The keys that a later part brings to the table of that path."""
    return tuple(row.path[-1] for row in TABLE if not row.planned and _fits(row.path[:-1], path))


def refuse_unbuilt(registry: Registry, report: Report) -> None:
    """Report what is not built yet, and take it out of the tree, so that nothing else is said about it."""
    tree = report.tree
    for row in TABLE:
        for path, table in list(_tables(tree, row)):
            key = row.path[-1]
            if key in table:
                _refuse(row, (*path, key), table, registry, report)


def _refuse(row: Later, path: Path, table: dict[str, Any], registry: Registry, report: Report) -> None:
    tree, key, value = report.tree, row.path[-1], table[row.path[-1]]
    if not row.planned:
        _not_built(report, path, f"{key!r} is", row, f"Take {key!r} out until then.")
        del table[key]
        return
    for place, word in enumerate(value if isinstance(value, list) else [value]):
        if word not in row.planned or type(word) not in {type(known) for known in row.planned}:
            continue
        if row.group and registry.get(row.group, word) is not None:
            continue  # somebody brought it
        written = str(word).lower() if isinstance(word, bool) else f'"{word}"'
        built = row.built or tuple(kind.short for kind in registry.of(row.group))
        remedy = f"Until then: {', '.join(str(one).lower() for one in built)}." if built else "Take it out until then."
        at = (*path, place) if isinstance(value, list) else path
        _not_built(report, path, f"{key} = {written} is", row, remedy, at)
        if row.path[-1] == "kind":
            tree.aside[path[:-1]] = table  # the block goes, its name stays known
            del tree.data[row.path[0]][path[1]]
        elif isinstance(value, list):
            table[key] = [one for one in table[key] if one != word]
        else:
            tree.aside[path] = table.pop(key)


def _not_built(report: Report, path: Path, what: str, row: Later, remedy: str, at: Path | None = None) -> None:
    report.add("not_built_yet", path, f"{what} not built yet; it comes with {row.brings}", remedy=remedy, at=at)


def _tables(tree: Tree, row: Later) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The tables that may hold the row's key: one, or one for each name."""
    if len(row.path) == 1:
        yield (), tree.data
    elif len(row.path) == 2 and isinstance(tree.data.get(row.path[0]), dict):
        yield (row.path[0],), tree.data[row.path[0]]
    else:
        for name, table in tree.tables(row.path[0]):
            yield (row.path[0], name), table


def _fits(pattern: tuple[str, ...], path: Path) -> bool:
    return len(pattern) == len(path) and all(part in (ANY, given) for part, given in zip(pattern, path, strict=True))
