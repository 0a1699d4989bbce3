"""Every metric, in one table: its name, what it counts, its labels. The reference is generated from here.

Names and labels are fixed in INTERFACES. A label's value comes from the configuration or from a closed set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram", "info"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `help`: one sentence, as it stands in the exposition. `buckets`: upper bounds in seconds, of a
    histogram only."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


ANSWER_SECS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""From a refusal or an answer of this process to the default deadline."""
POLICY_SECS: Final = (
    0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0,
)  # fmt: skip
"""From a usual request, some 60 µs, to a plugin that waits until its deadline."""

REQUESTS: Final = Metric(
    "narrows_requests_total", "counter", ("route", "code"),
    "Requests for a model, by what became of them: ok, or a stable code.",
)  # fmt: skip
EXCLUDED: Final = Metric(
    "narrows_excluded_targets_total", "counter", ("route", "constraint", "code"),
    "Targets that a constraint removed from a request, by the constraint and its exclusion code.",
)  # fmt: skip
BLOCKED_FALLBACK: Final = Metric(
    "narrows_blocked_fallback_total", "counter", ("route", "constraint"),
    "Requests that ended in a failure which moves on, while this constraint had removed a target of their route.",
)  # fmt: skip
ATTEMPTS: Final = Metric(
    "narrows_attempts_total", "counter", ("target", "class"),
    "Upstream calls, by how they ended: ok, or a failure class.",
)  # fmt: skip
REQUEST_SECS: Final = Metric(
    "narrows_request_duration_seconds", "histogram", ("route",),
    "From a request's arrival to the last byte of its answer.", ANSWER_SECS,
)  # fmt: skip
POLICY: Final = Metric(
    "narrows_policy_duration_seconds", "histogram", (),
    "Everything that is decided before the first upstream call, without the wait for the request's body.", POLICY_SECS,
)  # fmt: skip
FIRST_CHUNK: Final = Metric(
    "narrows_time_to_first_chunk_seconds", "histogram", ("route",),
    "From a request's arrival to the first byte of a target's answer. Refusals and failures have none.", ANSWER_SECS,
)  # fmt: skip
TOKENS: Final = Metric(
    "narrows_tokens_total", "counter", ("target", "type"),
    "Tokens that upstream calls used: input, output, and cached, which is part of input.",
)  # fmt: skip
COST: Final = Metric(
    "narrows_cost_usd_total", "counter", ("target",),
    "USD that upstream calls cost, as far as their targets' prices are declared.",
)  # fmt: skip
VIOLATIONS: Final = Metric(
    "narrows_contract_violations_total", "counter", ("plugin", "hook"),
    "Answers of a plugin that broke the contract of a hook; most of them are a 500 to the caller.",
)  # fmt: skip
PLUGIN_ERRORS: Final = Metric(
    "narrows_plugin_errors_total", "counter", ("plugin", "hook"),
    "Calls of a plugin that raised or came too late.",
)  # fmt: skip
DROPPED: Final = Metric(
    "narrows_ledger_dropped_total", "counter", (),
    "Decisions that no sink has, because a queue was full or a sink failed. The ledger shows a gap.",
)  # fmt: skip
QUEUED: Final = Metric(
    "narrows_ledger_queue_entries", "gauge", (),
    "Decisions that wait to be written.",
)  # fmt: skip
BUILD: Final = Metric(
    "narrows_build_info", "info", ("version",),
    "The version of Narrows, on a series that is always 1.",
)  # fmt: skip

TABLE: Final = (
    REQUESTS, EXCLUDED, BLOCKED_FALLBACK, ATTEMPTS, REQUEST_SECS, POLICY, FIRST_CHUNK, TOKENS, COST,
    VIOLATIONS, PLUGIN_ERRORS, DROPPED, QUEUED, BUILD,
)  # fmt: skip
"""In the order of the exposition."""
