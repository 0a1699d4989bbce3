"""Every span and attribute name, in one place. GenAI semantic conventions pinned at 0.66b2 (status: development)."""

from __future__ import annotations

from typing import Final, NamedTuple

TRACER: Final = "narrows"

OPERATION: Final = "gen_ai.operation.name"
"""`chat`."""
PROVIDER: Final = "gen_ai.provider.name"
"""The kind of the provider that is asked."""
REQUEST_MODEL: Final = "gen_ai.request.model"
"""Request span: the route. Attempt span: the model that the vendor is asked for."""
RESPONSE_MODEL: Final = "gen_ai.response.model"
"""The model that the vendor says it answered with."""
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""Tokens of the prompt: what the vendor reported, else our estimate."""
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
"""Tokens of the answer: what the vendor reported, else our estimate."""
ERROR_TYPE: Final = "error.type"
"""What went wrong: the failure class on an attempt, the code on a request and on a stage, the type of the exception on a
plugin's call (`cancelled` where it was given up), the status or the type of the error on an HTTP call. Left out where
nothing did."""

DECISION_ID: Final = "narrows.decision.id"
"""The decision's id, as in the header `x-narrows-decision`."""
POLICY: Final = "narrows.policy"
"""The digest of the policy that decided."""
ROUTE: Final = "narrows.route"
"""The route. Left out where none exists for this caller."""
OUTCOME: Final = "narrows.outcome"
"""What became of the request: `answered`, `refused`, `upstream_error`, `upstream_incomplete`, `client_disconnected`."""
CODE: Final = "narrows.code"
"""`ok` or the stable code; on a stage only where the request ended there; on an exclusion event the exclusion's code."""
OFFERED: Final = "narrows.targets.offered"
"""The names of the targets in the route's pool, less those that the caller is not granted."""
ELIGIBLE: Final = "narrows.targets.eligible"
"""The names of the targets that the rules left."""
ORDER: Final = "narrows.order"
"""The names of the eligible targets in the order in which they are asked."""
TARGET: Final = "narrows.target"
"""The name of the target that this attempt asked."""
ATTEMPT: Final = "narrows.attempt"
"""The number of the attempt, from 1."""
COST: Final = "narrows.cost_micro_usd"
"""What the attempt cost, in millionths of a USD."""

EXCLUSION_EVENT: Final = "narrows.exclusion"
"""The event: one for each constraint that removed something, and each of its codes."""
CONSTRAINT: Final = "narrows.constraint"
"""The name of the constraint that removed."""
TARGETS: Final = "narrows.targets"
"""The names of the targets that it removed."""

PLUGIN: Final = "narrows.plugin"
"""The name of the plugin that is called."""
HOOK: Final = "narrows.hook"
"""The hook that it is called for."""

HTTP_METHOD: Final = "http.request.method"
"""The method of the HTTP call."""
HTTP_STATUS: Final = "http.response.status_code"
"""The status that the vendor answered with. Left out where there was no answer."""
URL: Final = "url.full"
"""Scheme, host and port of the vendor: a path or a query may hold a key."""
SERVER_ADDRESS: Final = "server.address"
"""The vendor's host."""
SERVER_PORT: Final = "server.port"
"""The vendor's port, where the URL names one."""

CHAT: Final = "chat"
"""The operation, and what the names of the request's and the attempts' spans begin with."""

AUTHENTICATE: Final = "authenticate"
"""Stage 1: who is calling."""
READ: Final = "read"
"""Stage 2: the body, as it arrives, and what of it decides."""
RESOLVE: Final = "resolve"
"""Stage 3: the route, the granted targets, the attributes."""
OBLIGE: Final = "oblige"
"""Stage 4: what the attributes demand."""
AUTHORIZE: Final = "authorize"
"""Stage 5: whether a plugin objects."""
BUDGET: Final = "budget"
"""Stage 6: the allowances."""
NARROW: Final = "narrow"
"""Stage 7: what the rules remove."""
HOLD: Final = "hold"
"""Stage 8: the money that is held."""
RANK: Final = "rank"
"""Stage 10: the order of what is left."""


class SpanName(NamedTuple):
    """One kind of span. `name`: as a collector shows it. `kind`: OpenTelemetry's. `detail`: the words of
    `[telemetry] detail` at which it exists. `below`: its parent. `attributes`, `events`: what may be on it."""

    name: str
    meaning: str
    kind: str
    detail: tuple[str, ...]
    below: str
    attributes: tuple[str, ...]
    events: tuple[str, ...] = ()


SPANS: Final = (
    SpanName(
        "chat {route}", "one request for a model, from its arrival to the last byte of its answer",
        "SERVER; INTERNAL in a host", ("request", "stages", "plugins"),
        "the caller's span (`traceparent`); in a host, the host's current span",
        (OPERATION, REQUEST_MODEL, DECISION_ID, POLICY, ROUTE, OUTCOME, CODE, OFFERED, ELIGIBLE, ORDER, ERROR_TYPE),
        (EXCLUSION_EVENT,),
    ),
    SpanName(
        "chat {model}", "one attempt: one upstream call, to its last byte", "CLIENT", ("request", "stages", "plugins"),
        "the request",
        (OPERATION, PROVIDER, REQUEST_MODEL, RESPONSE_MODEL, INPUT_TOKENS, OUTPUT_TOKENS, TARGET, ATTEMPT, COST, ERROR_TYPE),
    ),
    SpanName(
        "{stage}", "one stage before the first upstream call: authenticate, read, resolve, oblige, authorize, budget, "
        "narrow, hold, rank", "INTERNAL", ("stages", "plugins"), "the request", (CODE, ERROR_TYPE),
    ),
    SpanName(
        "{method}", "the HTTP call of an attempt, to the end of the answer's headers", "CLIENT", ("stages", "plugins"),
        "the attempt", (HTTP_METHOD, HTTP_STATUS, URL, SERVER_ADDRESS, SERVER_PORT, ERROR_TYPE),
    ),
    SpanName(
        "{hook} {plugin}", "one call of one plugin", "INTERNAL", ("plugins",),
        "the stage; for dispatch and classify_error the attempt; for record the request", (PLUGIN, HOOK, ERROR_TYPE),
    ),
)  # fmt: skip
"""Every kind of span. The reference is made of it."""

EVENTS: Final = ((EXCLUSION_EVENT, (CONSTRAINT, CODE, TARGETS)),)
"""Every event, and the attributes that are on it."""
