"""Where one cell of the table is measured: one kind of provider, one gateway, and a control that cannot be forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from narrows import Block
from tests.equivalence.gates import Gate, opened
from tests.equivalence.kinds import Kind
from tests.equivalence.upstreams import Plan, Upstreams
from tests.support.config import Table


class Bench:
    """What a check is given. It opens one gateway, asks it what must be refused, and what must not.

    "The provider was never called" is also true of a gateway that calls nobody at all, so each check carries a positive
    control in the same gateway. `done` raises where it did not: no call reached an upstream, or there was a second gateway.
    """

    def __init__(self, kind: Kind, upstreams: Upstreams) -> None:
        self.kind, self.upstreams = kind, upstreams
        self._gate: Gate | None = None

    @asynccontextmanager
    async def gateway(
        self,
        targets: Mapping[str, Plan],
        *,
        kinds: Mapping[str, type[Block]] | None = None,
        **document: Table,
    ) -> AsyncIterator[Gate]:
        """The cell's gateway. `document`: further tables of its configuration, `routes`, `constraints` and the like."""
        if self._gate is not None:
            raise AssertionError("a cell has one gateway; a control in another one controls nothing")
        behind = {name: (self.upstreams, plan) for name, plan in targets.items()}
        async with opened(behind, document, kinds or {}) as gate:
            self._gate = gate
            assert {vendor.kind for vendor in gate.gateway.snapshot.vendors.values()} == {self.kind}
            yield gate

    def done(self) -> None:
        """Raises AssertionError for a cell in which nothing was ever called."""
        if self._gate is None or not self._gate.calls:
            raise AssertionError("no upstream was called: this cell has no positive control")
