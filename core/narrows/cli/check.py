"""`narrows check`: everything that is wrong with a configuration, without starting anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli.output import USAGE, counted, document, not_built, problem_document, problems_of, say, told, working
from narrows.errors import ConfigError, Problem

if TYPE_CHECKING:
    from narrows.snapshot import Snapshot

FILES = typer.Argument(metavar="FILE", help="TOML files; a later one may add, never change.")


def check(
    files: Annotated[list[Path], FILES],
    diff: Annotated[bool, typer.Option("--diff", help="Compare OLD NEW: what was widened (not built yet).")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print {ok, policy, problems, …} as JSON.")] = False,
) -> None:
    """Print everything that is wrong with a configuration.

    Starts nothing.
    """
    if diff:
        not_built("`narrows check --diff`", as_json=as_json)
    try:
        with working("Checking", quiet=as_json):
            snapshot = snapshot_of(files)
    except ConfigError as error:
        _report(None, problems_of(error), as_json=as_json)
        raise typer.Exit(USAGE) from None
    _report(snapshot, snapshot.warnings, as_json=as_json)


def snapshot_of(files: Sequence[Path]) -> Snapshot:
    """These files, loaded and compiled. Raises ConfigError."""
    from narrows.compiling import compiled
    from narrows.config import load
    from narrows.registry import Registry

    return compiled(load(files, Registry(), os.environ))


def _report(snapshot: Snapshot | None, problems: Sequence[Problem], *, as_json: bool) -> None:
    if as_json:
        document(
            {
                "ok": snapshot is not None,
                "policy": snapshot.policy if snapshot is not None else None,
                "problems": [problem_document(problem) for problem in problems],
                "guarantees": [],
                "examples": [],
            }
        )
        return
    for severity in ("problem", "warning"):
        for problem in problems:
            if problem.severity == severity:
                say(told(problem))
    if problems:
        say(counted(problems))
    if snapshot is not None:
        say(f"ok: {_many(len(snapshot.routes), 'route')}, {_many(len(snapshot.targets), 'target')}")
        say(f"policy {snapshot.policy}")


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
