"""The JSON Schema (2020-12) of the configuration, with the options of every kind that is installed.

For editors: it completes keys and words, says what they mean, and marks what `check` would refuse by its shape. It never
refuses what `check` accepts; `check` knows more (references, contradictions, prices, variables). What is not built yet is
left out, by the same table (`unbuilt`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from narrows.config.blocks import ORDERED, OWN
from narrows.config.documented import described, help_of
from narrows.config.tables import Document
from narrows.config.unbuilt import TABLE
from narrows.errors import ConfigError, Problem
from narrows.registry import Kind, Registry

Schema: TypeAlias = dict[str, Any]
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
BLOCKS: Final = ("constraints", "providers", "authenticators", "plugins", "sinks")
"""The tables whose named blocks say their `kind`."""

_NULL: Final = {"type": "null"}


def schema_of(registry: Registry, problems: list[Problem]) -> Schema:
    """The schema of one file. A kind that cannot be loaded is added to `problems`, and its options stay open."""
    document = _model(Document, "")
    defs: Schema = {}
    for group in BLOCKS:
        kinds = [kind for kind in registry.of(group) if kind.name not in OWN]
        alternatives = [_block(kind, defs, problems) for kind in kinds]
        document["properties"][group] = _group(group, alternatives)
    _rankers(registry, document["$defs"]["RouteTable"], defs, problems)
    tables = document.pop("$defs")
    for name, model in _tables():
        tables[name]["description"] = help_of(model)
    for group, value in document["properties"].items():
        if group not in BLOCKS:
            value["description"] = _told(group, value, tables)
    for group, value in document["properties"].items():
        _leave_out_unbuilt(group, value, {**tables, **defs})
    return {
        "$schema": DIALECT,
        "title": "Narrows",
        "description": "One file of a configuration of Narrows; several are read together.",
        "type": "object",
        "properties": document["properties"],
        "additionalProperties": False,
        "$defs": dict(sorted({**tables, **defs}.items())),
    }


def _told(group: str, value: Schema, tables: Schema) -> str:
    """What a table of the file is, from its class or from that of the tables it names."""
    named = value.get("additionalProperties", value)
    text: str = tables[named["$ref"].rpartition("/")[2]]["description"]
    return f"[{group}.NAME]: {text}" if named is not value else f"[{group}]: {text}"


def _model(model: type[BaseModel], prefix: str) -> Schema:
    """A class's schema without nulls, which TOML has none of, and with the texts below its fields."""
    found = model.model_json_schema(mode="validation", ref_template=f"#/$defs/{prefix}{{model}}")
    found = _plain(found)
    known: dict[str, type[BaseModel]] = {"": model, **dict(_tables())} if model is Document else {"": model}
    for name, cls in known.items():
        table = found["$defs"][name] if name else found
        for field, text in described(cls).items():
            alias = cls.model_fields[field].alias or field
            if alias in table.get("properties", {}):
                table["properties"][alias] = {**table["properties"][alias], "description": text}
    return found


def _tables() -> Iterator[tuple[str, type[BaseModel]]]:
    from narrows.config import tables

    for name, cls in vars(tables).items():
        if isinstance(cls, type) and issubclass(cls, tables.Table) and cls not in (tables.Table, Document):
            yield name, cls


def _plain(value: Schema) -> Schema:
    """Nobody can write null: `X | None` is X, and a default of None is none. Titles repeat the key: gone too."""
    found: Schema = {}
    for key, inner in value.items():
        if (key == "default" and inner is None) or (key == "title" and isinstance(inner, str)):
            continue
        if isinstance(inner, dict):
            inner = _plain(inner)
        elif isinstance(inner, list):
            inner = [_plain(one) if isinstance(one, dict) else one for one in inner if one != _NULL]
        found[key] = inner
    alternatives = found.get("anyOf")
    if isinstance(alternatives, list) and len(alternatives) == 1:
        del found["anyOf"]
        found = {**alternatives[0], **found}
    return found


