"""Constraints whose pure halves are not pure, or fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from narrows import Constraint, Exclusion, Request, Target

SECRET = "text of an exception"


class Rules(Constraint[Any]):
    """Demands and excludes as its act says, where the request says so; else it demands nothing.

    Options: `act`.
    """

    act: str

    def demands(self, request: Request) -> Iterable[Any]:
        """Whatever the act answers."""
        if self.act not in request.attributes.get("act", frozenset()):
            return ()
        return ACTS[self.act](request)

    def excludes(self, demand: Any, target: Target) -> Exclusion | None:
        """Nothing. But some demands are too much for it."""
        if demand == "raise":
            raise RuntimeError(SECRET)
        answer: Any = "no" if demand == "text" else None
        return None if answer is None else answer


def forgets_the_region(request: Request) -> Iterable[Any]:
    """The next rule would find a request that says nothing of its region."""
    attributes: Any = request.attributes
    del attributes["region"]
    return ()


def demands_raises(request: Request) -> Iterable[Any]:
    raise RuntimeError(SECRET)


def demands_nothing_that_can_be_kept(request: Request) -> Iterable[Any]:
    """A demand has to be hashable."""
    return ([],)


def demands_too_much(request: Request) -> Iterable[Any]:
    """A demand is at most 1 KB of JSON."""
    return ("x" * 2000,)


def demands_no_json(request: Request) -> Iterable[Any]:
    return (object(),)


def excludes_raises(request: Request) -> Iterable[Any]:
    return ("raise",)


def excludes_with_text(request: Request) -> Iterable[Any]:
    return ("text",)


ACTS: Mapping[str, Callable[[Request], Iterable[Any]]] = {
    act.__name__: act
    for act in (
        forgets_the_region,
        demands_raises,
        demands_nothing_that_can_be_kept,
        demands_too_much,
        demands_no_json,
        excludes_raises,
        excludes_with_text,
    )
}
