"""The last decisions, in memory: what is read where no sink keeps them. Thread-safe; lost with the process."""

from __future__ import annotations

import threading
from collections import deque

from narrows.decision import Decision
from narrows.ledger.reading import Document, Gap, Page, Query

KEPT = 1_000
STRANGERS = 100
"""How many of them may be requests of nobody (a 401): a flood of strangers pushes no caller's decision out."""


class Memory:
    """A `Reader` over the last `kept` decisions of callers, and the last `strangers` of nobody."""

    def __init__(self, kept: int = KEPT, strangers: int = STRANGERS) -> None:
        self._decisions: deque[Decision] = deque(maxlen=kept)
        self._strangers: deque[Decision] = deque(maxlen=strangers)
        self._policies: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, decision: Decision, policy: str) -> None:
        """Keep it. `policy`: the canonical text of the policy it was made under."""
        with self._lock:
            (self._strangers if decision.principal is None else self._decisions).append(decision)
            self._policies.setdefault(decision.policy, policy)

    def decisions(self, query: Query) -> Page:
        """A page, newest first: by time of arrival, then by id."""
        matching = sorted((one for one in self._all() if _matches(one, query)), key=_place, reverse=True)
        places = [_place(one) for one in matching if one.id == query.before]
        if query.before is not None:
            matching = [one for one in matching if places and _place(one) < places[0]]
        found = matching[: query.limit + 1]
        page = found[: query.limit]
        return Page(tuple(one.document() for one in page), page[-1].id if len(found) > len(page) and page else None)

    def decision(self, key: str) -> Document | None:
        """The one of that id, or None."""
        found = next((one for one in self._all() if one.id == key), None)
        return found.document() if found is not None else None

    def policy(self, digest: str) -> str | None:
        """The policy's canonical text, or None."""
        with self._lock:
            return self._policies.get(digest)

    def gaps(self, since: float | None = None) -> tuple[Gap, ...]:
        """None: what fell out of memory is not missing, it is old."""
        return ()

    def _all(self) -> list[Decision]:
        with self._lock:
            return [*self._decisions, *self._strangers]


def _place(decision: Decision) -> tuple[float, str]:
    return decision.ts, decision.id


def _matches(decision: Decision, query: Query) -> bool:
    return (
        (query.principal is None or decision.principal == query.principal)
        and (query.session is None or decision.session == query.session)
        and (query.since is None or decision.ts >= query.since)
    )
