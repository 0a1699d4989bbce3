"""How things of the code read on a page: tables, types and defaults as they are written in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

WORDS: Mapping[object, str] = {
    str: "string",
    bool: "true or false",
    int: "integer",
    float: "number",
    Any: "anything",
    object: "anything",
}


class Undocumented(Exception):
    """Something that people may meet has no description in the code. The message says which, and where to write it."""


def needed(what: str, text: str | None, where: str) -> str:
    """The description, on one line. Raises Undocumented where there is none."""
    if not text or not text.strip():
        raise Undocumented(f"{what} has no description; write {where}")
    return " ".join(text.split())


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of a page."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def anchor(title: str) -> str:
    """What a link to that heading says behind `#`."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def written(annotation: Any) -> str:
    """A type, as whoever writes the file thinks of it: "list of strings", `"a"` or `"b"`."""
    words = list(dict.fromkeys(_words(annotation)))
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "anything"


def default(field: FieldInfo) -> str:
    """A default, as it would be written in the file."""
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True)
    if value is None or (isinstance(value, Mapping | tuple | list | frozenset) and not value):
        return "none"
    if isinstance(value, BaseModel):
        return "none"
    return f"`{_toml(value)}`"


def _toml(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Enum):
        return json.dumps(value.value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def _words(annotation: Any) -> Iterable[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _words(arguments[0])
    elif origin in (Union, UnionType):
        for one in arguments:
            yield from _words(one)
    elif origin is Literal:
        yield from (f"`{_toml(value)}`" for value in arguments)
    elif origin in (tuple, list, frozenset, set):
        yield f"list of {_several(arguments[0])}"
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield f"table: string → {written(arguments[1])}"
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (f"`{_toml(member)}`" for member in annotation)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "table"
    elif isinstance(annotation, type) and issubclass(annotation, str):
        yield "string"
    elif annotation is not NoneType:
        yield WORDS.get(annotation, "anything")


def _several(annotation: Any) -> str:
    one = written(annotation)
    return f"{one}s" if one in ("string", "integer", "number") else one
