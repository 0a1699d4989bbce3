"""The last decisions, in memory: what is read where no sink keeps them. Thread-safe; lost with the process."""

from __future__ import annotations

import threading
from collections import deque

from narrows.decision import Decision
from narrows.ledger.reading import Document, Gap, Page, Query

KEPT = 1_000


class Memory:
    """A `Reader` over the last `kept` decisions."""

    def __init__(self, kept: int = KEPT) -> None:
        self._decisions: deque[Decision] = deque(maxlen=kept)
        self._policies: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, decision: Decision, policy: str) -> None:
        """Keep it. `policy`: the canonical text of the policy it was made under."""
        with self._lock:
            self._decisions.append(decision)
            self._policies.setdefault(decision.policy, policy)

    def decisions(self, query: Query) -> Page:
        """A page, newest first."""
        with self._lock:
            kept = list(self._decisions)
        found: list[Decision] = []
        behind = query.before is None
        for decision in reversed(kept):
            if not behind:
                behind = decision.id == query.before
            elif _matches(decision, query):
                found.append(decision)
                if len(found) > query.limit:
                    break
        page = found[: query.limit]
        return Page(tuple(one.document() for one in page), page[-1].id if len(found) > len(page) and page else None)

    def decision(self, key: str) -> Document | None:
        """The one of that id, or None."""
        with self._lock:
            found = next((one for one in self._decisions if one.id == key), None)
        return found.document() if found is not None else None

    def policy(self, digest: str) -> str | None:
        """The policy's canonical text, or None."""
        with self._lock:
            return self._policies.get(digest)

    def gaps(self, since: float | None = None) -> tuple[Gap, ...]:
        """None: what fell out of memory is not missing, it is old."""
        return ()


def _matches(decision: Decision, query: Query) -> bool:
    return (
        (query.principal is None or decision.principal == query.principal)
        and (query.session is None or decision.session == query.session)
        and (query.since is None or decision.ts >= query.since)
    )
