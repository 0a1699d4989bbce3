"""How the tests of rankers ask: for the order of one ticket, accepted by the guard as the pipeline does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from narrows import Candidates, Consult, Ranker, Request, Sizes
from narrows.candidates import Pool
from narrows.ranking import Signal, accept_order, accept_reason
from narrows.types import Json


async def nobody(judge: str, messages: Sequence[Mapping[str, Json]], schema: Mapping[str, Json]) -> Json:
    raise RuntimeError("this ranker asks nobody")


def ranked(
    ranker: Ranker, pool: Pool, ticket: int = 0, mask: int | None = None, sizes: Sizes | None = None
) -> tuple[tuple[int, ...], str, Mapping[str, Signal]]:
    """Places in the pool, best first; the reason; the signals."""
    candidates = Candidates(pool, pool.full if mask is None else mask)
    request = Request("chat", _sizes=sizes or Sizes()).with_ticket(ticket)
    answer = ranker.rank(request, candidates, cast(Consult, nobody))
    places = accept_order("ranker", candidates, answer)
    return (places, *accept_reason("ranker", candidates, answer))
