"""`authenticate` and `authorize` hooks that grant and mint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from narrows import Authenticator, Block, Denial, Identity, Inbound, Principal, Request, hookimpl

SECRET = "text of an exception"
CALLER = "x-caller"
ACT = "x-act"


class Believes(Authenticator):
    """Believes whoever says a name in the header `x-caller`. It is honest."""

    @hookimpl
    def authenticate(self, inbound: Inbound) -> Identity | None:
        """The name that is said."""
        name = inbound.header(CALLER)
        return None if name is None else Identity(name)


class Recognises(Authenticator):
    """Answers its act where the request says so.

    Options: `act`.
    """

    act: str

    @hookimpl
    def authenticate(self, inbound: Inbound) -> Any:
        """Whatever the act answers."""
        return IDENTITIES[self.act](inbound) if inbound.header(ACT) == self.act else None


class Authorizes(Block):
    """Objects in its own way where the request says so.

    Options: `act`.
    """

    act: str

    @hookimpl
    def authorize(self, request: Request) -> Any:
        """Whatever the act answers."""
        return OBJECTIONS[self.act](request) if self.act in request.attributes.get("act", frozenset()) else None


# ---- authenticate: the caller is `ci`, which configuration grants one target, and it asks for all ------------------


def mints_a_principal(inbound: Inbound) -> object:
    return Principal("ci")


@dataclass(frozen=True)
class Richer(Identity):
    """An identity with grants."""

    targets: frozenset[str] | None = None
    routes: frozenset[str] | None = None
    providers: frozenset[str] | None = None


def mints_a_richer_identity(inbound: Inbound) -> object:
    return Richer("ci")


@dataclass(frozen=True)
class Granted:
    """Everything that an identity and a principal have."""

    name: str
    claims: Mapping[str, str]
    targets: frozenset[str] | None = None


def mints_an_object(inbound: Inbound) -> object:
    return Granted("ci", {})


def mints_a_name(inbound: Inbound) -> object:
    return "ci"


def mints_a_table(inbound: Inbound) -> object:
    return {"name": "ci", "targets": ["eu", "us"]}


class Name(str):
    """A name that is equal to every other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def mints_a_lying_name(inbound: Inbound) -> object:
    return Identity(Name("ci"))


def mints_nobody(inbound: Inbound) -> object:
    """An honest identity; but nobody configured a caller of that name."""
    return Identity("nobody")


def denies_in_another_name(inbound: Inbound) -> object:
    return Denial("kill_switch", "no")


def denies_who_is_calling(inbound: Inbound) -> object:
    """The honest one."""
    return Denial("unauthenticated", "this credential is not valid any more")


def authenticate_raises(inbound: Inbound) -> object:
    raise RuntimeError(f"{SECRET} {inbound.headers}")


async def authenticate_hangs(inbound: Inbound) -> object:
    await anyio.sleep_forever()
    return Identity("ci")


async def authenticates_late(inbound: Inbound) -> object:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        pass
    return Identity("ci")


IDENTITIES: Mapping[str, Callable[[Inbound], object]] = {
    act.__name__: act
    for act in (
        mints_a_principal,
        mints_a_richer_identity,
        mints_an_object,
        mints_a_name,
        mints_a_table,
        mints_a_lying_name,
        mints_nobody,
        denies_in_another_name,
        denies_who_is_calling,
        authenticate_raises,
        authenticate_hangs,
        authenticates_late,
    )
}


# ---- authorize ---------------------------------------------------------------------------------------------------


def says_yes(request: Request) -> object:
    return True


def says_no(request: Request) -> object:
    return False


def says_a_word(request: Request) -> object:
    return "forbidden"


def objects_with_another_code(request: Request) -> object:
    """403, but not its to give: only rules about targets may say it."""
    return Denial("no_eligible_target", "no")


def objects_with_an_unknown_code(request: Request) -> object:
    return Denial("not_today", "no")


def objects(request: Request) -> object:
    """The honest one."""
    return Denial("forbidden", "not on a Sunday")


def authorize_raises(request: Request) -> object:
    raise RuntimeError(SECRET)


async def authorize_hangs(request: Request) -> object:
    await anyio.sleep_forever()
    return None


async def authorizes_late(request: Request) -> object:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        pass
    return None


def forgets_the_act(request: Request) -> object:
    """What a request says of itself is not a plugin's to change: those that are asked later see it too."""
    attributes: Any = request.attributes
    attributes.clear()
    return None


def grants_itself(request: Request) -> object:
    """What a caller may say is configuration, for this request and for every later one."""
    may_say: Any = request.principal.may_say
    may_say["region"] = frozenset({"us"})
    return None


OBJECTIONS: Mapping[str, Callable[[Request], object]] = {
    act.__name__: act
    for act in (
        says_yes,
        says_no,
        says_a_word,
        objects_with_another_code,
        objects_with_an_unknown_code,
        objects,
        authorize_raises,
        authorize_hangs,
        authorizes_late,
        forgets_the_act,
        grants_itself,
    )
}
