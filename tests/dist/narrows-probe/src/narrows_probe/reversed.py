"""`rank`."""

from __future__ import annotations

from collections.abc import Sequence

from narrows import Candidates, Consult, Ranker, Request, Target, hookimpl


class ProbeReversed(Ranker):
    """The last target first."""

    @hookimpl
    def rank(self, request: Request, candidates: Candidates, consult: Consult) -> Sequence[Target]:
        """All of them, backwards."""
        return tuple(reversed(tuple(candidates)))
