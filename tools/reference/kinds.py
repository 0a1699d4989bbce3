"""The kinds that come with Narrows, from the classes themselves: docstring, options, types, defaults."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.config.documented import help_of
from narrows.constraints import Block
from narrows.registry import BASES, OWN_DISTRIBUTION, Kind, Registry
from tools.reference.fields import fields_table
from tools.reference.text import needed, table

WITHOUT_A_BLOCK = {
    "authenticators.keys": "The core makes it of `[keys.NAME]`.",
    "constraints.capability": "It stands on every route. No block names it.",
    "constraints.context_window": "It stands on every route. No block names it.",
    "plugins.error_classes": "It is always there. No block names it.",
}
"""Kinds that the core configures itself, and how."""


def own(group: str) -> tuple[Kind, ...]:
    """The kinds of a group that come with us."""
    return tuple(kind for kind in Registry().of(group) if kind.distribution == OWN_DISTRIBUTION)


def kinds() -> str:
    """Each group: the options that all its kinds have, then each kind."""
    return "\n\n".join(text for group in BASES for text in _group(group))


def _group(group: str) -> Iterator[str]:
    base = BASES[group]
    shared = fields_table(base)
    yield f"## `[{group}.NAME]`" if group != "rankers" else '## Rankers: `algorithm = "…"` of a route'
    yield _help(base, f"{group} in general").partition("\n\n")[0]
    if shared:
        yield f"Every kind of this group has these keys, a third party's too, beside `kind`:\n\n{shared}"
    found = own(group)
    if not found:
        yield "None comes with Narrows."
    for kind in found:
        yield from _kind(kind, base)


def _kind(kind: Kind, base: type[Block]) -> Iterator[str]:
    cls = kind.load()
    yield f"### `{kind.short}`" if kind.group != "rankers" else f"### Ranker `{kind.short}`"
    # "Options: …" is for who reads the class; here is a table of them.
    yield "\n\n".join(text for text in _help(cls, f"kind {kind.name}").split("\n\n") if not text.startswith("Options"))
    note = WITHOUT_A_BLOCK.get(kind.name)
    if note is not None:
        yield note
    added = [
        name
        for name, field in cls.model_fields.items()
        if name not in base.model_fields or repr(field) != repr(base.model_fields[name])
    ]
    options = fields_table(cls, added)
    if options:
        yield options


def _help(cls: type[Block], what: str) -> str:
    own = cls.__doc__ if "__doc__" in vars(cls) else None  # pydantic would let a class inherit its base's
    needed(what, own, f"a docstring in {cls.__module__}.{cls.__qualname__}")
    return help_of(cls)


def kinds_at_a_glance() -> str:
    """One line for each kind."""
    rows = [(f"`{kind.name}`", help_of(kind.load()).partition("\n\n")[0]) for group in BASES for kind in own(group)]
    return table(("kind", "what it is"), rows)
