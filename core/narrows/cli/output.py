"""What every command prints with, and the exit codes they share.

Results go to stdout, everything else to stderr. Under `--json` stdout holds one document; on exit 2 it is
`{"problems": […]}`. No text is read as markup: a rule named `[red]` is a name.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec
import typer

from narrows.errors import ConfigError, Problem
from narrows.types import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

OK: Final = 0
FINDING: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

_PIPED_WIDTH: Final = 120
_PATIENCE_SECS: Final = 0.5


def console(*, stderr: bool = False) -> Console:
    """The terminal: rich, without any escape code where NO_COLOR is set or nobody watches."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        # A pipe has no width. rich takes 80, in which a table of five rules is unreadable.
        width=None if stream.isatty() or os.environ.get("COLUMNS") else _PIPED_WIDTH,
    )


def say(text: str | Text = "") -> None:
    """A line of the result, never folded."""
    if isinstance(text, str):
        print(text, flush=True)
    else:
        console().print(text, soft_wrap=True)


def tell(text: str | Text = "") -> None:
    """A line that is no result."""
    if isinstance(text, str):
        print(text, file=sys.stderr, flush=True)
    else:
        console(stderr=True).print(text, soft_wrap=True)


@contextmanager
def working(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal, on stderr, that something takes longer than half a second. Nothing in a pipe, or if `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    status = console(stderr=True).status(f"{text} …")
    later = threading.Timer(_PATIENCE_SECS, status.start)
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()  # it may be starting just now
        status.stop()


def document(value: Json, *, indent: int = 2) -> None:
    """The one document of `--json`. Always UTF-8, whatever the terminal speaks."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=indent) + b"\n")
    sys.stdout.buffer.flush()


def fail(message: str, remedy: str = "", *, code: int = USAGE) -> NoReturn:
    """Say on stderr what was wrong and what to do instead, and end."""
    tell(f"narrows: {message}" + (f" {remedy}" if remedy else ""))
    raise typer.Exit(code)


def refuse(problems: Sequence[Problem], *, as_json: bool = False) -> NoReturn:
    """Say all of them on stderr, and end with 2: nothing was started."""
    if as_json:
        document({"problems": [problem_document(problem) for problem in problems]})
    for problem in problems:
        tell(told(problem))
    tell(counted(problems))
    raise typer.Exit(USAGE)


def not_built(what: str, *, as_json: bool = False) -> NoReturn:
    """End with the problem `not_built_yet`."""
    refuse(
        [Problem("not_built_yet", f"{what} is not built yet", remedy="It comes in a later release.")], as_json=as_json
    )


def told(problem: Problem) -> Text:
    """A problem as people read it: `file:line: path: message … [code]`, the same words as `str(problem)`."""
    from rich.text import Text

    text = Text()
    if problem.severity == "warning":
        text.append("warning: ", "yellow")
    text.append(str(problem))
    for part, style in ((problem.path, "bold"), (f"[{problem.code}]", "dim")):
        if part:
            text.highlight_words([part], style)
    return text


def counted(problems: Iterable[Problem]) -> str:
    """ "2 problems, 1 warning"."""
    words = [problem.severity for problem in problems]
    counts = [(words.count(word), word) for word in ("problem", "warning")]
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count)


def problem_document(problem: Problem) -> dict[str, Json]:
    """A problem in the shape of `check --json`."""
    return asdict(problem)


def problems_of(error: ConfigError) -> tuple[Problem, ...]:
    """Its problems in the order of the files."""
    return tuple(sorted(error.problems, key=lambda problem: (problem.file or "", problem.line or 0)))
