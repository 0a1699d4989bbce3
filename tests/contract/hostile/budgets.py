"""`budget` hooks whose allowances are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from narrows import Block, Denial, Request, Usage, hookimpl

SECRET = "text of an exception"


class Allows(Block):
    """Gives an allowance of its own kind where the request says so.

    Options: `act`.
    """

    act: str

    @hookimpl
    def budget(self, request: Request) -> Any:
        """Whatever the act answers."""
        return ALLOWANCES[self.act](request) if self.act in request.attributes.get("act", frozenset()) else None


class Purse:
    """An honest allowance of so much, in micro-USD."""

    def __init__(self, granted: object) -> None:
        self.granted: Any = granted

    def room(self) -> int:
        return self.hold(10**9)

    def hold(self, amount: int) -> int:
        if isinstance(self.granted, Exception):
            raise self.granted
        granted: int = min(amount, self.granted) if type(self.granted) is int else self.granted
        return granted

    def settle(self, usage: Usage) -> None:
        return

    def release(self) -> None:
        return


class Leaky:
    """It can hold, and never gives back."""

    def room(self) -> int:
        return 10**9

    def hold(self, amount: int) -> int:
        return amount

    def settle(self, usage: Usage) -> None:
        return


class Unsettled(Purse):
    """It fails when everything is over."""

    def settle(self, usage: Usage) -> None:
        raise RuntimeError(SECRET)


class Unreleased(Purse):
    """It fails a little later."""

    def release(self) -> None:
        raise RuntimeError(SECRET)


class Asynchronous(Purse):
    """It would have to be awaited, and `hold` never waits."""

    async def hold(self, amount: int) -> int:  # type: ignore[override]
        return amount


def allows_a_number(request: Request) -> object:
    return 5


def allows_true(request: Request) -> object:
    return True


def allows_without_release(request: Request) -> object:
    return Leaky()


def denies_with_another_code(request: Request) -> object:
    """A spent cap is an allowance of 0: a free target may be left."""
    return Denial("budget_exhausted", "nothing is left")


def denies_for_ever(request: Request) -> object:
    return Denial("rate_limited", "too many", retry_after=math.inf)


def denies_for_a_word(request: Request) -> object:
    soon: Any = "soon"
    return Denial("rate_limited", "too many", retry_after=soon)


def denies(request: Request) -> object:
    """The honest one."""
    return Denial("rate_limited", "too many requests", retry_after=7)


def allows_nothing(request: Request) -> object:
    """Honest too."""
    return Purse(0)


def allows_enough(request: Request) -> object:
    """Honest too."""
    return Purse(10**9)


def budget_raises(request: Request) -> object:
    raise RuntimeError(SECRET)


async def budget_hangs(request: Request) -> object:
    await anyio.sleep_forever()
    return None


async def allows_late(request: Request) -> object:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        pass
    return Purse(10**9)


def hold_raises(request: Request) -> object:
    return Purse(RuntimeError(SECRET))


def hold_says_none(request: Request) -> object:
    return Purse(None)


def hold_says_a_word(request: Request) -> object:
    return Purse("plenty")


def hold_says_infinity(request: Request) -> object:
    return Purse(math.inf)


def hold_must_be_awaited(request: Request) -> object:
    return Asynchronous(10**9)


def settle_raises(request: Request) -> object:
    return Unsettled(10**9)


def release_raises(request: Request) -> object:
    return Unreleased(10**9)


ALLOWANCES: Mapping[str, Callable[[Request], object]] = {
    act.__name__: act
    for act in (
        allows_a_number,
        allows_true,
        allows_without_release,
        denies_with_another_code,
        denies_for_ever,
        denies_for_a_word,
        denies,
        allows_nothing,
        allows_enough,
        budget_raises,
        budget_hangs,
        allows_late,
        hold_raises,
        hold_says_none,
        hold_says_a_word,
        hold_says_infinity,
        hold_must_be_awaited,
        settle_raises,
        release_raises,
    )
}
