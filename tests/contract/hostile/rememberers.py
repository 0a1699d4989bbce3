"""`narrow` hooks that keep a set of candidates and use it when it is not theirs any more."""

from __future__ import annotations

from pydantic import PrivateAttr

from narrows import Block, Candidates, Classified, Failure, Request, Target, hookimpl


class Remembers(Block):
    """Answers its second call with what it was offered in its first: a cache whose key lacks what matters.

    Options: `act`.
    """

    act: str

    _kept: list[Candidates] = PrivateAttr(default_factory=list)

    @hookimpl
    def narrow(self, request: Request, candidates: Candidates) -> Candidates | None:
        """Nothing removed at first; later what was right then."""
        if self.act not in request.attributes.get("act", frozenset()):
            return None
        self._kept.append(candidates)
        return self._kept[0]


class WidensLater(Block):
    """Keeps the set that it was offered, or the one that it answered, and widens that when the first target has failed.

    Options: `act`, `answers`: does it answer with a set, or with None?
    """

    act: str
    answers: bool

    _kept: list[Candidates] = PrivateAttr(default_factory=list)

    @hookimpl
    def narrow(self, request: Request, candidates: Candidates) -> Candidates | None:
        """An honest answer."""
        self._kept.clear()
        if self.act not in request.attributes.get("act", frozenset()):
            return None
        answer = candidates.without(list(candidates)[-1], "unwanted", "it is not wanted") if self.answers else None
        self._kept.append(candidates if answer is None else answer)
        return answer

    @hookimpl
    def classify_error(self, failure: Failure, target: Target) -> Classified | None:
        """No opinion. But now failover will look for what is left."""
        for kept in self._kept:
            object.__setattr__(kept, "_mask", (1 << len(kept._pool)) - 1)
        return None
