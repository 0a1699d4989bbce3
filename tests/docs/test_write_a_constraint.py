"""docs/how-to/write-a-constraint.md, done as it says: the files of the page make a distribution whose tests pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from narrows import ConfigError
from narrows.cli.app import app
from tests.docs.pages import CONSTRAINT, Block, page

CLASS, TESTS, HOST, HOST_TESTS = page(CONSTRAINT).of("python")
PYPROJECT, FILE = page(CONSTRAINT).of("toml")
PACKAGE = "narrows_team_hours"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files where the page puts them, in the working directory; the package can be imported."""
    write(tmp_path / "src" / PACKAGE / "__init__.py", CLASS)
    write(tmp_path / "tests" / "test_team_hours.py", TESTS)
    write(tmp_path / "pyproject.toml", PYPROJECT)
    write(tmp_path / "narrows.toml", FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "src")
    yield tmp_path
    sys.modules.pop(PACKAGE, None)


def write(path: Path, block: Block) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.source, "utf-8")


def install(folder: Path) -> None:
    """What `pip install -e .` would do, without pip: the metadata beside the package."""
    project = tomllib.loads(PYPROJECT.source)["project"]
    metadata = folder / "src" / f"{PACKAGE}-{project['version']}.dist-info"
    metadata.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(head, "utf-8")
    points = "".join(f"{name} = {where}\n" for name, where in project["entry-points"]["narrows"].items())
    (metadata / "entry_points.txt").write_text(f"[narrows]\n{points}", "utf-8")


def narrows(*arguments: str) -> tuple[int, Any]:
    """The exit code of a command, and the document that it prints."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    return result.exit_code, json.loads(result.stdout)


def names(block: Block) -> dict[str, Any]:
    """What a block of the page defines."""
    found: dict[str, Any] = {}
    exec(compile(block.source, str(block), "exec"), found)  # noqa: S102 - our own page
    return found


def test_the_distributions_own_tests_pass(folder: Path) -> None:
    install(folder)
    paths = [str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout


def test_an_installed_kind_is_available_until_a_block_names_it(folder: Path) -> None:
    def status(*files: str) -> list[tuple[str, str]]:
        code, rows = narrows("plugins", *files)
        assert code == 0
        return [(row["distribution"], row["status"]) for row in rows if row["kind"] == "constraints.team_hours"]

    assert status() == []
    install(folder)
    assert status() == [("narrows-team-hours", "available")]
    assert status("narrows.toml") == [("narrows-team-hours", "active")]


@pytest.mark.parametrize(
    ("said", "code"),
    [("emea", "ok"), ("emea, apac", "no_eligible_target"), ("emae", "attribute_unknown"), (None, "attribute_missing")],
)
def test_the_table_of_requests_is_true(folder: Path, said: str | None, code: str) -> None:
    install(folder)
    header = () if said is None else ("--header", f"x-on-duty={said}")
    exit_code, found = narrows("explain", "narrows.toml", "--route", "support", *header)
    assert (exit_code, found["code"]) == (code != "ok", code)
    if code == "ok":
        assert found["order"] == ["hamburg"]
        assert found["targets"][1]["exclusions"] == [
            {"constraint": "duty", "code": "team_hours.off_duty", "why": "team is not emea"}
        ]


def test_a_host_passes_the_kind_or_installs_it(folder: Path) -> None:
    code, told = narrows("check", "narrows.toml")
    assert (code, [problem["code"] for problem in told["problems"]]) == (2, ["unknown_kind"])
    names(HOST)
    test: Callable[[], None] = names(HOST_TESTS)["test_the_file_loads_and_the_rule_removes"]
    test()
    install(folder)
    assert narrows("check", "narrows.toml")[0] == 0
    with pytest.raises(ConfigError, match="duplicate_kind"):
        names(HOST)
