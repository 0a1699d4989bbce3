"""From the first signal to the moment at which the process may end: drain, cut, and hang up on who does not listen.

Asked again and again, it does what is due. Three steps, each with an end: what is in flight may finish within the grace;
then it is cut, and callers have a second to take that; then the connections of those who did not are closed, and what
this leaves is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from narrows.gateway import CUT_SECS
from narrows.recording import LEAVE_SECS

if TYPE_CHECKING:
    from narrows.gateway import Gateway

NEVER: Final = math.inf
TURNS: Final = 10
"""How often it is asked, at the least, between the cut and hanging up. On a machine that gives the process no time a
second may be over before the loop has told anybody."""


class Connection(Protocol):
    """One of the server's connections."""

    @property
    def transport(self) -> Any: ...


class Draining:
    """The end of one run. `connections`: those that are open now, asked for at every step."""

    def __init__(
        self,
        gateway: Gateway,
        grace: float,
        connections: Callable[[], Iterable[Connection]],
        clock: Callable[[], float],
    ) -> None:
        """`grace`: seconds."""
        self._gateway, self._grace, self._connections, self._clock = gateway, grace, connections, clock
        self._cut_at = self._hang_up_at = self._give_up_at = NEVER
        self._signals = self._turns = 0

    @property
    def began(self) -> bool:
        """Was the process told to end?"""
        return self._signals > 0

    def signal(self) -> bool:
        """The process is told to end: drain. Told again, do not wait for the grace. Told a third time: False, end at
        once. Only sets what `over` looks at: a signal's handler may have interrupted anything."""
        self._signals += 1
        self._gateway.drain()
        self._cut_at = self._clock() + (self._grace if self._signals == 1 else 0.0)
        return self._signals < 3

    def over(self) -> bool:
        """Do what is due. May the process end?"""
        if not self._gateway.in_flight and not self._unsent():
            return True
        now = self._clock()
        if now >= self._cut_at and self._hang_up_at is NEVER:
            self._gateway.cut()
            self._hang_up_at = now + CUT_SECS
        if self._hang_up_at is not NEVER:
            self._turns += 1
        if now >= self._hang_up_at and self._turns > TURNS and self._give_up_at is NEVER:
            for connection in list(self._connections()):
                connection.transport.abort()
            self._give_up_at = now + LEAVE_SECS
        return now >= self._give_up_at

    def _unsent(self) -> bool:
        """Has a caller an answer still to read that is ready?"""
        return any(connection.transport.get_write_buffer_size() for connection in self._connections())
