"""What all commands share: help with an example, exit codes, streams, no traceback, a quick start."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from narrows import cli
from narrows.cli import app as app_module
from tests.core.cli.commands import ECHO, KEY, KEYS, narrows, process
from tests.support.config import write_config

COMMANDS = ("demo", "serve", "check", "explain", "plugins", "keygen", "classify")


def test_version() -> None:
    assert narrows("--version") == (0, f"narrows {version('narrows')}\n", "")


def test_help_names_every_command_and_the_exit_codes() -> None:
    ran = narrows("--help")
    assert ran.code == 0
    for command in COMMANDS:
        assert f"  {command} " in ran.stdout
    assert "Exit codes: 0 good, 1 a finding, 2 a usage or load error, 130 interrupted." in ran.stdout


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_every_command_has_help_with_an_example(command: str, option: str) -> None:
    ran = narrows(command, option)
    assert (ran.code, ran.stderr) == (0, "")
    _, example = ran.stdout.split("  Example:\n")
    assert f"narrows {command}" in example
    assert "\x1b" not in ran.stdout


def test_the_example_of_classify_is_what_it_prints() -> None:
    *_, line, answer = narrows("classify", "--help").stdout.splitlines()
    stdin = line.partition("echo '")[2].partition("'")[0]
    assert narrows("classify", stdin=stdin).stdout == answer.strip() + "\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["schemas"],
        ["check"],
        ["check", "--nonsense", "a.toml"],
        ["explain", "a.toml"],
        ["serve", "a.toml", "--port", "65536"],
        ["serve", "a.toml", "--port", "http"],
        ["keygen", "more"],
        [],
    ],
    ids=" ".join,
)
def test_a_usage_error_ends_with_2_and_says_so_on_stderr(arguments: list[str]) -> None:
    ran = narrows(*arguments)
    assert ran.code == 2
    assert ran.stdout == "" or not arguments  # without any command the help is the answer
    assert "Usage: narrows" in ran.stderr + ran.stdout


def test_python_m_narrows_is_the_command(tmp_path: Path) -> None:
    assert process("--version") == (0, f"narrows {version('narrows')}\n", "")
    ran = process("check", tmp_path / "absent.toml")
    assert ran.code == 2
    assert "there is no such file" in ran.stdout


def test_a_bug_of_ours_is_one_line_without_a_traceback_or_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**options: object) -> None:
        raise LookupError(f"the key was {KEY}")

    monkeypatch.setattr(app_module, "app", broken)
    with pytest.raises(SystemExit) as ended:
        cli.run()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert said.err.startswith("narrows: internal error (LookupError at test_app.py:")
    assert said.err.count("\n") == 1
    assert KEY not in said.err


def test_the_command_line_starts_without_what_only_some_commands_need() -> None:
    code = "import sys, narrows.cli; print(sorted({'rich', 'uvicorn', 'hypercorn', 'openai'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_without_uvicorn_a_server_names_its_extra(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "narrows.cli.server", raising=False)
    monkeypatch.delattr("narrows.cli.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    files = [write_config(tmp_path, ECHO)] if command == "serve" else []
    ran = narrows(command, *files)
    assert ran == (2, "", f"narrows: `narrows {command}` needs an extra: pip install 'narrows[server]'\n")


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_without_the_extra_the_command_says_which(module: str) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv = ['narrows']; from narrows.__main__ import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert ran.returncode == 2
    assert ran.stderr == "narrows: the command line needs an extra: pip install 'narrows[cli]'\n"


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_a_key_never_appears_in_any_output(tmp_path: Path, more: list[str]) -> None:
    good = write_config(tmp_path, ECHO + KEYS)
    bad = write_config(tmp_path, ECHO + f'[keys.ci]\nsha256 = "{KEY}"\n[providers.x]\napi_key = "{KEY}"\n', "bad.toml")
    explain = ("explain", good, "--route", "chat")
    for arguments in (
        ("check", good),
        ("check", bad),
        ("plugins", good),
        ("plugins", bad),
        ("explain", bad, "--route", "chat"),
        (*explain, "--key", "ci"),
        (*explain, "--key", KEY),
        (*explain, "--header", f"authorization=Bearer {KEY}"),
        (*explain, "--header", f"authorization: Bearer {KEY}"),
        (*explain, "--header", f"X-Api-Key={KEY}"),
        (*explain, "--header", KEY),
        (*explain, "--body", KEY),
        (*explain, "--header", f"x-region={KEY}"),
        ("explain", good, "--route", KEY),
    ):
        ran = narrows(*arguments, *more)
        assert ran.code in (0, 1, 2)
        assert KEY not in ran.stdout + ran.stderr, arguments
