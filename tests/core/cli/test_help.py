"""Every example of the help is true: its commands are run where they end, parsed where they do not, and print what it says."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx
import pytest
import typer

from narrows import Gateway, transport
from narrows.cli.app import app
from tests.core.cli.commands import ECHO, narrows
from tests.support.config import write_config

ENDLESS = ("demo", "serve")
"""They serve until a signal. test_demo and test_serve look at what they print."""

MISSPELT = "\n" + ECHO.replace('region = "us"', 'regoin = "us"').replace("us-large", "us")
LEDGER = '[auth]\nmode = "open"\n[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///decisions.db"\n'


class Line(NamedTuple):
    """One command of an example, and the lines that it says come of it."""

    command: str
    prints: tuple[str, ...]


_ROOT: Any = typer.main.get_command(app)  # a group of click's, or of the copy of it that typer brings
COMMANDS: tuple[str, ...] = tuple(_ROOT.commands)


def example(command: str) -> list[Line]:
    """The example, as its help shows it. Remarks in parentheses at the end of a line are for people."""
    _, _, text = narrows(command, "--help").stdout.partition("  Example:\n")
    lines: list[Line] = []
    for line in text.splitlines():
        plain = re.sub(r"\s{3,}\(.*\)$", "", line.strip())
        if re.match(r"(narrows|echo|curl|source) ", plain):
            lines.append(Line(plain, ()))
        elif plain:
            lines[-1] = Line(lines[-1].command, (*lines[-1].prints, plain))
    return lines


def own(line: Line) -> list[str] | None:
    """The arguments of `narrows` in it, without what belongs to the shell."""
    found = re.search(r"\bnarrows( [^|>)]+)?", line.command)
    return None if found is None or line.command.startswith("curl") else shlex.split(found[0])[1:]


@pytest.mark.parametrize("command", COMMANDS)
def test_there_is_an_example_and_it_parses(command: str) -> None:
    lines = example(command)
    assert lines
    commands = [words for line in lines if (words := own(line)) is not None]
    assert commands
    for words in commands:
        assert words[0] == command
        _ROOT.commands[command].make_context(command, words[1:])  # raises a usage error


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory as the examples find it."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    return tmp_path


def prepared(command: str, folder: Path) -> Iterator[str]:
    """What must be there before. Yields what stands for `…` in a command."""
    if command == "check":
        write_config(folder, MISSPELT)
    elif command == "decisions":
        write_config(folder, ECHO.replace('"us-large", "eu-main"', '"us-large"') + LEDGER)
        yield anyio.run(refused, folder / "narrows.toml")
    elif command in ("explain", "plugins"):
        write_config(folder, ECHO)


async def refused(file: Path) -> str:
    """A request that no target may answer. Its decision's id."""
    gateway = Gateway.from_file(file)
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}
    async with gateway, httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        answer = await client.post("/v1/chat/completions", json=body, headers={"x-region": "eu"})
    assert answer.status_code == 403
    return str(answer.headers["x-narrows-decision"])


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in ENDLESS])
def test_what_the_example_says_is_what_is_printed(command: str, here: Path) -> None:
    ids = list(prepared(command, here))
    for line in example(command):
        words = own(line)
        stdin = line.command.partition("echo '")[2].partition("'")[0]
        assert words is not None
        words = [re.sub(r"dec_\w*…", ids[0], word) for word in words] if ids else words
        ran = narrows(*words, stdin=stdin)
        assert ran.code == (2 if command == "check" else 0), ran.stderr
        if ">" in line.command:
            continue  # what stands below is for the file that is written
        printed = [" ".join(one.split()) for one in ran.stdout.splitlines() if one.strip(" ─")]
        expected = [matching(one) for one in line.prints]
        assert len(printed) >= len(expected)
        for text, pattern in zip(printed, expected, strict=False):
            assert re.fullmatch(pattern, text), f"{text!r} is not {pattern!r}"
        assert len(printed) == len(expected) or not expected or line.prints[-1] == "…"


def matching(line: str) -> str:
    """The line as a pattern: `…` is anything, so is a time; spaces count as one."""
    pattern = ".*".join(map(re.escape, " ".join(line.split()).split("…")))
    return re.sub(r"\d{4}\\-\d\d\\-\d\d\\ \d\d:\d\d:\d\d", r"[-0-9]+ [:0-9]+", pattern)
