"""`narrows completion`: what a shell needs to complete commands, options, files, and the names that a file declares.

The shell calls `narrows` with `_NARROWS_COMPLETE` set; typer answers. Names come from the files on the line, read as TOML
and nothing else: no kind is loaded, nothing is checked, and whatever is wrong there completes nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from narrows.cli.output import say

VARIABLE: Final = "_NARROWS_COMPLETE"
LARGEST_FILE: Final = 1_000_000

_BASH = """\
_narrows_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _NARROWS_COMPLETE=complete_bash "$1" ) )
    return 0
}
complete -o default -F _narrows_completion narrows"""

_ZSH = """\
#compdef narrows
_narrows_completion() {
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _NARROWS_COMPLETE=complete_zsh narrows)
}
compdef _narrows_completion narrows"""

_FISH = """\
complete --command narrows --no-files \\
    --arguments "(env _NARROWS_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
_TYPER_COMPLETE_ARGS=(commandline -cp) narrows)" \\
    --condition "env _NARROWS_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args \\
_TYPER_COMPLETE_ARGS=(commandline -cp) narrows\""""

_PLAIN = re.compile(r"[A-Za-z0-9._/@+-]+")


class Shell(StrEnum):
    """The shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes this command in your shell.

    It completes commands, options and files, and the names of routes, keys and headers from the files on the line.
    """
    say(_SCRIPTS[shell])


def prepare() -> None:
    """Where a shell asks, have typer's answers ready. Not else: it would look for what shell this is."""
    if VARIABLE in os.environ:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()


def routes(incomplete: str) -> list[str]:
    """Routes of the files on the line."""
    return sorted(_names("routes", incomplete))


def keys(incomplete: str) -> list[str]:
    """Names of keys in the files on the line."""
    return sorted(_names("keys", incomplete))


def headers(incomplete: str) -> list[str]:
    """Headers that say an attribute, with the sign that follows."""
    found = set()
    for document in _documents():
        attributes = document.get("attributes")
        for name, table in attributes.items() if isinstance(attributes, dict) else ():
            header = table.get("header", name) if isinstance(table, dict) else name
            found.add(f"{header}=")
    return sorted(one for one in found if one.startswith(incomplete) and _PLAIN.fullmatch(one[:-1]))


def _names(group: str, incomplete: str) -> set[str]:
    tables = [document.get(group) for document in _documents()]
    names = {name for table in tables if isinstance(table, dict) for name in table if name.startswith(incomplete)}
    return {name for name in names if _PLAIN.fullmatch(name)}  # no shell reads more in these


def _documents() -> Iterator[dict[str, Any]]:
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is still open
        words = line.split()
    for word in dict.fromkeys(words):
        path = Path(word).expanduser()
        try:
            if path.is_file() and path.stat().st_size <= LARGEST_FILE:
                yield tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RuntimeError, RecursionError):
            continue
