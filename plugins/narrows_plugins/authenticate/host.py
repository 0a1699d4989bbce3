"""`host`: the callers that the host application has authenticated (`scope["user"]`), where the gateway is mounted.

What counts as a user: Starlette's `BaseUser` (`is_authenticated`, `identity`, `display_name`) or anything of its shape,
or a plain string, the user's name.
"""

from __future__ import annotations

from typing import Final

from narrows import Authenticator, Denial, Identity, Inbound, hookimpl

UNAUTHENTICATED: Final = "unauthenticated"


def name_of(user: object) -> str | None:
    """The user's name, or None for nobody. `identity` first: two users may share a `display_name`."""
    if isinstance(user, str):
        return user.strip() or None
    # `is True`: a method of that name, or any other truthy thing, is no answer to the question
    if getattr(user, "is_authenticated", None) is not True:
        return None
    for attribute in ("identity", "display_name"):
        try:
            name = getattr(user, attribute, None)
        except NotImplementedError:  # what Starlette's BaseUser does for a property that its subclass leaves out
            continue
        if isinstance(name, str) and name.strip():
            return name.strip()
    return None


class Host(Authenticator):
    """Takes the host application's user. No options: `[auth] mode = "host"` turns it on."""

    @hookimpl
    def authenticate(self, inbound: Inbound) -> Identity | Denial:
        """The user's name, or a `Denial` where the host put no user, or one that is not authenticated."""
        if inbound.user is None:
            return Denial(UNAUTHENTICATED, "the host put no user into the request; add its authentication middleware")
        name = name_of(inbound.user)
        if name is None:
            return Denial(UNAUTHENTICATED, "the host's user is not authenticated, or has no name; log in there first")
        return Identity(name)
