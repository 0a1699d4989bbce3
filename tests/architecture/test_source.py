"""Rules about our own source that no linter comment can switch off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def modules(*folders: str) -> list[tuple[str, ast.Module]]:
    """Every module below these folders: its path in the repository, and its tree."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return [(file.relative_to(ROOT).as_posix(), ast.parse(file.read_text("utf-8"))) for file in files]


def asserts(tree: ast.AST) -> Iterator[int]:
    """The lines of `assert` statements."""
    return (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert))


def prints(tree: ast.AST) -> Iterator[int]:
    """The lines that call print()."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print")


def inner_imports(tree: ast.AST) -> Iterator[int]:
    """The lines that import a module inside `narrows`, annotations' imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
        else:
            continue
        if any(name.startswith("narrows.") for name in found):
            yield node.lineno


def test_no_guard_is_an_assert() -> None:
    found = [f"{path}:{line}" for path, tree in modules("core", "plugins") for line in asserts(tree)]
    assert found == [], "python -O drops these; write `if …: raise`"


def test_only_the_command_line_prints() -> None:
    rest = [(path, tree) for path, tree in modules("core", "plugins") if not path.startswith("core/narrows/cli/")]
    found = [f"{path}:{line}" for path, tree in rest for line in prints(tree)]
    assert found == [], "return data, or log; printing is for core/narrows/cli"


def test_plugins_import_public_names_even_for_annotations() -> None:
    found = [f"{path}:{line}" for path, tree in modules("plugins") for line in inner_imports(tree)]
    assert found == [], "import from `narrows`; a third party has nothing else"


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (asserts, "def f(x):\n    assert x"),
        (prints, "if True:\n    print('x')"),
        (inner_imports, "if TYPE_CHECKING:\n    from narrows.types import Target"),
        (inner_imports, "import os\nimport narrows.types"),
    ],
    ids=["assert", "print", "from import", "import"],
)
def test_the_rules_above_bite(rule: object, source: str) -> None:
    assert callable(rule)
    assert list(rule(ast.parse(source))) == [2]
    assert list(rule(ast.parse("from narrows import Target\nlogger.info('x')"))) == []