# ---- blocks ------------------------------------------------------------------------------------------------------


def _group(group: str, alternatives: list[Schema]) -> Schema:
    text = f"[{group}.NAME]: a block that says its kind."
    if not alternatives:
        return {"type": "object", "maxProperties": 0, "description": f"{text} None is installed."}
    return {"type": "object", "additionalProperties": {"oneOf": alternatives}, "description": text}


def _block(kind: Kind, defs: Schema, problems: list[Problem]) -> Schema:
    options = _options(kind, defs, problems)
    text = options.get("description", "")
    options["properties"] = {"kind": {"const": kind.short, "description": text}, **options.get("properties", {})}
    options["required"] = ["kind", *options.get("required", ())]
    return {"$ref": f"#/$defs/{kind.name}"}


def _rankers(registry: Registry, route: Schema, defs: Schema, problems: list[Problem]) -> None:
    """A route names its ranker, and a table of that name holds its options."""
    kinds = registry.of("rankers")
    words = [{"const": kind.short, "description": _options(kind, defs, problems)["description"]} for kind in kinds]
    properties = route["properties"]
    text = properties["algorithm"].get("description", "")
    properties["algorithm"] = {"oneOf": words, "default": ORDERED, "description": text}
    for kind in kinds:
        properties[kind.short] = {"$ref": f"#/$defs/{kind.name}"}


def _options(kind: Kind, defs: Schema, problems: list[Problem]) -> Schema:
    """The options of a kind, put into `defs` under its name."""
    try:
        cls = kind.load()
        found = _model(cls, f"{kind.name}.")
    except ConfigError as error:
        problems += error.problems
        cls, found = None, {"type": "object"}
    except Exception as error:  # noqa: BLE001 - a third party's types may have no schema; they still have options
        text = f"kind {kind.name!r} of distribution {kind.distribution!r} has no JSON Schema: {type(error).__name__}"
        problems.append(
            Problem("bad_plugin", text, remedy="Its options are neither completed nor checked by the schema.")
        )
        cls, found = None, {"type": "object"}
    for name, inner in found.pop("$defs", {}).items():
        defs[f"{kind.name}.{name}"] = inner
    found["description"] = help_of(cls) if cls is not None else ""
    defs[kind.name] = found
    return found


# ---- what is not built yet ----------------------------------------------------------------------------------------


def _leave_out_unbuilt(group: str, value: Schema, defs: Schema) -> None:
    for row in TABLE:
        if row.path[0] != group or row.group or len(row.path) == 1:
            continue
        for table in _reached(value, len(row.path) - 2, defs):
            properties, key = table.get("properties", {}), row.path[-1]
            if key not in properties:
                continue
            if row.planned:
                properties[key] = _narrowed(properties[key], row.planned)
            else:
                del properties[key]


def _reached(value: Schema, depth: int, defs: Schema) -> Iterator[Schema]:
    """The tables below a group: itself, or each alternative of its named ones."""
    if "$ref" in value:
        yield from _reached(defs[value["$ref"].rpartition("/")[2]], depth, defs)
    elif "oneOf" in value:
        for one in value["oneOf"]:
            yield from _reached(one, depth, defs)
    elif depth == 0:
        yield value
    elif isinstance(value.get("additionalProperties"), dict):
        yield from _reached(value["additionalProperties"], depth - 1, defs)


def _narrowed(value: Schema, planned: tuple[str | bool, ...]) -> Schema:
    """Without the words that are not built, also where they stand in a list."""
    found = dict(value)
    words = (True, False) if value.get("type") == "boolean" else value.get("enum")
    if words is not None:
        found["enum"] = [word for word in words if not any(type(word) is type(one) and word == one for one in planned)]
    if "items" in found:
        found["items"] = _narrowed(found["items"], planned)
    return found
