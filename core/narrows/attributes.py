"""What a request says of itself: sets of declared values, from every source that speaks.

Every source adds; none takes a value back. E(a) is the union of what all sources say of a. Silence is read as every
declared value (`floor`), as nothing (`unrestricted`, and attributes that nobody declared) or refused (`refuse`).
Source: DESIGN section 4, "Attributes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from narrows.types import Denial, Json

Said: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]
"""Attribute -> source -> values."""

LONGEST_VALUE = 128
"""Characters of a value; one that nobody declared may be any text, and becomes a demand."""

MOST_VALUES = 64
"""Values that one header or one field of metadata may say; each may become a demand."""

CALLER_SOURCES = ("header", "metadata")
"""Sources that the caller controls: what it says there, it must be free or granted to say."""


def folded(key: str) -> str:
    """A metadata key as it is compared: without case, `-` and `_` the same."""
    return key.strip().casefold().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute. `values` None = nobody declared it: any value, from the header of its name only.

    `header`: lower case. `missing`: what silence means.
    """

    name: str
    values: frozenset[str] | None
    header: str
    sources: frozenset[str]
    missing: Literal["floor", "refuse", "unrestricted"] = "floor"

    @property
    def declared(self) -> bool:
        """Does the configuration declare it?"""
        return self.values is not None

    @property
    def metadata_keys(self) -> frozenset[str]:
        """The folded keys of the body's metadata that mean it."""
        return frozenset({folded(self.name), folded(self.header)})


class Reader:
    """Reads the attributes of one configuration. Built once, used for every request."""

    def __init__(self, attributes: Iterable[Attribute]) -> None:
        self.attributes = {attribute.name: attribute for attribute in attributes}
        self._headers: dict[str, list[Attribute]] = {}
        self._metadata: dict[str, list[Attribute]] = {}
        for attribute in self.attributes.values():
            if "header" in attribute.sources:
                self._headers.setdefault(attribute.header, []).append(attribute)
            if "metadata" in attribute.sources:
                for key in attribute.metadata_keys:
                    self._metadata.setdefault(key, []).append(attribute)
        self._floors = tuple(a for a in self.attributes.values() if a.declared and a.missing == "floor")

    def read(
        self,
        headers: Sequence[tuple[str, str]],
        metadata: Mapping[str, Json] | None,
        bound: Mapping[str, Mapping[str, frozenset[str]]],
    ) -> Said | Denial:
        """What every source says. `headers`: lower-case names, outer ones included. `bound`: attribute -> source ->
        values of the caller's key and tenant. A `Denial` (`attribute_unknown`) names the header or field."""
        said: dict[str, dict[str, frozenset[str]]] = {name: dict(sources) for name, sources in bound.items()}
        for header, value in headers:
            for attribute in self._headers.get(header, ()):
                parts = [part.strip().casefold() for part in value.split(",")]
                refused = _add(said, attribute, "header", parts, header)
                if refused is not None:
                    return refused
        if metadata and self._metadata:
            for key, given in metadata.items():
                for attribute in self._metadata.get(folded(key), ()):
                    values = _listed(given)
                    if values is None:
                        return Denial("attribute_unknown",
                                      f"metadata.{key[:64]} must be a string or a list of strings", f"metadata.{key[:64]}")  # fmt: skip
                    refused = (
                        _add(said, attribute, "metadata", values, f"metadata.{key[:64]}") if given is not None else None
                    )
                    if refused is not None:
                        return refused
        return said

    def assumed(self, said: Said) -> dict[str, frozenset[str]]:
        """The attributes on which the request is silent and silence means every value."""
        return {a.name: a.values for a in self._floors if a.name not in said and a.values is not None}


def effective(said: Said) -> dict[str, frozenset[str]]:
    """E: the union of all sources, by attribute."""
    return {name: frozenset[str]().union(*sources.values()) for name, sources in said.items()}


def _listed(given: Json) -> list[str] | None:
    if given is None:
        return []
    values = [given] if isinstance(given, str) else given
    if not isinstance(values, list) or not values:
        return None
    listed = [value.strip().casefold() for value in values if isinstance(value, str)]
    return listed if len(listed) == len(values) else None


def _add(
    said: dict[str, dict[str, frozenset[str]]], attribute: Attribute, source: str, values: list[str], place: str
) -> Denial | None:
    if len(values) > MOST_VALUES:
        return Denial("attribute_unknown", f"{place} says over {MOST_VALUES} values", place)
    for value in values:
        if not value:
            return Denial("attribute_unknown", f"{place} has an empty value; leave it out, or say one", place)
        if len(value) > LONGEST_VALUE:
            return Denial("attribute_unknown", f"{place} has a value of over {LONGEST_VALUE} characters", place)
        if attribute.values is not None and value not in attribute.values:
            return Denial(
                "attribute_unknown",
                f"{place} says a value that is not declared; {attribute.name!r} is one of "
                f"{', '.join(sorted(attribute.values))}",
                place,
            )
    sources = said.setdefault(attribute.name, {})
    sources[source] = sources.get(source, frozenset()) | frozenset(values)
    return None
