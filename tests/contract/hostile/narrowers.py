"""`narrow` hooks that try to add, to forge and to forget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio

from narrows import Block, Candidates, ContractViolation, Exclusion, Request, Target, hookimpl

SECRET = "text of an exception"
BLOCKS_SECS = 0.4
Act = Callable[[Candidates], object]


class Narrows(Block):
    """Does its act where the request says so.

    Options: `act`.
    """

    act: str

    @hookimpl
    def narrow(self, request: Request, candidates: Candidates) -> Any:
        """Whatever the act answers."""
        if self.act not in request.attributes.get("act", frozenset()):
            return None
        return ACTS[self.act](candidates)


# ---- it adds -----------------------------------------------------------------------------------------------------


def everything(candidates: Candidates) -> int:
    """The mask of the whole pool, what residency removed included."""
    return (1 << len(candidates._pool)) - 1


def adds_by_replace(candidates: Candidates) -> object:
    return replace(candidates, _mask=everything(candidates))


def adds_by_hand(candidates: Candidates) -> object:
    return Candidates(candidates._pool, everything(candidates))


def adds_by_force(candidates: Candidates) -> object:
    smaller = shrinks(candidates)
    object.__setattr__(smaller, "_mask", everything(candidates))
    return smaller


class Lying(int):
    """A mask that says of itself that it holds nothing."""

    def __and__(self, other: int) -> int:
        return 0


def mask_that_lies(candidates: Candidates) -> object:
    return replace(candidates, _mask=Lying(everything(candidates)))


def negative_mask(candidates: Candidates) -> object:
    return replace(candidates, _mask=-1)


def foreign_set(candidates: Candidates) -> object:
    """A set over a pool of its own, of the very same targets."""
    return replace(candidates, _pool=type(candidates._pool)(candidates._pool.targets))


# ---- it answers something else -----------------------------------------------------------------------------------


def returns_a_list(candidates: Candidates) -> object:
    return list(candidates)


def returns_an_empty_list(candidates: Candidates) -> object:
    return []


def returns_false(candidates: Candidates) -> object:
    return False


def returns_names(candidates: Candidates) -> object:
    return {target.name for target in candidates}


class Wider(Candidates):
    """Looks like a set of candidates, and decides itself what it is when it is asked."""

    __slots__ = ()


def returns_a_subclass(candidates: Candidates) -> object:
    return Wider(candidates._pool, candidates._mask, candidates._cuts)


# ---- it changes what it was offered ------------------------------------------------------------------------------


def changes_and_returns(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_mask", everything(candidates))
    return candidates


def changes_and_says_nothing(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_mask", everything(candidates))
    return None


def changes_then_shrinks(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_mask", everything(candidates))
    return shrinks(candidates)


def changes_the_pool(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_pool", type(candidates._pool)(candidates._pool.targets))
    return None


def changes_the_exclusions(candidates: Candidates) -> object:
    object.__setattr__(candidates, "_cuts", ())
    return None


def changes_a_label(candidates: Candidates) -> object:
    """Every target is in Switzerland from now on: what is declared belongs to the configuration."""
    for target in candidates._pool.targets:
        labels: Any = target.labels
        labels["region"] = "ch"
    return None


def removes_a_name(candidates: Candidates) -> object:
    """A mistake that would remove nothing."""
    name: Any = "eu"
    return candidates.without(name, "unwanted", "it is not wanted")


# ---- it removes without saying why -------------------------------------------------------------------------------


def last(candidates: Candidates) -> Target:
    return list(candidates)[-1]


def no_code(candidates: Candidates) -> object:
    return candidates.without(last(candidates), "", "it is not wanted")


def no_why(candidates: Candidates) -> object:
    return candidates.without(last(candidates), "unwanted", "")


def code_is_none(candidates: Candidates) -> object:
    nothing: Any = None
    return candidates.without(last(candidates), nothing, "it is not wanted")


def why_is_none(candidates: Candidates) -> object:
    nothing: Any = None
    return candidates.without(last(candidates), "unwanted", nothing)


def no_reason(candidates: Candidates) -> object:
    return replace(candidates, _mask=candidates._mask & (candidates._mask - 1))


def half_a_reason(candidates: Candidates) -> object:
    """It explains one removal and makes two."""
    return replace(shrinks(candidates), _mask=0)


def reason_without_removal(candidates: Candidates) -> object:
    return replace(shrinks(candidates), _mask=candidates._mask)


def reason_that_does_not_cover(candidates: Candidates) -> object:
    """The cut says two targets, its reasons only one of them."""
    smaller = shrinks(candidates)
    cut = replace(smaller._cuts[-1], mask=candidates._mask)
    return replace(smaller, _mask=0, _cuts=(*candidates._cuts, cut))


def reason_is_text(candidates: Candidates) -> object:
    cuts: Any = (*candidates._cuts, "because")
    return replace(candidates, _mask=candidates._mask & (candidates._mask - 1), _cuts=cuts)


def reason_is_a_pair(candidates: Candidates) -> object:
    """The shape of an exclusion without being one."""
    smaller = shrinks(candidates)
    groups: Any = ((("code", "why"), smaller._cuts[-1].mask),)
    return replace(smaller, _cuts=(*candidates._cuts, replace(smaller._cuts[-1], groups=groups)))


def borrowed_name(candidates: Candidates) -> object:
    """The reason is given in another rule's name, with a code that only the core may use."""
    smaller = shrinks(candidates)
    cut = smaller._cuts[-1]
    forged = type(cut)("residency", cut.mask, ((Exclusion("override", "switched off by nobody"), cut.mask),))
    return replace(smaller, _cuts=(*candidates._cuts, forged))


