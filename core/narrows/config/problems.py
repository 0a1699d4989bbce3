"""pydantic's errors as problems: path, line, plain words, did you mean. And the repair that lets checking go on.

A misspelt key hides others: without `kind` no option of a block can be checked. So each unknown key is reported and then
read as the one it is nearest to, and the table is checked again, until only errors of values are left. No text repeats
a value that may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from narrows.config.fields import known_keys
from narrows.config.places import Path
from narrows.config.secrecy import HIDDEN, is_secret, shown
from narrows.config.tree import Report, dotted
from narrows.config.unbuilt import planned_keys
from narrows.config.words import listed, nearest

M = TypeVar("M", bound=BaseModel)
More: TypeAlias = Callable[[Path], Collection[str]]
UNKNOWN: Final = ("extra_forbidden", "unknown_key")

_TEXT = ("must be text, in quotes", 'Write it in quotes: "…".')
_LIST = ("must be a list", 'Write a list: ["…", "…"].')
_TABLE = ("must be a table", "Write a table: [name] and its keys below, or { key = value }.")
_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "string_type": _TEXT,
    "string_sub_type": _TEXT,
    "int_type": ("must be a whole number", "Write it without quotes and without a fraction."),
    "int_from_float": ("must be a whole number", "Write it without a fraction."),
    "float_type": ("must be a number", "Write it without quotes."),
    "bool_type": ("must be true or false", "Write true or false, without quotes."),
    "tuple_type": _LIST,
    "list_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "dict_type": _TABLE,
    "mapping_type": _TABLE,
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
    "finite_number": ("must be a finite number", "Write a number, or leave the key out."),
}
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("gt", "must be greater than {}"),
    "greater_than_equal": ("ge", "must be {} or more"),
    "less_than": ("lt", "must be less than {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "multiple_of": ("multiple_of", "must be a multiple of {}"),
    "string_too_short": ("min_length", "must have at least {} character(s)"),
    "string_too_long": ("max_length", "must have at most {} characters"),
    "too_short": ("min_length", "must have at least {} element(s)"),
    "too_long": ("max_length", "must have at most {} elements"),
}
_WORDS = re.compile(r"'([^']*)'")
_LONGEST_TEXT = 300


def validated(model: type[M], data: dict[str, Any], base: Path, report: Report, more: More) -> M | None:
    """The data as an instance of the model, or None after reporting everything that is wrong with it.

    `base`: the path of `data`. `more`: keys that a table may have beside the model's; such a table goes to `aside`.
    `data` is repaired in place.
    """
    while True:
        try:
            return model.model_validate_json(json.dumps(data))
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
        # Each once (every member of a union reports it), with its place before any repair moves things.
        unknown = {_real(one, data): one for one in found if one["type"] in UNKNOWN}
        repaired = [_repair(model, path, one, data, base, report, more) for path, one in unknown.items()]
        if not any(repaired):
            _report_values(found, data, base, report)
            return None


def missing(report: Report, path: Path) -> None:
    """Report a key that must be there."""
    *outer, key = path
    table = dotted(tuple(outer))
    where = f"[{table}]" if table else "the file"
    report.add("missing_key", path, f"{key!r} is missing", remedy=f"Add {key} = … to {where}.")


def unknown_key(
    report: Report, path: Path, known: Iterable[str], suggestion: str | None, what: str = "is no key here"
) -> None:
    """Report a key that is not known."""
    known = tuple(known)
    remedy = "Correct the name, or take it out." if suggestion else f"Take it out; known here: {listed(known)}."
    report.add("unknown_key", path, f"{path[-1]!r} {what}", suggestion=suggestion, remedy=remedy)


def bad_value(report: Report, path: Path, message: str, remedy: str, suggestion: str | None = None) -> None:
    """Report a value of the wrong type, or one that is not possible there."""
    report.add("wrong_type", path, message, remedy=remedy, suggestion=suggestion)


# ---- unknown keys ------------------------------------------------------------------------------------------------


def _repair(
    model: type[BaseModel],
    path: Path,
    error: ErrorDetails,
    data: dict[str, Any],
    base: Path,
    report: Report,
    more: More,
) -> bool:
    """Take the key out, or give it the name it was meant to have. False where no such key is found."""
    *outer, key = path or ("",)
    table = _at(data, tuple(outer))
    if not isinstance(table, dict) or key not in table or key not in error["loc"][-2:]:
        return False
    here = (*base, *outer)
    aside = (*more(here), *planned_keys(here))
    if key in aside:
        report.tree.aside[(*here, key)] = table.pop(key)
        return True
    known = (*error.get("ctx", {}).get("known", known_keys(model, tuple(outer))), *aside)
    suggestion = nearest(str(key), known, table)
    unknown_key(report, (*here, key), known, suggestion)
    value = table.pop(key)
    if suggestion is not None:
        _rename((*here, key), suggestion, value, report.tree.aside if suggestion in aside else table, report)
    return True


def _rename(path: Path, name: str, value: Any, into: dict[Any, Any], report: Report) -> None:
    """Go on as if it had been spelt so. Where the right one stands too, a table's keys are read with it."""
    *outer, _ = path
    meant, written = (*outer, name), report.tree.written(path)
    key = meant if into is report.tree.aside else name
    if key not in into:
        report.tree.spelt[meant] = written
        into[key] = value
    elif isinstance(into[key], dict) and isinstance(value, dict):
        for inner in [inner for inner in value if inner not in into[key]]:
            report.tree.spelt[(*meant, inner)] = (*written, inner)
            into[key][inner] = value[inner]


