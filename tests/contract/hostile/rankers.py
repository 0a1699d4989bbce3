"""`rank` hooks that add, repeat and fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import anyio

from narrows import Candidates, Consult, Ranked, Ranker, Request, Target, hookimpl

SECRET = "text of an exception"


class Ranks(Ranker):
    """Ranks as the request's act says; else it keeps the order."""

    @hookimpl
    def rank(self, request: Request, candidates: Candidates, consult: Consult) -> Any:
        """Whatever the act answers."""
        for act in request.attributes.get("act", frozenset()) & ACTS.keys():
            return ACTS[act](candidates)
        return None


def backwards(candidates: Candidates) -> object:
    """The honest one."""
    return tuple(reversed(tuple(candidates)))


def prefix(candidates: Candidates) -> object:
    """Honest too: only the best. The rest follow by themselves."""
    return list(candidates)[-1:]


def says_why(candidates: Candidates) -> object:
    """Honest, and it tells its reason."""
    order = tuple(reversed(tuple(candidates)))
    return Ranked(order, "backwards", {"first": order[0].name, "left": len(order), "score": 0.5, "sure": True})


def says_why_and_adds(candidates: Candidates) -> object:
    return Ranked(candidates._pool.targets, "backwards")


def says_a_text(candidates: Candidates) -> object:
    return Ranked(tuple(reversed(tuple(candidates))), SECRET, {"left": 1})


def signals_a_text(candidates: Candidates) -> object:
    return Ranked(tuple(reversed(tuple(candidates))), "backwards", {"left": 1, "prompt": SECRET})


def signals_under_a_text(candidates: Candidates) -> object:
    return Ranked(tuple(reversed(tuple(candidates))), "backwards", {SECRET: 1})


def signals_a_list(candidates: Candidates) -> object:
    signals: Any = {"prompt": [SECRET]}
    return Ranked(tuple(reversed(tuple(candidates))), "backwards", signals)


class Unreadable(dict[str, float]):
    """Signals that cost an exception."""

    def items(self) -> Any:
        raise RuntimeError(SECRET)


def signals_that_raise(candidates: Candidates) -> object:
    return Ranked(tuple(reversed(tuple(candidates))), "backwards", Unreadable())


def adds(candidates: Candidates) -> object:
    return [*candidates, *candidates._pool.targets]


def adds_first(candidates: Candidates) -> object:
    gone = [target for target in candidates._pool.targets if target not in candidates]
    return [*gone, *candidates]


def adds_a_stranger(candidates: Candidates) -> object:
    """A target that it made itself, equal in everything but being the one."""
    return [replace(next(iter(candidates)))]


def repeats(candidates: Candidates) -> object:
    first = next(iter(candidates))
    return [first, first]


def ranks_text(candidates: Candidates) -> object:
    return "eu"


def ranks_names(candidates: Candidates) -> object:
    return [target.name for target in candidates]


def ranks_a_table(candidates: Candidates) -> object:
    return dict.fromkeys(candidates, 1.0)


def ranks_lazily(candidates: Candidates) -> object:
    return (target for target in candidates)


class Broken(Sequence[Target]):
    """A sequence whose items cost an exception."""

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, place: int) -> Target: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Target]: ...
    def __getitem__(self, place: int | slice) -> Target | Sequence[Target]:
        raise RuntimeError(SECRET)

    def __iter__(self) -> Iterator[Target]:
        raise RuntimeError(SECRET)


def ranks_a_broken_sequence(candidates: Candidates) -> object:
    return Broken()


def changes_before_ranking(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_mask", (1 << len(candidates._pool)) - 1)
    return list(candidates)


def changes_and_keeps_the_order(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_mask", (1 << len(candidates._pool)) - 1)
    return None


def changes_and_raises(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_mask", (1 << len(candidates._pool)) - 1)
    raise RuntimeError(SECRET)


def rank_raises(candidates: Candidates) -> object:
    raise RuntimeError(SECRET)


async def rank_hangs(candidates: Candidates) -> object:
    await anyio.sleep_forever()
    return backwards(candidates)


async def ranks_late(candidates: Candidates) -> object:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        pass
    return backwards(candidates)


ACTS: Mapping[str, Callable[[Candidates], object]] = {
    act.__name__: act
    for act in (
        backwards,
        prefix,
        says_why,
        says_why_and_adds,
        says_a_text,
        signals_a_text,
        signals_under_a_text,
        signals_a_list,
        signals_that_raise,
        adds,
        adds_first,
        adds_a_stranger,
        repeats,
        ranks_text,
        ranks_names,
        ranks_a_table,
        ranks_lazily,
        ranks_a_broken_sequence,
        changes_before_ranking,
        changes_and_keeps_the_order,
        changes_and_raises,
        rank_raises,
        rank_hangs,
        ranks_late,
    )
}
