"""The decision: the metadata record of one request. Never content, never a credential.

Shape: D of INTERFACES. Everything a reader needs to derive the outcome again: who, under which policy, what was
demanded and by whom, who was excluded by what and why, the order, each attempt.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import msgspec

from narrows.errors import RouteExhausted
from narrows.types import Json, LabelValue, Price

CLIP: Final = 128
"""The most characters of a text that a client or a host chose. A longer one ends in a digest of the whole."""
_DIGITS: Final = 16
_SHORTENED = re.compile(r"~[0-9a-f]{16}\Z")
"""How a clipped text ends. One that somebody wrote so is clipped too: else who chose it would be taken for another."""

Outcome: TypeAlias = Literal[
    "answered", "refused", "upstream_error", "upstream_incomplete", "client_disconnected", "decided"
]


@dataclass(frozen=True, slots=True)
class Excluded:
    """One target that one rule removed, and why."""

    target: str
    constraint: str
    code: str
    why: str

    def document(self) -> dict[str, Json]:
        """The exclusion as JSON."""
        return {"target": self.target, "constraint": self.constraint, "code": self.code, "why": self.why}


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """What the request said of one attribute. `assumed`: nobody said, so it is read as every declared value."""

    values: tuple[str, ...]
    sources: tuple[str, ...]
    assumed: bool = False

    def document(self) -> dict[str, Json]:
        """The attribute as JSON."""
        return {"values": list(self.values), "sources": list(self.sources), "assumed": self.assumed}


@dataclass(frozen=True, slots=True)
class Demanded:
    """One demand as the record keeps it: plain JSON."""

    constraint: str
    demand: Json
    source: Literal["said", "assumed", "carried"]

    def document(self) -> dict[str, Json]:
        """The demand as JSON."""
        return {"constraint": self.constraint, "demand": self.demand, "source": self.source}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a target declares beside its labels, as the rules read it. Windows in tokens, prices in micro-USD per million
    tokens; None = not declared. Of a capability that is not named nothing is known: capable."""

    capabilities: Mapping[str, bool] = field(default_factory=dict)
    context_window: int | None = None
    max_output_tokens: int | None = None
    price: Price = Price()

    def document(self) -> dict[str, Json]:
        """The facts as JSON."""
        return {
            "capabilities": dict(self.capabilities),
            "context_window": self.context_window,
            "max_output_tokens": self.max_output_tokens,
            "price": msgspec.to_builtins(self.price),
        }


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One upstream call. `failure_class` is "ok" or a failure class; times in milliseconds from the request's start;
    `usage`: "reported" by the provider or "estimated" by us."""

    n: int
    target: str
    provider: str
    kind: str
    failure_class: str
    status: int | None
    purpose: Literal["answer", "judge"] = "answer"
    endpoint_dead: bool = False
    evidence: str = ""
    started_ms: int = 0
    duration_ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usage: Literal["reported", "estimated"] = "estimated"
    cost_micro_usd: int | None = None

    def document(self) -> dict[str, Json]:
        """The row as JSON."""
        return {
            "n": self.n,
            "target": self.target,
            "provider": self.provider,
            "kind": self.kind,
            "purpose": self.purpose,
            "class": self.failure_class,
            "status": self.status,
            "endpoint_dead": self.endpoint_dead,
            "evidence": self.evidence,
            "started_ms": self.started_ms,
            "duration_ms": self.duration_ms,
            "tokens": {"input": self.input_tokens, "output": self.output_tokens, "cached": self.cached_tokens},
            "usage": self.usage,
            "cost_micro_usd": self.cost_micro_usd,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """One request, decided. `ts`: seconds since 1970, UTC. `document()` gives the JSON of INTERFACES.

    `message`: what an exhausted route told its caller; no part of the document. `session`: the digest of the name that
    the caller gave its conversation, never the name. `labels`, `facts`: of every target that the caller is granted.
    """

    id: str
    ts: float
    policy: str
    principal: str | None
    tenant: str | None
    route: str | None
    outcome: Outcome
    status: int
    code: str
    message: str = ""
    session: str | None = None
    request_id: str | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    demands: tuple[Demanded, ...] = ()
    labels: Mapping[str, Mapping[str, LabelValue]] = field(default_factory=dict)
    facts: Mapping[str, Facts] = field(default_factory=dict)
    excluded: tuple[Excluded, ...] = ()
    shadow: tuple[Excluded, ...] = ()
    waived: tuple[Excluded, ...] = ()
    order: tuple[str, ...] = ()
    algorithm: str = ""
    rank_reason: str = ""
    rank_signals: Mapping[str, Json] = field(default_factory=dict)
    attempts: tuple[AttemptRow, ...] = ()
    blocked_fallback: bool = False

    @property
    def cost_micro_usd(self) -> int:
        """What the attempts cost together, as far as it is known."""
        return sum(attempt.cost_micro_usd or 0 for attempt in self.attempts)

    def require(self) -> None:
        """Raise RouteExhausted unless a target was, or may be, used."""
        if self.outcome == "refused":
            raise RouteExhausted(self.code, self.message or self.code, self.excluded)

    def document(self) -> dict[str, Json]:
        """The decision as JSON, in the shape D of INTERFACES."""
        return {
            "id": self.id,
            "ts": self.ts,
            "policy": self.policy,
            "principal": self.principal,
            "tenant": self.tenant,
            "route": self.route,
            "session": self.session,
            "request_id": self.request_id,
            "attributes": {name: said.document() for name, said in self.attributes.items()},
            "demands": [row.document() for row in self.demands],
            "labels": {name: {key: _json(value) for key, value in row.items()} for name, row in self.labels.items()},
            "facts": {name: row.document() for name, row in self.facts.items()},
            "outcome": self.outcome,
            "status": self.status,
            "code": self.code,
            "excluded": [row.document() for row in self.excluded],
            "shadow": [row.document() for row in self.shadow],
            "waived": [row.document() for row in self.waived],
            "order": list(self.order),
            "rank": {"algorithm": self.algorithm, "reason": self.rank_reason, "signals": dict(self.rank_signals)},
            "attempts": [attempt.document() for attempt in self.attempts],
            "cost_micro_usd": self.cost_micro_usd,
            "blocked_fallback": self.blocked_fallback,
        }


def _json(value: LabelValue) -> Json:
    return list(value) if isinstance(value, tuple) else value


def clipped(text: str) -> str:
    """A text of somebody else's as the record keeps it: at most `CLIP` characters, all of them such as UTF-8 has, two
    texts never alike. A host's user name may hold lone surrogates, which no JSON and no database takes."""
    kept = text.encode("utf-8", "replace").decode()
    if len(text) <= CLIP and kept == text and not _SHORTENED.search(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{kept[: CLIP - _DIGITS - 1]}~{digest}"


def session_digest(principal: str, name: str) -> str | None:
    """What the record keeps of a session's name: 32 hex digits, others for every principal. None for an empty name,
    which is nobody's."""
    name = name.strip()
    if not name:
        return None
    pair = json.dumps([principal, name]).encode()
    return hashlib.blake2b(pair, digest_size=16, person=b"narrows session").hexdigest()
