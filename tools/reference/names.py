"""The public names of the packages that plugins and hosts import, with the first sentence of each."""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType

import narrows
import narrows.testing
from narrows.config.documented import texts_below
from tools.reference.text import needed, table


def names() -> str:
    """The names of `narrows`."""
    return _names(narrows)


def testing_names() -> str:
    """The names of `narrows.testing`."""
    return _names(narrows.testing)


def _names(module: ModuleType) -> str:
    rows = []
    for name in sorted(module.__all__, key=str.lower):
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            doc, where = inspect.getdoc(thing), f"a docstring in {thing.__module__}.{name}"
        else:  # a type that is a name for another: described below its definition
            home = _home(module, name)
            doc, where = _text(home, name), f"a text below {name} in {home.__name__}"
        first = " ".join(needed(f"{module.__name__}.{name}", doc, where).split()).split(". ")[0]
        rows.append((f"`{name}`", first.rstrip(".:") + "."))
    return table(("name", "what it is"), rows)


def _text(home: ModuleType, name: str) -> str | None:
    body = ast.parse(inspect.getsource(home)).body
    return next((text for named, _, text in texts_below(body) if named == name), None)


def _home(module: ModuleType, name: str) -> ModuleType:
    """The module that a package imports a name from."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return sys.modules[node.module]
    return module
