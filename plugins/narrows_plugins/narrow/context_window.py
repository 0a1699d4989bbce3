"""`context_window`: a target whose declared window is certainly too small cannot answer the request. On every route.

The prompt's size is known only within bounds, so its floor is compared. A demand is not that number but the largest
declared window below it: few distinct demands, so verdicts are remembered. Source: DESIGN sections 4 and 8.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from pydantic import field_validator

from narrows import Constraint, Exclusion, Request, Target

CODE: Final = "context_window"


def too_small(target: Target, tokens: int) -> bool:
    """Is the declared window at most this many tokens, all of which are below what the prompt needs?"""
    return target.context_window is not None and target.context_window <= tokens


class ContextWindow(Constraint[int]):
    """Only targets whose context window can hold the prompt.

    Options: `thresholds`, every declared window in tokens. The configuration fills them in.
    """

    reads = frozenset({"sizes"})

    thresholds: tuple[int, ...] = ()
    """Every declared window, in tokens. The configuration fills them in."""

    @field_validator("thresholds")
    @classmethod
    def _ascending(cls, thresholds: tuple[int, ...]) -> tuple[int, ...]:
        if any(tokens < 1 for tokens in thresholds):
            raise ValueError("must be windows of 1 token or more")
        return tuple(sorted(set(thresholds)))

    def demands(self, request: Request) -> Iterable[int]:
        """The largest threshold that the prompt certainly exceeds, if there is one."""
        below = bisect_left(self.thresholds, request.sizes.at_least)
        return self.thresholds[below - 1 : below] if below else ()

    def excludes(self, demand: int, target: Target) -> Exclusion | None:
        """`context_window`."""
        if not too_small(target, demand):
            return None
        return Exclusion(CODE, "has a context window too small for the prompt")
