"""The end of a gateway's service: nothing new begins, what is in flight may finish, and what is left is cut.

A cut is a cancellation of what is waited for, and nothing else: whoever waits tells its own caller. Source: DESIGN
section 9, docs/adr/0008.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from narrows.run import Run

CODE: Final = "stopping"
"""The stable code of what was refused or cut."""


class Stopping:
    """One service, from its start to its end. `began`: nothing new is taken. `over`: nothing may wait any more."""

    __slots__ = ("_empty", "_flights", "_waits", "began", "over")

    def __init__(self) -> None:
        self.began = False
        self.over = False
        self._flights: set[Run] = set()
        self._waits: set[anyio.CancelScope] = set()
        self._empty: anyio.Event | None = None

    @property
    def in_flight(self) -> tuple[Run, ...]:
        """The requests that came before the stop and have not been left."""
        return tuple(self._flights)

    def begin(self) -> None:
        """Take nothing new. It only sets a flag, so a signal's handler may call it."""
        self.began = True

    def cut(self) -> None:
        """End every wait, also those that would begin later. In the gateway's own loop."""
        self.began = self.over = True
        for scope in tuple(self._waits):
            scope.cancel()

    async def empty(self) -> None:
        """Wait until nothing is in flight."""
        if self._flights:
            self._empty = anyio.Event()
            await self._empty.wait()

    def flight(self, run: Run) -> Flight:
        """`with` it around a request. One that comes after the stop is not waited for, so it cannot delay the end."""
        return Flight(self, run)

    def wait(self) -> Wait:
        """`with` it around what a cut must end. Where it was cut, the block is left without an exception."""
        return Wait(self)

    def _land(self, run: Run) -> None:
        self._flights.discard(run)
        if self._empty is not None and not self._flights:
            self._empty.set()


class Flight:
    """A request in flight. No cancel scope: it may be left in another task than it was entered in."""

    __slots__ = ("_run", "_stopping")

    def __init__(self, stopping: Stopping, run: Run) -> None:
        self._stopping, self._run = stopping, run

    def __enter__(self) -> None:
        if not self._stopping.began:
            self._stopping._flights.add(self._run)

    def __exit__(self, *_: object) -> None:
        self._stopping._land(self._run)


class Wait:
    """A cancel scope that a stop knows of. Entered and left in one task. No generator: each chunk of a stream has one."""

    __slots__ = ("_scope", "_stopping")

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping
        self._scope = anyio.CancelScope()

    @property
    def cut(self) -> bool:
        """Did the stop end it?"""
        return self._scope.cancelled_caught

    def __enter__(self) -> Wait:
        if self._stopping.over:
            self._scope.cancel()
        self._stopping._waits.add(self._scope)
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._stopping._waits.discard(self._scope)
        return bool(self._scope.__exit__(kind, error, trace))
