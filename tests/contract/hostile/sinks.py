"""`record` hooks that fail, and one that keeps what it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from narrows import Decision, Sink, hookimpl

SECRET = "text of an exception"


class Records(Sink):
    """Fails in its own way where the request says so.

    Options: `act`.
    """

    act: str

    @hookimpl
    def record(self, decision: Decision) -> Any:
        """Whatever the act does."""
        said = decision.attributes.get("act")
        if said is None or self.act not in said.values:
            return None
        if self.act == "record_raises":
            raise RuntimeError(SECRET)
        if self.act == "record_rewrites":
            labels: Any = decision.labels
            labels["us"]["region"] = "ch"
        return anyio.sleep_forever() if self.act == "record_hangs" else None


class Keeps(Sink):
    """Writes each decision into a file, a line each. It is honest.

    Options: `path`.
    """

    path: str

    @hookimpl
    def record(self, decision: Decision) -> None:
        """Keeps it."""
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(decision.document()) + "\n")
