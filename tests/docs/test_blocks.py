"""Every block of code in README.md and docs/: TOML loads as the text around it says, Python compiles, JSON parses.

A block that the text calls a complete file loads as it stands. Any other is a change to the complete file of its page,
or else of the page of the three questions: each table replaces the one of its name.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it comes with uvicorn[standard], without types

import narrows
import narrows.testing
from narrows import Block as Kind
from narrows import ConfigError, Gateway, Problem
from tests.docs.pages import CONSTRAINT, QUESTIONS, Block, every, page

TOML = every("toml")
PYTHON = every("python")
JSON = every("json")
YAML = every("yaml")

_COMPLETE = re.compile(r"complete file|^`narrows\.toml`:$", re.MULTILINE | re.IGNORECASE)
_NOT_BUILT = re.compile(r"not built yet|`not_built_yet`", re.IGNORECASE)
_VARIABLE = re.compile(r'^api_key_env = "(\w+)"', re.MULTILINE)
_HEADER = re.compile(r"^(?=\[)", re.MULTILINE)

CONFIGURATIONS = tuple(block for block in TOML if "[build-system]" not in block.source)


def is_complete(block: Block) -> bool:
    """Does the text call it a complete file?"""
    return _COMPLETE.search(f"{block.heading}\n{block.before}") is not None


def whole(block: Block) -> str:
    """The file that the block is, or that it changes."""
    if is_complete(block):
        return block.source
    here = [one for path in (block.page, QUESTIONS) for one in page(path).of("toml") if is_complete(one)]
    tables = {**tables_of(here[0].source), **tables_of(block.source)}
    return "\n".join(tables.values())


def tables_of(text: str) -> dict[str, str]:
    """Each table of a file, by its header."""
    parts = [part for part in _HEADER.split(text) if part.startswith("[")]
    return {part.partition("\n")[0].partition("#")[0].strip(): part for part in parts}


def kinds_of(path: Path) -> Mapping[str, type[Kind]]:
    """The kinds that a page itself defines, as a host would pass them."""
    if path != CONSTRAINT:
        return {}
    names: dict[str, type[Kind]] = {}
    exec(compile(page(path).of("python")[0].source, str(path), "exec"), names)  # noqa: S102 - our own page
    return {"constraints.team_hours": names["TeamHours"]}


def problems(text: str, kinds: Mapping[str, type[Kind]]) -> tuple[Problem, ...]:
    """What is wrong with a file."""
    try:
        Gateway.from_text(text, kinds=kinds)
    except ConfigError as error:
        return error.problems
    return ()


# ---- TOML --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", TOML, ids=str)
def test_toml_parses(block: Block) -> None:
    assert tomllib.loads(block.source)


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=str)
def test_a_configuration_loads_as_the_text_says(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    text = whole(block)
    for variable in _VARIABLE.findall(text):
        monkeypatch.setenv(variable, "a-key")
    found = problems(text, kinds_of(block.page))
    codes = {problem.code for problem in found}
    assert codes == ({"not_built_yet"} if _NOT_BUILT.search(block.before) else set()), "\n".join(map(str, found))


def test_complete_files_and_changes_are_told_apart() -> None:
    complete = {block.page.name for block in CONFIGURATIONS if is_complete(block)}
    assert {"README.md", "configuration.md", "questions.md", "tutorial.md", "serve.md"} <= complete
    assert complete.isdisjoint({"failover.md", "operate.md"})
    changes = [block for block in CONFIGURATIONS if not is_complete(block)]
    assert len(changes) > 8
    assert any(_NOT_BUILT.search(block.before) for block in changes)


def test_a_change_replaces_the_table_of_its_name() -> None:
    assert tables_of('[a.b] # why\nx = 1\n\n[c]\ny = ["[z]"]\n') == {
        "[a.b]": "[a.b] # why\nx = 1\n\n",
        "[c]": '[c]\ny = ["[z]"]\n',
    }


# ---- Python ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles_and_names_what_exists(block: Block) -> None:
    tree = ast.parse(block.source, filename=str(block))
    compile(tree, str(block), "exec")
    modules = {"narrows": narrows, "narrows.testing": narrows.testing}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            missing = [name.name for name in node.names if name.name not in modules[node.module].__all__]
            assert not missing, f"{block}: {node.module} has no {missing}"


# ---- JSON --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", JSON, ids=str)
def test_json_parses(block: Block) -> None:
    assert json.loads(block.source)


@pytest.mark.parametrize("block", YAML, ids=str)
def test_yaml_parses(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.source), dict)
