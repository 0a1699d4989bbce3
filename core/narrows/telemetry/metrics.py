"""What is counted, as INTERFACES names it. One `Metrics` per gateway, nothing shared. Source: DESIGN section 10.

Plain dictionaries, not the metrics of prometheus_client: those cost more, and where PROMETHEUS_MULTIPROC_DIR is set in
a host's environment they live in files, in which two gateways of one process would be one. `metrics_exposition` writes
what is counted here in Prometheus' formats when somebody asks.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from narrows.decision import AttemptRow, Decision
from narrows.errors import STATUS
from narrows.telemetry import metrics_table as table
from narrows.telemetry.metrics_table import Metric
from narrows.types import FailureClass

OTHER: Final = "other"
"""The label of whatever is not configured. Callers can mint names, never series."""
OK: Final = "ok"
CODES: Final = frozenset({OK, *STATUS})
CLASSES: Final = (OK, *FailureClass)
TOKEN_TYPES: Final = ("input", "output", "cached")
MOST_CODES: Final = 64
"""Distinct exclusion codes of one constraint. Plugins make their own codes; what comes after these is `other`."""
ZEROES: Final = 1000
"""A family of at most so many series exists from the start, at 0: an alert on its increase sees the first one."""

L = TypeVar("L", bound=tuple[str, ...])
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
Labels: TypeAlias = tuple[str, ...]
Hooks: TypeAlias = Mapping[tuple[str, str], int]
NO_LABELS: Final[Labels] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. `policy`: steps 1 to 10, without the reading of the body, None where the caller left meanwhile.
    `first_chunk`: to the first byte of a target's answer, None where there was none. `total`: to the last byte."""

    policy: float | None
    first_chunk: float | None
    total: float


@dataclass(frozen=True, slots=True)
class Known:
    """The names of a configuration. `routes`: each with the plugins that narrow it. `hooks`: each plugin, hook by hook."""

    routes: Mapping[str, tuple[str, ...]]
    targets: tuple[str, ...]
    hooks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What others count, read at a scrape: by plugin and hook, and what the ledger's queues dropped and hold."""

    violations: Hooks
    errors: Hooks
    dropped: int
    queued: int


@dataclass(frozen=True, slots=True)
class Family:
    """One metric and its series at one moment: a number each; of a histogram the count in each bucket, then the sum."""

    metric: Metric
    series: Mapping[Labels, int | Sequence[float]] | Hooks


