"""Every error says what to do next; long work is shown on a terminal and nowhere else."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest

from narrows.cli import output
from tests.core.cli.commands import ECHO, KEYS, narrows
from tests.support.config import write_config

READERS = ("check", "serve", "explain --route chat", "plugins", "decisions")
"""Commands that read a configuration."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files that are right and files that are not."""
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, ECHO + KEYS, "good.toml")
    write_config(tmp_path, "", "empty.toml")
    write_config(tmp_path, "a = ", "broken.toml")
    write_config(tmp_path, ECHO + '[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///x.db"\n', "ledger.toml")
    write_config(tmp_path, ECHO.replace('"echo"', '"ecko"', 1), "kind.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("absent.toml", "Check the name and the working directory."),
        ("folder", "Name the files in it: `narrows check policy.toml routes.toml`."),
        ("empty.toml", "Write at least a provider, a target and a route, or leave the file out."),
        ("broken.toml", "Correct that line"),
        ("latin.toml", "Save it as UTF-8"),
        ("kind.toml", "Did you mean 'echo'? Correct the word, or install the distribution that brings it."),
    ],
)
def test_a_file_that_cannot_be_used(command: str, file: str, remedy: str) -> None:
    ran = narrows(*command.split(), file)
    assert ran.code == 2
    assert remedy in ran.stdout + ran.stderr
    assert ran.stdout == "" or command == "check", "elsewhere a problem is no result"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("chek good.toml", "No such command 'chek'. Did you mean 'check'"),
        ("check good.toml --jsn", "Possible options: --json"),
        ("check", "Try 'narrows check -h' for help."),
        ("explain good.toml", "Missing option '--route'"),
        ("completion ksh", "'bash', 'zsh', 'fish'"),
        ("serve good.toml --port 65536", "65535"),
        ("explain good.toml --route cat", "Did you mean 'chat'?"),
        ("explain good.toml --route chat --key nobody", "There is: ci, ops."),
        ("explain good.toml --route chat --header x-region", "Write --header x-region=eu."),
        ("explain good.toml --route chat --header authorization=x", "Say who is calling with --key NAME"),
        ("explain good.toml --route chat --body absent.json", "Name a file with a chat body, or - for stdin."),
        ("decisions good.toml", '[sinks.ledger] with kind = "sql"'),
        ("decisions", "Name the configuration, or the ledger itself with --ledger FILE."),
        ("decisions ledger.toml --since yesterday", "Write 30m, 1h, 2d"),
        ("decisions --ledger absent.db", "Name the SQLite file"),
        ("init folder", "Name a file in it: `narrows init folder/narrows.toml`."),
        ("init good.toml", "overwrite it with --force"),
        ("init no/such/place.toml --offline", "Make it first, or name another file."),
        ("init - --json", "Leave one of them out."),
    ],
)
def test_every_other_error_says_what_to_do(arguments: str, says: str) -> None:
    ran = narrows(*arguments.split(" "))
    assert (ran.code, ran.stdout) == (2, "")
    assert says in ran.stderr


@pytest.mark.parametrize("command", ["check", "serve", "decisions"])
def test_without_the_extra_ledger_a_file_that_needs_it_names_it(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import util

    for name in [name for name in sys.modules if name.startswith("narrows_plugins.record.sql")]:
        monkeypatch.delitem(sys.modules, name)
    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *more: None if name == "sqlalchemy" else find(name, *more))
    ran = narrows(command, "ledger.toml")
    assert ran.code == 2
    assert "pip install 'narrows[ledger]'" in ran.stdout + ran.stderr


class Terminal(io.StringIO):
    """A stream that says it is one."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "quiet", "shown"), [(Terminal, False, True), (Terminal, True, False), (io.StringIO, False, False)]
)
def test_long_work_is_shown_on_a_terminal_only(
    stream: type[io.StringIO], quiet: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_PATIENCE_SECS", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    with output.working("Checking", quiet=quiet):
        until = time.monotonic() + (10 if shown else 0.05)
        while "Checking" not in screen.getvalue() and time.monotonic() < until:
            time.sleep(0.005)
    assert ("Checking" in screen.getvalue()) is shown


def test_quick_work_shows_nothing_even_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_PATIENCE_SECS", 60)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with output.working("Checking"):
        pass
    assert "Checking" not in screen.getvalue()
