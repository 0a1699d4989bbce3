"""`record`, `start` and `stop`."""

from __future__ import annotations

import json
from pathlib import Path

from anyio.to_thread import run_sync

from narrows import Decision, Services, Sink, hookimpl


class ProbeFile(Sink):
    """Writes one line of JSON for each hook that it is asked: {"hook": …, "decision": …}.

    Options: `path`, of a file that may exist.
    """

    path: str

    @hookimpl
    async def start(self, services: Services) -> None:
        """Says so."""
        await self._write({"hook": "start"})

    @hookimpl
    async def record(self, decision: Decision) -> None:
        """Keeps it. In a thread: a disk may be slow, and an event loop must not wait for it."""
        await self._write({"hook": "record", "decision": decision.document()})

    @hookimpl
    async def stop(self) -> None:
        """Says so."""
        await self._write({"hook": "stop"})

    async def _write(self, row: dict[str, object]) -> None:
        await run_sync(self._append, json.dumps(row) + "\n")

    def _append(self, line: str) -> None:
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(line)
