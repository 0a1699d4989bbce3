"""The keys of the configuration, from the tables that read it."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from narrows.config.fields import known_keys
from narrows.config.tables import Document, PriceTable
from narrows.config.unbuilt import TABLE
from narrows.registry import BASES
from tools.reference.fields import fields_table
from tools.reference.text import needed, table


def keys() -> str:
    """A table for each group of tables that is not made of kinds, then the keys that are not built yet."""
    parts = [part for group in known_keys(Document, ()) for part in _group(group)]
    return "\n\n".join([*parts, *_price(), _unbuilt()])


def _group(group: str) -> Iterator[str]:
    field = Document.model_fields[group]
    model = _model(field.annotation)
    if model is None:
        if group in BASES:
            yield f"### `[{group}.NAME]`: keys"
            yield "`kind`, and the keys of that kind: see [kinds](kinds.md)."
        return
    named = bool(known_keys(Document, (group, "x")))
    yield f"### `[{group}{'.NAME' if named else ''}]`: keys"
    yield needed(group, model.__doc__, f"a docstring in {model.__qualname__}")
    yield fields_table(model)


def _model(annotation: object) -> type[BaseModel] | None:
    """The table's model; that of the values where the group is a table of tables."""
    arguments = getattr(annotation, "__args__", ())
    inner = arguments[-1] if arguments else annotation
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _price() -> Iterator[str]:
    yield "### `price` of a target: keys"
    yield needed("price", PriceTable.__doc__, "a docstring in PriceTable")
    yield fields_table(PriceTable)


def _unbuilt() -> str:
    rows = []
    for row in TABLE:
        place = ".".join("NAME" if part == "*" else part for part in row.path)
        words = ", ".join(f"`{str(word).lower() if isinstance(word, bool) else word}`" for word in row.planned)
        rows.append((f"`{place}`", words or "the key itself", row.brings))
    return "### Not built yet: keys\n\n" + (table(("key", "words", "comes with"), rows) if rows else "Nothing.")
