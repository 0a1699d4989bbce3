"""Configurations for tests: written as TOML, because that is what users write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

Table = Mapping[str, object]


def toml(document: Table) -> str:
    """The document as TOML: strings, numbers, booleans, lists, tables and lists of tables. Raises TypeError for more."""
    return "".join(_lines(document, ()))


def write_config(folder: Path, text: str | Table, name: str = "narrows.toml") -> Path:
    """Write a configuration file (TOML text, or a document) and return its path."""
    path = folder / name
    path.write_text(text if isinstance(text, str) else toml(text), encoding="utf-8")
    return path


def basic_config(
    providers: Mapping[str, str], *, route: str = "chat", labels: Mapping[str, Table] | None = None, more: str = ""
) -> str:
    """One route over one target per provider, in their order.

    `providers`: name -> base URL. The provider, its target and its upstream model all have that name. `labels`: name ->
    further keys of that target (`{"us": {"region": "us"}}`). `more`: TOML text put behind it.
    """
    document = {
        "providers": {name: {"kind": "openai_compatible", "base_url": url} for name, url in providers.items()},
        "targets": {name: {"provider": name, "model": name, **(labels or {}).get(name, {})} for name in providers},
        "routes": {route: {"targets": list(providers)}},
    }
    return toml(document) + more


def _lines(table: Table, path: tuple[str, ...]) -> list[str]:
    """A table's own values first, then the tables inside it: TOML's order."""
    lines = [f"{_key(name)} = {_value(value)}\n" for name, value in table.items() if not _is_table(value)]
    for name, value in table.items():
        inner = (*path, _key(name))
        if isinstance(value, Mapping):
            lines += [f"\n[{'.'.join(inner)}]\n", *_lines(value, inner)]
        elif isinstance(value, Sequence) and _is_table(value):
            for row in value:
                lines += [f"\n[[{'.'.join(inner)}]]\n", *_lines(row, inner)]
    return lines


def _is_table(value: object) -> bool:
    """Whether it needs a header of its own: a table, or a list of tables."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{ {', '.join(f'{_key(name)} = {_value(inner)}' for name, inner in value.items())} }}"
    raise TypeError(f"no TOML for {type(value).__name__}: {value!r}")


def _key(name: str) -> str:
    bare = name.replace("-", "").replace("_", "")
    return name if bare.isascii() and bare.isalnum() else _string(name)


def _string(text: str) -> str:
    """JSON's escapes are TOML's, but for DEL and for surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
