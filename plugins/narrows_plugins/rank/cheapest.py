"""`cheapest`: the target first on which this request is expected to cost least.

    [routes.chat]
    targets = ["a", "b", "c"]
    algorithm = "cheapest"

    [routes.chat.cheapest]
    expected_output_tokens = 500                    # optional: of an answer without a limit; 1,024

Expected is: the prompt at four bytes a token times the input price, and the caller's own output limit (else
`expected_output_tokens`, and never more than the target can give) times the output price, times n. Equal costs keep the
order of the file; a target without a price comes last. Source: DESIGN section 8.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from narrows import Candidates, Consult, Ranked, Ranker, Request, Target, expected_cost, hookimpl, micro_from_pico


class Cheapest(Ranker):
    """Orders by what this request is expected to cost."""

    expected_output_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 1024
    """How long an answer is taken to be where the caller sets no limit."""

    @hookimpl
    def rank(self, request: Request, candidates: Candidates, consult: Consult) -> Ranked:
        """Every candidate: free ones, the priced by their cost, then those of which nothing is known."""
        sizes = request.sizes
        priced: list[tuple[int, Target]] = []
        unpriced: list[Target] = []
        for target in candidates:
            cost = expected_cost(sizes.at_most, sizes.max_output, sizes.n, self.expected_output_tokens, target)
            if cost is None:
                unpriced.append(target)
            else:
                priced.append((cost, target))
        priced.sort(key=lambda pair: pair[0])
        signals = {"unpriced": len(unpriced)}
        if priced:
            signals["expected_micro_usd"] = micro_from_pico(priced[0][0])
        return Ranked([*(target for _, target in priced), *unpriced], "expected_cost", signals)
