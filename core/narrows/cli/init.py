"""`narrows init`: a commented starter file from what this machine has.

It asks only on a terminal, and overwrites only what it was told to. What it finds is named, never shown: the file holds
the name of a variable, not the key.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from narrows.cli import init_found
from narrows.cli.init_file import starter
from narrows.cli.init_found import Found
from narrows.cli.output import document, fail, say, tell, working
from narrows.types import Json

FILE: Final = "narrows.toml"
STDOUT: Final = "-"


def init(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help=f"What to write, - for stdout  [default: {FILE}]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not look for an Ollama on this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print {file, found, next} as JSON; ask nothing.")] = False,
) -> None:
    """Write a configuration to begin with.

    From what it finds: variables of vendors (OPENAI_API_KEY and the like), an Ollama on this machine. Without any of
    them it begins with `echo`, which needs neither key nor network.
    """
    asks = not as_json and file != STDOUT and sys.stdin.isatty() and sys.stderr.isatty()
    if as_json and file == STDOUT:
        fail("--json and - both want stdout.", "Leave one of them out.")
    if file is None:
        file = _answer("File to write", FILE) if asks else FILE
    replaces = file != STDOUT and _replaces(Path(file), force=force, asks=asks)
    found = _looked(offline=offline, as_json=as_json)
    if asks and len(found) > 1:
        found = _chosen(found)
    text = starter(found, FILE if file == STDOUT else file)
    if file == STDOUT:
        sys.stdout.buffer.write(text.encode())
        return
    _write(Path(file), text, replaces=replaces)
    _report(file, found, as_json=as_json)


def following(file: str) -> tuple[str, str, str]:
    """The three commands to go on with."""
    import shlex

    named = shlex.quote(file)
    body = '{"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}'
    return (
        f"narrows check {named}",
        f"narrows serve {named}",
        f"curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' -d '{body}'",
    )


def _looked(*, offline: bool, as_json: bool) -> list[Found]:
    found = list(init_found.vendors(os.environ))
    if not offline:
        host, port = init_found.OLLAMA
        with working(f"Looking for an Ollama on {host}:{port}", quiet=as_json):
            local = init_found.ollama(init_found.OLLAMA)
        found += [] if local is None else [local]
    return found


def _chosen(found: Sequence[Found]) -> list[Found]:
    """Those that the user wants, in the order in which they are written: the first is asked first."""
    names = {one.name: one for one in found}
    while True:
        answer = _answer(f"Providers, the first is asked first ({', '.join(names)})", "all")
        words = list(dict.fromkeys(answer.replace(",", " ").split()))
        if words == ["all"]:
            return list(found)
        if words and all(word in names for word in words):
            return [names[word] for word in words]
        tell(f"Write some of: {', '.join(names)}; or all.")


def _answer(question: str, default: str) -> str:
    """What is typed. Not typer's prompt: that writes to stdout too, where only the result belongs."""
    print(f"{question} [{default}]: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        fail("the input ended before the question was answered.", "Name the file: `narrows init FILE`.")
    return line.strip() or default


def _replaces(path: Path, *, force: bool, asks: bool) -> bool:
    """Is there a file, and may it be overwritten? Ends the command where there is one that may not."""
    if path.is_dir():
        fail(f"{path} is a directory.", f"Name a file in it: `narrows init {path / FILE}`.")
    there = path.exists()
    if there and not force and not (asks and _agreed(path)):
        fail(f"{path} exists, and is left as it is.", "Name another file, or overwrite it with --force.")
    return there or force


def _agreed(path: Path) -> bool:
    return _answer(f"{path} exists. Overwrite it? yes or no", "no").lower() in ("y", "yes")


def _write(path: Path, text: str, *, replaces: bool) -> None:
    try:
        mode = "w" if replaces else "x"  # x: somebody may be faster
        with path.open(mode, encoding="utf-8", newline="\n") as written:
            written.write(text)
    except FileExistsError:
        fail(f"{path} exists, and is left as it is.", "Name another file, or overwrite it with --force.")
    except FileNotFoundError:
        fail(f"{path.parent} is no directory.", "Make it first, or name another file.")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid name"
        fail(f"{path} cannot be written: {reason}.", "Name another file, or print it: `narrows init -`.")


def _report(file: str, found: Sequence[Found], *, as_json: bool) -> None:
    commands = following(file)
    if as_json:
        rows: list[Json] = [{"name": one.name, "found": one.said} for one in found]
        document({"file": file, "found": rows, "next": list(commands)})
        return
    for one in found:
        tell(f"found: {one.said}")
    if not found:
        tell("found: no variable of a vendor and no Ollama, so it begins with `echo`, which answers by itself")
    say(file)
    tell("Next:")
    for command in commands:
        tell(f"  {command}")
    if found:
        tell('Each target says region = "unknown": fill in where it runs. That is yours to state.')
