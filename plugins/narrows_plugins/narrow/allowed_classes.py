"""`allowed_classes`: a strict route. Targets of any other class leave before anything is ranked or called.

    [constraints.private-only]
    kind = "allowed_classes"
    classes = ["private"]

An unclassed target on a strict route, or a route without an allowed one, is refused at load: a mistake in labelling
must fail the load instead of leaking. Source: the rule on strict routes that DESIGN section 4 takes over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from pydantic import field_validator

from narrows import Constraint, Exclusion, Request, Target
from narrows_plugins.narrow._labels import either, folded, undeclared

CLASS: Final = "class"
UNLABELLED: Final = "unlabelled"
LABEL: Final = "class"

Classes: TypeAlias = tuple[str, ...]


def allowed(target: Target, classes: Iterable[str]) -> bool:
    """Is the target's class, or each class that it may be, one of these? Without a class: no."""
    declared = folded(target.label_set(LABEL))
    return bool(declared) and declared <= folded(classes)


class AllowedClasses(Constraint[Classes]):
    """Only targets of these classes (private, public, paid, or your own).

    Options: `classes`, at least one.
    """

    reads = frozenset()

    classes: Classes
    """The classes that may be used, at least one."""

    @field_validator("classes")
    @classmethod
    def _at_least_one(cls, classes: Classes) -> Classes:
        if not classes or not all(name.strip() for name in classes):
            raise ValueError('must name at least one class, like classes = ["private"]')
        return classes

    def demands(self, request: Request) -> Iterable[Classes]:
        """The same for every request."""
        return (tuple(sorted(set(self.classes))),)

    def excludes(self, demand: Classes, target: Target) -> Exclusion | None:
        """`class`, or `unlabelled` where the target has none."""
        if allowed(target, demand):
            return None
        label = target.label_set(LABEL)
        if not label:
            return Exclusion(UNLABELLED, f"declares no class, and only {either(demand)} is allowed")
        return Exclusion(CLASS, f"class is not {'always ' if len(label) > 1 else ''}{either(demand)}")

    def problems(self, targets: Sequence[Target]) -> Iterable[str]:
        """The targets without a class; a route of which no target is allowed."""
        text = undeclared(targets, LABEL)
        if text is not None:
            yield text
        if not any(allowed(target, self.classes) for target in targets):
            yield f"no target of the route is of class {either(self.classes)}; add one, or allow a class that it has"
