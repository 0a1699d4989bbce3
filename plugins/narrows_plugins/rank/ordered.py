"""`ordered`: the order in which the route lists its targets. The default of every route."""

from __future__ import annotations

from narrows import Candidates, Consult, Ranker, Request, hookimpl


class Ordered(Ranker):
    """Targets in the order of the file. No options."""

    @hookimpl
    def rank(self, request: Request, candidates: Candidates, consult: Consult) -> None:
        """Keeps the order."""
