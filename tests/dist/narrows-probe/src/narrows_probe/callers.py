"""`authenticate` and `authorize`."""

from __future__ import annotations

from narrows import Authenticator, Block, Denial, Identity, Inbound, Request, hookimpl

HEADER = "x-probe-caller"


class ProbeHeader(Authenticator):
    """Believes whoever says a configured name in the header `x-probe-caller`. For tests only."""

    @hookimpl
    def authenticate(self, inbound: Inbound) -> Identity | None:
        """The name that is said; without the header this caller is somebody else's."""
        name = inbound.header(HEADER)
        return None if name is None else Identity(name)


class ProbeObjector(Block):
    """Objects to everything that one caller asks.

    Options: `to`, its name.
    """

    to: str

    @hookimpl
    def authorize(self, request: Request) -> Denial | None:
        """An objection to that caller."""
        return Denial("forbidden", "the probe objects") if request.principal.name == self.to else None
