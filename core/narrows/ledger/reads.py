"""Asking a store from the event loop: in a worker thread, a bounded number of them, for a bounded time.

A store that hangs costs its reader an error and nobody else anything. Source: DESIGN section 10.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from narrows.ledger.reading import LedgerUnavailable

READ_SECS: Final = 5.0
"""The longest that a caller waits for a store."""
PLACES: Final = 8
"""Reads at the same time. One that hangs keeps its place until its store answers, if ever."""
T = TypeVar("T")


class Reads:
    """The places for reading. One per gateway."""

    def __init__(self, places: int = PLACES, seconds: float = READ_SECS) -> None:
        self._free = threading.BoundedSemaphore(places)
        self._seconds = seconds

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer, from a worker thread. Raises LedgerUnavailable where no place is free, or none came in time."""
        if not self._free.acquire(blocking=False):
            raise LedgerUnavailable("too many readers are waiting for the store")
        place = _Place(self._free)
        try:
            with anyio.move_on_after(self._seconds):
                return await anyio.to_thread.run_sync(
                    place.work, question, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
                )
        finally:
            place.give_up()
        raise LedgerUnavailable(f"the store did not answer within {self._seconds:g} s")


class _Place:
    """One place, given back once: by the thread at its end, or by who waited where no thread ever began.

    anyio counts a thread that was abandoned as ended on asyncio and as running on trio; so we count ourselves.
    """

    def __init__(self, free: threading.BoundedSemaphore) -> None:
        self._free, self._lock = free, threading.Lock()
        self._begun = self._given_up = False

    def work(self, question: Callable[[], T]) -> T:
        """In the thread."""
        with self._lock:
            if self._given_up:
                raise LedgerUnavailable("nobody waits for this any more")
            self._begun = True
        try:
            return question()
        finally:
            self._free.release()

    def give_up(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            if not self._begun and not self._given_up:
                self._free.release()
            self._given_up = True
