"""The files around the source: what is installed, what is tested, what a plugin author finds."""

from __future__ import annotations

import configparser
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ON_ONE_PYTHON

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
ENTRY_POINTS: dict[str, str] = PROJECT["entry-points"]["narrows"]
GROUPS = {"authenticators", "constraints", "plugins", "providers", "rankers", "sinks"}


def names(requirements: list[str]) -> set[str]:
    """The names of some requirements, without extras and versions."""
    return {re.split(r"[^A-Za-z0-9._-]", requirement)[0] for requirement in requirements}


def tox() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", "utf-8")
    return parser


def test_every_extra_that_users_rely_on_exists() -> None:
    assert {"all", "server", "cli", "ledger", "otel", "trio", "fast"} <= set(EXTRAS)


def test_all_is_every_other_extra() -> None:
    (only,) = EXTRAS["all"]
    inside = re.fullmatch(r"narrows\[(.+)\]", only)
    assert inside is not None
    assert set(inside[1].split(",")) == set(EXTRAS) - {"all"}


def test_mounting_needs_no_server_no_terminal_no_database_and_no_vendor() -> None:
    plain = names(PROJECT["dependencies"])
    assert {"starlette", "pluggy", "anyio", "httpx", "pydantic", "msgspec", "prometheus-client"} <= plain
    assert not plain & {"uvicorn", "hypercorn", "trio", "typer", "rich", "sqlalchemy", "openai", "anthropic", "boto3"}


def test_both_packages_are_typed() -> None:
    assert (ROOT / "core/narrows/py.typed").is_file()
    assert (ROOT / "plugins/narrows_plugins/py.typed").is_file()


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_every_built_in_kind_is_where_its_entry_point_says(name: str) -> None:
    module, _, attribute = ENTRY_POINTS[name].partition(":")
    group, _, kind = name.partition(".")
    assert group in GROUPS
    assert re.fullmatch(r"[a-z][a-z0-9_]*", kind)
    assert module.startswith("narrows_plugins.")
    assert isinstance(getattr(importlib.import_module(module), attribute), type)


def test_every_environment_exists_and_runs_by_default() -> None:
    listed = [name.strip() for name in tox()["tox"]["env_list"].split(",")]
    assert sorted(listed) == ["dist", "docs", "licences", "lint", "mutants", "py311", "py312", "py313", "types"]
    assert {"testenv:lint", "testenv:types", "testenv:dist", "testenv:mutants"} <= set(tox().sections())


def test_the_tests_run_against_an_installed_wheel() -> None:
    shared = tox()["testenv"]
    assert shared["package"] == "wheel"
    assert shared["wheel_build_env"] == ".pkg"
    assert "PYTHONPATH" not in shared.get("set_env", "")


def test_every_python_of_the_classifiers_has_an_environment() -> None:
    prefix = "Programming Language :: Python :: 3."
    minors = [c.removeprefix(prefix) for c in PROJECT["classifiers"] if c.startswith(prefix)]
    assert {f"py3{minor}" for minor in minors} == set(re.findall(r"py3\d+", tox()["tox"]["env_list"]))


def test_one_python_asks_everything() -> None:
    assert "-m" not in tox()["testenv:py311"]["commands"].split()[3:]
    assert all((ROOT / "tests" / place).exists() for place in ON_ONE_PYTHON)


@pytest.mark.parametrize("file", ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs/invariants.md"])
def test_a_newcomer_finds(file: str) -> None:
    assert (ROOT / file).read_text("utf-8").strip()


def test_the_licence_is_the_whole_apache_licence() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert PROJECT["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_changelog_knows_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0] == PROJECT["version"]
