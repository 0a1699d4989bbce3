"""Makes the configured blocks: a kind's own class checks its own options, and the instance is the plugin.

Beside the blocks of the file there are those that always stand: `capability` and `context_window` on every route, the
generic `error_classes`, and authenticators for configured keys and for the host's users.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from narrows.config.places import Path
from narrows.config.problems import bad_value, missing, unknown_key, validated
from narrows.config.secrecy import shown
from narrows.config.tree import Report, dotted
from narrows.config.unbuilt import ANY, planned_words
from narrows.config.words import listed, nearest
from narrows.constraints import Block
from narrows.errors import ConfigError, Problem
from narrows.registry import Kind, Registered, Registry

ALWAYS: Final = ("capability", "context_window")
RESERVED: Final[Mapping[str, Collection[str]]] = {
    "constraints": (*ALWAYS, "override", "continuation", "health", "saturation", "grants", "money"),
    "authenticators": ("keys", "host"),
    "plugins": ("error_classes",),
}
ORDERED: Final = "ordered"
_CLOSE = 0.7
OWN: Final = frozenset(
    {*(f"constraints.{name}" for name in ALWAYS), "authenticators.keys", "authenticators.host", "plugins.error_classes"}
)
"""Paths of the blocks that the core adds: what they hold follows from the rest."""


def build_blocks(registry: Registry, report: Report) -> tuple[Registered, ...]:
    """Every block whose options are right; the others are reported."""
    return tuple(_Builder(registry, report).all())


class _Builder:
    def __init__(self, registry: Registry, report: Report) -> None:
        self.registry, self.report, self.tree = registry, report, report.tree

    def all(self) -> Iterator[Registered]:
        yield from self.configured("constraints")
        yield from self.own("constraints", "capability", {})
        yield from self.own("constraints", "context_window", {"thresholds": self.windows()})
        yield from self.configured("providers")
        yield from self.rankers()
        yield from self.configured("authenticators")
        mode = self.tree.table("auth").get("mode")
        if (hashes := self.hashes()) and mode != "host":  # there the credentials are the host's own
            yield from self.own("authenticators", "keys", {"sha256": hashes})
        if mode == "host":
            yield from self.own("authenticators", "host", {})
        yield from self.configured("plugins")
        yield from self.own("plugins", "error_classes", {})
        yield from self.configured("sinks")

    def configured(self, group: str) -> Iterator[Registered]:
        """The blocks of a group, in the order of the files."""
        for name, table in self.tree.tables(group):
            path: Path = (group, name)
            if name in RESERVED.get(group, ()):
                self.report.add(
                    "reserved_name", path, f"{name!r} is the name of a rule of the core, which always stands",
                    remedy="Give this block another name.",
                )  # fmt: skip
            word = self.word(path, table)
            kind = None if word is None else self.kind(group, word, (*path, "kind"))
            if kind is not None:
                options = {key: value for key, value in table.items() if key != "kind"}
                yield from self.block(name, path, kind, options)

    def rankers(self) -> Iterator[Registered]:
        """One for each route, with the options of the table that is named after it."""
        for route, table in self.tree.tables("routes"):
            at: Path = ("routes", route, "algorithm")
            planned = self.tree.aside.get(at)
            word = planned or table.get("algorithm", ORDERED)
            if not isinstance(word, str):
                continue
            path: Path = ("routes", route, word)
            for aside in self.tree.aside:
                if aside[:2] == path[:2] and aside not in (path, at):
                    self.report.add(
                        "contradiction", aside, f"options for {aside[2]!r}, and the route's algorithm is {word!r}",
                        remedy=f'Write algorithm = "{aside[2]}", or take the table out.',
                    )  # fmt: skip
            if planned:
                continue
            kind = self.kind("rankers", word, at)
            options = self.tree.aside.get(path, {})
            if not isinstance(options, dict):
                bad_value(self.report, path, f"{word!r} must be a table of options", f"Write [{dotted(path)}].")
            elif kind is not None:
                yield from self.block(word, path, kind, options)

    def own(self, group: str, name: str, options: dict[str, Any]) -> Iterator[Registered]:
        """A block that the core adds."""
        kind = self.registry.get(group, name)
        if kind is not None:
            yield from self.block(name, (group, name), kind, options)
            return
        self.report.append(
            Problem(
                "unknown_kind", f"the built-in kind {group}.{name} is not installed", f"{group}.{name}",
                remedy="Install narrows again; its own kinds come with it.",
            )
        )  # fmt: skip

    # ---- one block -------------------------------------------------------------------------------------------------

    def word(self, path: Path, table: dict[str, Any]) -> str | None:
        """What stands behind `kind =`, also where that is misspelt."""
        if "kind" not in table:
            key = next((key for key in table if get_close_matches(key.casefold(), ["kind"], cutoff=_CLOSE)), None)
            if key is None:
                missing(self.report, (*path, "kind"))
                return None
            unknown_key(self.report, (*path, key), ["kind"], "kind")
            self.tree.spelt[(*path, "kind")] = self.tree.written((*path, key))
            table["kind"] = table.pop(key)
        if not isinstance(table["kind"], str):
            bad_value(self.report, (*path, "kind"), "'kind' must be text, in quotes", "Write the name of a kind.")
            return None
        word: str = table["kind"]
        return word

    def kind(self, group: str, word: str, path: Path) -> Kind | None:
        kind = self.registry.get(group, word)
        if kind is None:
            available = [one.short for one in self.registry.of(group) if f"{group}.{one.short}" not in OWN]
            key = ("routes", ANY, "algorithm") if group == "rankers" else (group, ANY, "kind")
            self.report.add(
                "unknown_kind",
                path,
                f"there is no kind {shown(word) or 'of that name'} of {group}; available: {listed(available) or 'none'}",
                suggestion=nearest(word, (*available, *planned_words(*key))),
                remedy="Correct the word, or install the distribution that brings it.",
            )
        return kind

    def block(self, name: str, path: Path, kind: Kind, options: dict[str, Any]) -> Iterator[Registered]:
        try:
            cls = kind.load()
        except ConfigError as error:
            self.broken(path, error.problems)
            return
        if inspect.isabstract(cls):
            lacks = ", ".join(sorted(cls.__abstractmethods__))
            self.broken(path, [Problem("bad_plugin", f"kind {kind.name!r} of {kind.distribution!r} lacks {lacks}")])
            return
        try:
            block: Block | None = validated(cls, options, path, self.report, lambda at: ("kind",) if at == path else ())
        except Exception as error:  # noqa: BLE001 - a kind's validators are a third party's code, run at load
            text = f"kind {kind.name!r} of {kind.distribution!r} raises {type(error).__name__} for these options"
            self.broken(path, [Problem("bad_plugin", text)])
            return
        if block is not None:
            yield Registered(name, dotted(path), kind, block)

    def broken(self, path: Path, problems: Collection[Problem]) -> None:
        """A plugin's own fault, at the block that asks for it. The text of its exception may hold a value: not ours."""
        for problem in problems:
            remedy = problem.remedy or "Tell its author, or take the block out."
            file, line = self.tree.place(path) or (None, None)
            self.report.append(replace(problem, path=dotted(path), file=file, line=line, remedy=remedy))

    # ---- what the core's own blocks hold ---------------------------------------------------------------------------

    def windows(self) -> list[int]:
        """Every declared context window, ascending."""
        found = [table.get("context_window") for _, table in self.tree.tables("targets")]
        return sorted({tokens for tokens in found if type(tokens) is int and tokens > 0})

    def hashes(self) -> dict[str, str]:
        """The hash of each key that has one. Two keys of one hash are a contradiction that `checks` reports."""
        found = {name: table.get("sha256") for name, table in self.tree.tables("keys")}
        owners = {value.lower(): name for name, value in found.items() if isinstance(value, str) and len(value) == 64}
        return {name: value for value, name in owners.items()}
