"""Which keys a pydantic model knows, at any depth: what a misspelt key may have meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel

from narrows.config.places import Path


def known_keys(model: type[BaseModel], path: Path) -> tuple[str, ...]:
    """The keys of the table that stands at this path below the model's own table, by their names in the file."""
    annotations: list[Any] = [model]
    for part in path:
        annotations = [inner for one in annotations for inner in _inside(one, part)]
    return tuple(dict.fromkeys(name for one in annotations if _is_model(one) for name in _names(one)))


def _inside(annotation: Any, part: str | int) -> Iterator[Any]:
    """What may stand below one part of a path."""
    if _is_model(annotation):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias, *_choices(field.validation_alias)):
                yield from _alternatives(field.annotation)
        return
    arguments = get_args(annotation)
    if not arguments:
        return
    is_mapping = isinstance(get_origin(annotation), type) and issubclass(get_origin(annotation) or object, Mapping)
    yield from _alternatives(arguments[-1] if is_mapping else arguments[0])


def _alternatives(annotation: Any) -> Iterator[Any]:
    """An annotation without `Annotated`, each member of a union by itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for one in get_args(annotation):
            yield from _alternatives(one)
    else:
        yield annotation


def _names(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        aliases = (field.alias, *_choices(field.validation_alias))
        written = [alias for alias in aliases if alias is not None]
        yield from written or [name]


def _choices(alias: object) -> tuple[str, ...]:
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return tuple(choice for choice in choices if isinstance(choice, str))


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