# ---- values ------------------------------------------------------------------------------------------------------


def _report_values(found: list[ErrorDetails], data: dict[str, Any], base: Path, report: Report) -> None:
    """One problem for each path: the members of a union say together what is expected."""
    grouped: dict[Path, list[ErrorDetails]] = {}
    for error in found:
        grouped.setdefault(_real(error, data), []).append(error)
    for path, errors in grouped.items():
        deeper = any(other[: len(path)] == path and len(other) > len(path) for other in grouped)
        if deeper and all(_real(error, data) != error["loc"] for error in errors):
            continue  # one member of a union fits but for an element, which has a problem of its own
        if errors[0]["type"] == "missing":
            missing(report, (*base, *path))
        else:
            _report_value(errors, _at(data, path), (*base, *path), report)


def _report_value(errors: list[ErrorDetails], value: object, path: Path, report: Report) -> None:
    expected, remedy, suggestion = [], "", None
    for error in errors:
        text, how = _expected(error)
        text = _without(text, value)
        remedy = remedy or how
        if text not in expected:
            expected.append(text)
        if error["type"] in ("literal_error", "enum") and isinstance(value, str):
            suggestion = suggestion or nearest(value, _WORDS.findall(str(error.get("ctx", {}).get("expected"))))
    given = f", not {_kind(value)}" if errors[0]["type"] in _TYPES else ""
    if errors[0]["type"] in ("literal_error", "enum", *_LIMITS) and (short := shown(value)) is not None:
        given = f", not {short}"
    said = " or ".join(text.removeprefix("must be ") if place else text for place, text in enumerate(expected))
    colon = " " if said.startswith(("is ", "has ", "holds ", "must ", "should ")) else ": "
    name = f"{path[-1]!r}" if isinstance(path[-1], str) else f"element {path[-1]} of {path[-2]!r}"
    bad_value(report, path, f"{name}{colon}{said}{given}", remedy or "Correct the value.", suggestion)


def _expected(error: ErrorDetails) -> tuple[str, str]:
    """What one error expects, and how that is written."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _LIMITS:
        key, text = _LIMITS[kind]
        limit = context.get(key)
        return text.format(f"{limit:g}" if isinstance(limit, float) else limit), ""
    if kind in ("literal_error", "enum"):
        return f"must be {context.get('expected')}", "Write one of these."
    if kind in ("value_error", "assertion_error"):
        return str(context.get("error")), ""
    return error["msg"].replace("Input should", "should", 1), ""


def _real(error: ErrorDetails, data: object) -> Path:
    """The error's place as a path of the data: pydantic names union members and keys in between."""
    path: list[str | int] = []
    for part in error["loc"]:
        inner = _at(data, (part,))
        if inner is not None:
            data = inner
            path.append(part)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    return tuple(path)


def _at(data: Any, path: Sequence[Any]) -> Any:
    """What stands at a path, or None. (TOML has no null.)"""
    for part in path:
        try:
            data = data[part] if isinstance(data, dict | list) else None
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a table"
    return "nothing"


def _without(text: str, value: object) -> str:
    """A text that a validator wrote, without what it may repeat of the value."""
    for word in _strings(value):
        if len(word) > 3 and word in text and shown(word) is None:
            text = text.replace(word, HIDDEN)
    return HIDDEN if is_secret(text) else text[:_LONGEST_TEXT]


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
