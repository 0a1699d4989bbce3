"""`narrows completion`: bash really sources the script and asks; zsh's and fish's questions are answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from narrows.cli import completion
from narrows.cli.app import app
from tests.core.cli.commands import ECHO, KEYS, narrows
from tests.support.config import write_config

BIN = Path(sys.executable).parent
BASH = shutil.which("bash")
ASK = """
source <(narrows completion bash)
complete -p narrows >&2
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    COMPREPLY=()
    _narrows_completion narrows
    echo "${COMPREPLY[*]}"
done
"""
"""Completes each line of stdin as bash would at its end."""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with a configuration, one that is broken, and one whose names a shell would run."""
    write_config(tmp_path, ECHO + KEYS)
    write_config(tmp_path, "routes = [", "broken.toml")
    write_config(tmp_path, '[routes."$(touch ran)"]\n[routes."a b"]\n[routes.plain]\n', "hostile.toml")
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


@pytest.mark.skipif(BASH is None or not (BIN / "narrows").exists(), reason="needs bash and the installed command")
def test_bash_sources_it_and_completes(here: Path) -> None:
    lines = {
        "narrows che": {"check"},
        "narrows explain hostile.toml --route ": {"plain"},
        "narrows check nar": set(),  # then bash's own: files
    }
    ran = subprocess.run(
        [str(BASH), "--norc", "-c", ASK],
        input="".join(f"{line}\n" for line in lines), env=environment(), cwd=here,
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert ran.stderr == "complete -o default -F _narrows_completion narrows\n"
    found = [set(line.split()) for line in ran.stdout.splitlines()]
    assert dict(zip(lines, found, strict=True)) == lines
    assert not (here / "ran").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("narrows ", {*typer.main.get_command(app).commands}),  # type: ignore[attr-defined]  # it is a group
        ("narrows check --j", {"--json"}),
        ("narrows explain narrows.toml --route ", {"chat", "us-only"}),
        ("narrows explain narrows.toml --route u", {"us-only"}),
        ("narrows explain narrows.toml --key ", {"ci", "ops"}),
        ("narrows explain narrows.toml --header x-", {"x-region="}),
        ("narrows explain broken.toml --route ", set()),
        ("narrows completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_every_place_of_the_line(line: str, words: set[str], here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    asks = {"_NARROWS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    for name, value in asks.items():
        monkeypatch.setenv(name, value)
    completion.prepare()
    assert set(narrows(env=asks).stdout.split()) == words


@pytest.mark.parametrize(
    ("shell", "more", "answer"),
    [
        ("zsh", {}, """_arguments '*: :(("chat"\n"us-only"))'\n"""),
        ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "chat\nus-only\n"),
    ],
)
def test_what_other_shells_ask_is_answered(shell: str, more: dict[str, str], answer: str, here: Path) -> None:
    line = {"_TYPER_COMPLETE_ARGS": "narrows explain narrows.toml --route ", "_NARROWS_COMPLETE": f"complete_{shell}"}
    ran = subprocess.run(
        [sys.executable, "-m", "narrows"], env=environment(**line, **more), cwd=here,
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == (answer, "")


@pytest.mark.parametrize("shell", completion.Shell)
def test_each_script_asks_this_command(shell: completion.Shell) -> None:
    ran = narrows("completion", shell)
    assert (ran.code, ran.stderr) == (0, "")
    assert f"{completion.VARIABLE}=complete_{shell}" in ran.stdout
    program = shutil.which(shell)
    if program is not None:
        assert subprocess.run([program, "-n", "-c", ran.stdout], check=False).returncode == 0


def test_without_being_asked_nothing_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(completion.VARIABLE, raising=False)
    monkeypatch.delitem(sys.modules, "typer.completion", raising=False)
    completion.prepare()
    assert "typer.completion" not in sys.modules


def test_a_line_that_is_not_finished_or_names_no_file(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setenv("COMP_WORDS", f"narrows explain '{here}/narrows.toml")
    assert completion.routes("") == []
    monkeypatch.setenv("COMP_WORDS", f"narrows explain {here} ~nobody/x {here}/narrows.toml {here}/broken.toml --route")
    assert completion.routes("") == ["chat", "us-only"]
