"""Spans, attributes and stages, from the module that holds all their names, with the text below each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from inspect import getsource

from narrows.config.documented import texts_below
from narrows.telemetry import names
from tools.reference.text import needed, table

UNDESCRIBED = frozenset({names.TRACER, names.CHAT})
"""The tracer's own name, and the first word of a span's name: said in the prose of the page."""


def spans() -> str:
    """Every span, with what may be on it."""
    rows = [
        (
            f"`{span.name}`",
            needed(f"span {span.name}", span.meaning, "its meaning in narrows.telemetry.names"),
            span.kind,
            ", ".join(f"`{word}`" for word in span.detail),
            span.below,
            ", ".join(f"`{name}`" for name in (*span.attributes, *span.events)),
        )
        for span in names.SPANS
    ]
    return table(("span", "what it covers", "kind", "at `detail`", "below", "attributes and events"), rows)


def attributes() -> str:
    """Every attribute and event, in the order of the module."""
    rows = [(f"`{name}`", meaning) for name, meaning in constants(getsource(names)) if "." in name]
    return table(("name", "meaning"), rows)


def stages() -> str:
    """Every stage that has a span of its own."""
    rows = [(f"`{name}`", meaning) for name, meaning in constants(getsource(names)) if "." not in name]
    return table(("stage", "meaning"), rows)


def constants(source: str) -> Iterator[tuple[str, str]]:
    """The value of each text constant with the text below it. Raises Undocumented."""
    for constant, value, text in texts_below(ast.parse(source).body):
        match value:
            case ast.Constant(value=str(name)) if name not in UNDESCRIBED:
                yield name, needed(f"span name {name}", text, f"a text below {constant} in narrows.telemetry.names")