# ---- it rewrites what other rules said ---------------------------------------------------------------------------


def drops_exclusions(candidates: Candidates) -> object:
    return replace(candidates, _cuts=())


def drops_exclusions_while_shrinking(candidates: Candidates) -> object:
    return replace(shrinks(candidates), _cuts=shrinks(candidates)._cuts[-1:])


def rewrites_exclusions(candidates: Candidates) -> object:
    first = candidates._cuts[0]
    groups = tuple((Exclusion("price", "it costs too much"), mask) for _, mask in first.groups)
    return replace(candidates, _cuts=(replace(first, groups=groups), *candidates._cuts[1:]))


def exclusions_as_a_list(candidates: Candidates) -> object:
    cuts: Any = list(candidates._cuts)
    return replace(candidates, _cuts=cuts)


# ---- it fails ----------------------------------------------------------------------------------------------------


def raises(candidates: Candidates) -> object:
    raise RuntimeError(SECRET)


async def raises_in_an_await(candidates: Candidates) -> object:
    await anyio.lowlevel.checkpoint()
    raise LookupError(SECRET)


def raises_a_group(candidates: Candidates) -> object:
    raise ExceptionGroup(SECRET, [ValueError(SECRET)])


def blames_another(candidates: Candidates) -> object:
    """Raises the core's own exception in another plugin's name."""
    raise ContractViolation("residency", "narrow", SECRET)


async def hangs(candidates: Candidates) -> object:
    await anyio.sleep_forever()
    return candidates


async def answers_late(candidates: Candidates) -> object:
    """Swallows its cancellation once, as a careless `except` does, and answers as if nothing had been."""
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        pass
    return candidates


# ---- it does no harm ---------------------------------------------------------------------------------------------


def shrinks(candidates: Candidates) -> Candidates:
    """The honest one: one target less, with a reason."""
    return candidates.without(next(iter(candidates)), "unwanted", "it is not wanted")


async def shrinks_in_an_await(candidates: Candidates) -> object:
    await anyio.lowlevel.checkpoint()
    return shrinks(candidates)


def blocks(candidates: Candidates) -> object:
    """Stops the event loop. Nobody can interrupt it; it is told afterwards."""
    time.sleep(BLOCKS_SECS)
    return candidates


ACTS: Mapping[str, Act] = {
    act.__name__: act
    for act in (
        adds_by_replace,
        adds_by_hand,
        adds_by_force,
        mask_that_lies,
        negative_mask,
        foreign_set,
        returns_a_list,
        returns_an_empty_list,
        returns_false,
        returns_names,
        returns_a_subclass,
        changes_and_returns,
        changes_and_says_nothing,
        changes_then_shrinks,
        changes_the_pool,
        changes_the_exclusions,
        changes_a_label,
        removes_a_name,
        no_code,
        no_why,
        code_is_none,
        why_is_none,
        no_reason,
        half_a_reason,
        reason_without_removal,
        reason_that_does_not_cover,
        reason_is_text,
        reason_is_a_pair,
        borrowed_name,
        drops_exclusions,
        drops_exclusions_while_shrinking,
        rewrites_exclusions,
        exclusions_as_a_list,
        raises,
        raises_in_an_await,
        raises_a_group,
        blames_another,
        hangs,
        answers_late,
        shrinks,
        shrinks_in_an_await,
        blocks,
    )
}
