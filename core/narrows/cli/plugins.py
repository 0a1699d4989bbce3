"""`narrows plugins`: which kinds are installed, and which of them a configuration uses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from narrows.cli.output import console, document, problems_of, refuse
from narrows.errors import ConfigError, Problem
from narrows.types import Json

if TYPE_CHECKING:
    from narrows.constraints import Block
    from narrows.registry import Kind, Registry


@dataclass(frozen=True, slots=True)
class Row:
    """One configured block, or one kind that nobody asked for. `path` None: it stands in no file."""

    name: str
    path: str | None
    kind: Kind
    cls: type[Block]
    status: Literal["active", "available"]

    def document(self) -> dict[str, Json]:
        """The row as JSON."""
        return {
            "name": self.name,
            "path": self.path,
            "kind": self.kind.name,
            "distribution": self.kind.distribution,
            "version": self.kind.version,
            "api": self.cls.api,
            "hooks": list(hooks_of(self.cls)),
            "status": self.status,
        }


def plugins(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="TOML files, to see which kinds they use.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the installed plugins.

    With their distribution and hooks, and whether FILE uses them.
    """
    from narrows.registry import Registry

    broken: list[Problem] = []
    try:
        registry = Registry()
        active = list(_active(registry, files or ()))
        available = list(_available(registry, {row.kind.name for row in active}, broken))
    except ConfigError as error:
        refuse(problems_of(error), as_json=as_json)
    rows = [*active, *available]
    if not as_json:
        _table(rows)
    if broken:
        refuse(broken, as_json=as_json)
    if as_json:
        document([row.document() for row in rows])


def hooks_of(cls: type[Block]) -> tuple[str, ...]:
    """The hooks that a class implements: marked in it, or in a base whose method it overrides."""
    from narrows.hookspecs import LIFE_CYCLE, PIPELINE, PROJECT

    marked = {name for base in cls.__mro__ for name, found in vars(base).items() if hasattr(found, f"{PROJECT}_impl")}
    return tuple(hook for hook in (*PIPELINE, *LIFE_CYCLE) if hook in marked)


def _active(registry: Registry, files: Sequence[Path]) -> Iterator[Row]:
    if files:
        from narrows.compiling import compiled
        from narrows.config import load

        for entry in compiled(load(files, registry, os.environ)).implementations.blocks:
            yield Row(entry.name, entry.path, entry.kind, type(entry.block), "active")


def _available(registry: Registry, used: set[str], broken: list[Problem]) -> Iterator[Row]:
    for kind in registry.all():
        if kind.name in used:
            continue
        try:
            yield Row(kind.short, None, kind, kind.load(), "available")
        except ConfigError as error:
            broken += error.problems


def _table(rows: Sequence[Row]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("plugin", "kind", "distribution", "hooks", "status", box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        came_from = f"{row.kind.distribution} {row.kind.version}".strip()
        table.add_row(row.path or row.name, row.kind.name, came_from, ", ".join(hooks_of(row.cls)), row.status)
    console().print(table)
