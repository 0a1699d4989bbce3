"""`attribute_match`: what the request says must fit what the target declares. Residency is the usual use.

    [constraints.residency]
    kind = "attribute_match"
    request_attribute = "data-region"
    target_attribute = "region"
    accept = { eu = ["eu-west", "eu-central"], any = "*" }     # left out: the label must be the value itself

A label that is a list means "may be any of these": it passes only if all of them are accepted. Source: DESIGN section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, field_validator

from narrows import CheckedConfig, Constraint, Exclusion, Problem, Request, Target, hookimpl
from narrows_plugins.narrow._labels import fold, folded, key, nearest, undeclared

MISMATCH: Final = "attribute_mismatch"
UNLABELLED: Final = "unlabelled"


def fits(label: frozenset[str], accepted: frozenset[str] | None) -> bool:
    """Is every one of these labels accepted? An undeclared label (the empty set) fits nothing. None accepts all."""
    return bool(label) and (accepted is None or label <= accepted)


def _named(name: str) -> str:
    if not name.strip():
        raise ValueError("is empty; write the name of an attribute")
    if name != name.strip():
        raise ValueError("has space at its ends; write the bare name, or it binds nobody")
    return name


def _accepted(given: object) -> object:
    if given == "*":
        return given
    words = given if isinstance(given, list | tuple) else ()
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError('must be a list of the labels that fit, or "*" for every one')
    return tuple(words)


Name: TypeAlias = Annotated[str, AfterValidator(_named)]
Accepted: TypeAlias = Annotated[Literal["*"] | tuple[str, ...], BeforeValidator(_accepted)]


class AttributeMatch(Constraint[str]):
    """Only targets whose label fits every value that the request says of an attribute.

    Options: `request_attribute`, the attribute; `target_attribute`, the label; `accept`, for each value the list of
    labels that fit it, or "*" for a value that demands nothing. Without `accept` the label must be the value itself.
    """

    request_attribute: Name
    """The name of the attribute that requests say."""
    target_attribute: Name
    """The name of the label that must fit: `region`, `jurisdiction`, `class`, or one of your own."""
    accept: Mapping[str, Accepted] | None = None
    """For each value the labels that fit it; `"*"` for a value that demands nothing. Left out: the label must be the value."""

    @field_validator("accept")
    @classmethod
    def _one_entry_a_value(cls, accept: Mapping[str, Accepted] | None) -> Mapping[str, Accepted] | None:
        if accept is not None and not accept:
            raise ValueError("has no entry; leave it out where the label must be the value itself")
        if len(folded(accept)) != len(accept or ()):
            raise ValueError("has two entries for one value: case and surrounding space make no difference")
        return accept

    @cached_property
    def accepts(self) -> Mapping[str, frozenset[str] | None]:
        """`accept`, folded once and not for each target; None = every label."""
        return {fold(value): None if labels == "*" else folded(labels) for value, labels in (self.accept or {}).items()}

    def demands(self, request: Request) -> Iterable[str]:
        """Each value that the request says, less those that accept every label."""
        said = request.attributes.get(self.request_attribute, frozenset())
        return said if self.accept is None else {value for value in said if self._fitting(value) is not None}

    def excludes(self, demand: str, target: Target) -> Exclusion | None:
        """`attribute_mismatch`, or `unlabelled` where the target does not declare the label."""
        name = self.target_attribute
        label = target.label_set(name)
        if not label:
            return Exclusion(UNLABELLED, f"declares no {name}, and {demand} is asked for")
        if fits(folded(label), self._fitting(demand)):
            return None
        # Without the target's own label: "2 region is not eu" counts targets of any other region together.
        return Exclusion(MISMATCH, f"{name} is not {'always ' if len(label) > 1 else ''}{demand}")

    def problems(self, targets: Sequence[Target]) -> Iterable[str]:
        """The targets without the label, and the lines to add."""
        text = undeclared(targets, self.target_attribute)
        return () if text is None else (text,)

    @hookimpl
    def check(self, config: CheckedConfig) -> Iterable[Problem]:
        """`accept` needs a declared attribute, and an entry for each of its values and for no other."""
        if self.accept is None:
            return
        name = self.request_attribute
        declared = config.attributes.get(name)
        if declared is None:
            yield Problem(
                "unknown_reference",
                f"there is no [attributes.{key(name)}], and accept needs the values that it declares",
                "accept",
                suggestion=nearest(name, config.attributes),
                remedy="Declare it with its values, or leave accept out.",
            )
            return
        for value in self.accept:
            if fold(value) not in folded(declared):
                yield Problem(
                    "unknown_reference",
                    f"{value!r} is no value of attribute {name!r}",
                    f"accept.{value}",
                    suggestion=nearest(value, declared),
                    remedy=f"Its values: {', '.join(sorted(declared))}.",
                )
        for value in sorted(declared):
            if fold(value) not in self.accepts:
                yield Problem(
                    "missing_key",
                    f"accept has no entry for {value!r}, a value of attribute {name!r}",
                    "accept",
                    remedy=f'Add {key(value)} = ["…"], the labels that fit it, or {key(value)} = "*".',
                )

    def attributes_read(self) -> frozenset[str]:
        """The one attribute."""
        return frozenset({self.request_attribute})

    def _fitting(self, value: str) -> frozenset[str] | None:
        """The labels that fit this value, folded; None for all. A value that `accept` leaves out fits none."""
        if self.accept is None:
            return frozenset({fold(value)})
        return self.accepts.get(fold(value), frozenset())
