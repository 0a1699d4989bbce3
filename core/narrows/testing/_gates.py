"""Named gates: an answer waits at a `Hold` until a test lets it through. No test needs to sleep."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable


class Gates:
    """Lives in the provider's loop; only `waiting` may be read elsewhere. `changed`: called when `waiting` changes."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._passes: dict[str, asyncio.Semaphore] = {}
        self._open: set[str] = set()
        self.waiting: Counter[str] = Counter()

    async def wait(self, name: str) -> None:
        """Take one pass of that gate, or wait for one. An open gate needs none."""
        if name in self._open:
            return
        self._count(name, 1)
        try:
            await self._of(name).acquire()
        finally:
            self._count(name, -1)

    def release(self, name: str, times: int) -> None:
        """Let so many through, now or when they come."""
        for _ in range(times):
            self._of(name).release()

    def open(self, name: str) -> None:
        """Let everybody through from now on."""
        self._open.add(name)
        self.release(name, self.waiting[name])

    def _of(self, name: str) -> asyncio.Semaphore:
        return self._passes.setdefault(name, asyncio.Semaphore(0))

    def _count(self, name: str, by: int) -> None:
        self.waiting[name] += by
        self._changed()
