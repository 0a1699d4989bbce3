"""How decisions are read again: one small protocol, answered by memory and by every sink that can be read.

Readers are synchronous and may block: they are called in a worker thread, never on the event loop. Source: DESIGN
section 10, INTERFACES `GET /v1/decisions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from narrows.errors import NarrowsError
from narrows.types import Json

Document: TypeAlias = Mapping[str, Json]
"""A decision as JSON, in the shape D of INTERFACES."""
MOST = 200
"""The most decisions of one page."""


class LedgerUnavailable(NarrowsError):
    """What was kept cannot be read now: the store is locked, gone, or of a version that is newer than this program's."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which decisions. Newest first. `before`: the id of a decision; only older ones. `since`: seconds since 1970.
    `principal` None: everybody's (the command line, operators). `session`: the digest that the record keeps."""

    limit: int = 50
    before: str | None = None
    since: float | None = None
    principal: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some decisions, newest first. `next`: what `before` is for the page behind it, None where there is none."""

    data: tuple[Document, ...] = ()
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of time of which decisions are missing. `since`, `until`: seconds since 1970. `count` None: nobody
    knows. `reason`: a closed word: "queue_full", "unauthenticated" (more requests of nobody than have a share),
    "write_failed", "not_stopped" (a process was killed)."""

    since: float
    until: float
    count: int | None
    reason: str


class Reader(Protocol):
    """Where kept decisions are read. Each method may block and raises LedgerUnavailable."""

    def decisions(self, query: Query) -> Page:
        """A page of them."""

    def decision(self, key: str) -> Document | None:
        """The one of that id, or None."""

    def policy(self, digest: str) -> str | None:
        """The canonical text of the policy of that digest, or None where it was not kept."""

    def gaps(self, since: float | None = None) -> tuple[Gap, ...]:
        """What is known to be missing, oldest first."""
