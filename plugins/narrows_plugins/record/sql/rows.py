"""A decision as rows. Made in the sink's thread: turning it into JSON costs more than all else that is done with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from narrows import Decision
from narrows_plugins.record.sql.database import Row

MOST: Final = 2**63 - 1
"""The largest number that SQLite holds. A vendor may report any."""
KNOWN: Final = 1_000


class Documents:
    """Makes the JSON of decisions. Labels and facts are one object for all decisions of a route and its callers, and more
    than half of the JSON: theirs is made once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, msgspec.Raw]] = {}  # by identity; held, so that no other gets the number

    def encoded(self, decision: Decision) -> str:
        """The whole record. Raises where it cannot be text (a lone surrogate in what a plugin says)."""
        described = {"labels": decision.labels, "facts": decision.facts}
        if not all(id(part) in self._known for part in described.values()):
            document = decision.document()
            if len(self._known) >= KNOWN:
                self._known.clear()
            for name, part in described.items():
                self._known[id(part)] = part, msgspec.Raw(msgspec.json.encode(document[name]))
        rest: dict[str, Any] = replace(decision, labels={}, facts={}).document()
        rest |= {name: self._known[id(part)][1] for name, part in described.items()}
        return msgspec.json.encode(rest).decode()


def decision_row(decision: Decision, document: str) -> Row:
    """The row of `decisions`. `document`: all of it as JSON."""
    return {
        "id": decision.id,
        "ts": decision.ts,
        "principal": decision.principal,
        "tenant": decision.tenant,
        "route": decision.route,
        "session": decision.session,
        "policy": decision.policy,
        "outcome": decision.outcome,
        "status": decision.status,
        "code": decision.code,
        "cost_micro_usd": min(decision.cost_micro_usd, MOST),
        "blocked_fallback": decision.blocked_fallback,
        "document": document,
    }


def attempt_rows(decision: Decision) -> list[Row]:
    """The rows of `attempts`: one an upstream call, each with an id that no other has."""
    return [
        {
            "id": f"{decision.id}/{place}",
            "decision": decision.id,
            "n": attempt.n,
            "ts": decision.ts + attempt.started_ms / 1000,
            "target": attempt.target,
            "provider": attempt.provider,
            "kind": attempt.kind,
            "purpose": attempt.purpose,
            "class": attempt.failure_class,
            "status": attempt.status,
            "started_ms": attempt.started_ms,
            "duration_ms": attempt.duration_ms,
            "input_tokens": min(attempt.input_tokens, MOST),
            "output_tokens": min(attempt.output_tokens, MOST),
            "cached_tokens": min(attempt.cached_tokens, MOST),
            "usage": attempt.usage,
            "cost_micro_usd": None if attempt.cost_micro_usd is None else min(attempt.cost_micro_usd, MOST),
        }
        for place, attempt in enumerate(decision.attempts, 1)
    ]