class Metrics:
    """Counts requests. It survives a reload and a restart of its gateway. Used in the gateway's event loop alone."""

    def __init__(self, known: Known) -> None:
        self._requests: Counter[Labels] = Counter()
        self._excluded: Counter[Labels] = Counter()
        self._blocked: Counter[Labels] = Counter()
        self._attempts: Counter[Labels] = Counter()
        self._tokens: Counter[Labels] = Counter()
        self._micro_usd: Counter[Labels] = Counter()
        self._hooks: dict[tuple[str, str], int] = {}
        self._request_secs = Histogram(table.REQUEST_SECS.buckets)
        self._first_chunk = Histogram(table.FIRST_CHUNK.buckets)
        self._policy = Histogram(table.POLICY.buckets, [NO_LABELS])
        self._routes: dict[str, frozenset[str]] = {}  # each with what narrows it
        self._targets: frozenset[str] = frozenset()
        self._plugins: frozenset[str] = frozenset()
        self._codes: dict[str, set[str]] = {}
        self.know(known)

    def know(self, known: Known) -> None:
        """The names of the configuration in force from now on; those of earlier ones stay."""
        for route, names in known.routes.items():
            self._routes[route] = self._routes.get(route, frozenset()).union(names)
        self._targets |= frozenset(known.targets)
        self._plugins |= {plugin for plugin, _ in known.hooks}
        routes, targets = known.routes, known.targets
        _begin(self._requests, [(route, OK) for route in (*routes, OTHER)])
        _begin(self._blocked, [(route, name) for route, names in routes.items() for name in names])
        _begin(self._attempts, [(target, one) for target in targets for one in CLASSES])
        _begin(self._tokens, [(target, one) for target in targets for one in TOKEN_TYPES])
        _begin(self._micro_usd, [(target,) for target in targets])
        _begin(self._hooks, known.hooks)

    def decided(self, decision: Decision, timings: Timings) -> None:
        """Count one request. Never waits, never raises."""
        route = decision.route if decision.route in self._routes else OTHER
        self._requests[route, decision.code if decision.code in CODES else OTHER] += 1
        self._request_secs.observe((route,), timings.total)
        if timings.policy is not None:
            self._policy.observe(NO_LABELS, timings.policy)
        if timings.first_chunk is not None:
            self._first_chunk.observe((route,), timings.first_chunk)
        if decision.excluded:
            self._narrowed(route, decision)
        for row in decision.attempts:
            self._attempted(row)

    def _narrowed(self, route: str, decision: Decision) -> None:
        counts: dict[tuple[str, str], int] = {}
        for row in decision.excluded:
            reason = row.constraint, row.code
            counts[reason] = counts.get(reason, 0) + 1
        for (constraint, code), targets in counts.items():
            self._excluded[route, self._plugin(constraint), self._code(constraint, code)] += targets
        if decision.blocked_fallback:
            rules = self._routes.get(route, frozenset())  # what money removed is no rule's doing
            for name in rules.intersection(row.constraint for row in decision.excluded):
                self._blocked[route, name] += 1

    def _attempted(self, row: AttemptRow) -> None:
        target = row.target if row.target in self._targets else OTHER
        self._attempts[target, row.failure_class] += 1
        if row.input_tokens or row.output_tokens:
            self._tokens[target, "input"] += row.input_tokens
            self._tokens[target, "output"] += row.output_tokens
            self._tokens[target, "cached"] += row.cached_tokens
        if row.cost_micro_usd:
            self._micro_usd[target,] += row.cost_micro_usd

    def _plugin(self, name: str) -> str:
        return name if name in self._plugins else OTHER

    def _code(self, constraint: str, code: str) -> str:
        """The code, if it is a word and among the first so many of its constraint."""
        seen = self._codes.setdefault(self._plugin(constraint), set())
        if code in seen:
            return code
        if len(seen) >= MOST_CODES or _CODE.fullmatch(code) is None:
            return OTHER
        seen.add(code)
        return code

    def families(self, elsewhere: Elsewhere) -> tuple[Family, ...]:
        """Everything counted so far, copied: it may be written out in another thread."""
        return (
            Family(table.REQUESTS, dict(self._requests)),
            Family(table.EXCLUDED, dict(self._excluded)),
            Family(table.BLOCKED_FALLBACK, dict(self._blocked)),
            Family(table.ATTEMPTS, dict(self._attempts)),
            Family(table.REQUEST_SECS, self._request_secs.copy()),
            Family(table.POLICY, self._policy.copy()),
            Family(table.FIRST_CHUNK, self._first_chunk.copy()),
            Family(table.TOKENS, dict(self._tokens)),
            Family(table.COST, dict(self._micro_usd)),
            Family(table.VIOLATIONS, {**self._hooks, **elsewhere.violations}),
            Family(table.PLUGIN_ERRORS, {**self._hooks, **elsewhere.errors}),
            Family(table.DROPPED, {NO_LABELS: elsewhere.dropped}),
            Family(table.QUEUED, {NO_LABELS: elsewhere.queued}),
        )


class Histogram:
    """How many observations fell into each bucket, and their sum. `series`: those that exist from the start."""

    __slots__ = ("_bounds", "_rows")

    def __init__(self, bounds: tuple[float, ...], series: Iterable[Labels] = ()) -> None:
        self._bounds = bounds
        self._rows: dict[Labels, list[float]] = {labels: self._row() for labels in series}

    def observe(self, labels: Labels, seconds: float) -> None:
        """Count one. The last bucket holds what is above all bounds."""
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = self._row()
        row[bisect_left(self._bounds, seconds)] += 1
        row[-1] += seconds

    def copy(self) -> dict[Labels, Sequence[float]]:
        """Every series as it is now."""
        return {labels: tuple(row) for labels, row in self._rows.items()}

    def _row(self) -> list[float]:
        return [0.0] * (len(self._bounds) + 2)


def _begin(counts: dict[L, int], series: Sequence[L]) -> None:
    """Let these exist, unless they are many."""
    if len(series) <= ZEROES:
        for labels in series:
            counts.setdefault(labels, 0)
