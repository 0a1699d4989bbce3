"""The commands, from typer: what each does, its arguments and options, an example."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import typer

from narrows.cli.app import app
from tools.reference.text import needed, table


def commands() -> str:
    """Every command, in the order of `narrows --help`."""
    # typer brings a click of its own, or uses the installed one: the same shape, but not the same classes.
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="narrows")
    found = [(name, root.get_command(context, name)) for name in root.list_commands(context)]
    shown = [(name, command) for name, command in found if not command.hidden]
    return "\n\n".join(part for name, command in shown for part in _command(name, command))


def _command(name: str, command: Any) -> Iterator[str]:
    needed(f"command {name}", command.help, f"a docstring in narrows.cli.{name}")
    yield f"## `narrows {name}`"
    yield "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n"))
    rows = [_row(name, parameter) for parameter in command.params]
    if rows:
        yield table(("argument or option", "meaning"), rows)
    _, _, example = (command.epilog or "").partition("Example:\n")
    needed(f"example of command {name}", example, "an example in narrows.cli.app")
    yield f"```text\n{cleandoc(chr(10) + example)}\n```"


def _row(name: str, parameter: Any) -> tuple[str, str]:
    # Spelt here and not by typer: what it makes of a type differs from version to version.
    value = parameter.metavar or parameter.name.upper()
    meaning = needed(f"{parameter.name} of command {name}", parameter.help, f"help= in narrows.cli.{name}")
    if parameter.param_type_name == "argument":
        return f"`{value}{'…' if parameter.nargs == -1 else ''}`", meaning
    spelt = ", ".join((*parameter.opts, *parameter.secondary_opts))
    default = "" if parameter.is_flag or parameter.default in (None, ()) else f" [default: {parameter.default}]"
    return (
        f"`{spelt}{'' if parameter.is_flag else f' {value}'}`",
        f"{meaning.removesuffix('.') if default else meaning}{default}{' *required*' if parameter.required else ''}",
    )
