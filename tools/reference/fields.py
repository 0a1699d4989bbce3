"""The options of a kind, or the keys of a table: name, type, default, and what the code says of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel

from narrows.config.documented import described
from tools.reference.text import default, needed, table, written

HEADER = ("key", "type", "default", "meaning")


def rows(model: type[BaseModel], names: Iterable[str] | None = None) -> Iterator[tuple[str, str, str, str]]:
    """A row for each field, or for those that are named. Raises Undocumented."""
    texts = described(model)
    wanted = None if names is None else set(names)
    for name, field in model.model_fields.items():
        if wanted is None or name in wanted:
            where = f"a docstring below `{name}` in {model.__module__}.{model.__name__}"
            meaning = needed(f"{model.__name__}.{name}", texts.get(name), where)
            yield f"`{field.alias or name}`", written(field.annotation), default(field), meaning


def fields_table(model: type[BaseModel], names: Iterable[str] | None = None) -> str:
    """The rows as a table; the empty text where there is none."""
    found = list(rows(model, names))
    return table(HEADER, found) if found else ""
