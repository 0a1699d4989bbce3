"""The public names of the packages that plugins and hosts import, with the first sentence of each."""

from __future__ import annotations

import inspect
from types import ModuleType

import narrows
import narrows.testing
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
        doc = inspect.getdoc(thing) if callable(thing) else None
        if doc is None:
            rows.append((f"`{name}`", f"A type: `{str(thing).replace('typing.', '')}`."))
            continue
        first = needed(f"{module.__name__}.{name}", doc, "a docstring").split(". ")[0]
        rows.append((f"`{name}`", first.rstrip(".:") + "."))
    return table(("name", "what it is"), rows)
