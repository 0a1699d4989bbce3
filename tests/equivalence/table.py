"""The table: every guarantee for every provider kind. Keyed by types, so that it cannot go stale.

Both matches are exhaustive. A new kind does not pass the type check until it has a row here, and then every guarantee is
asked of it; a new guarantee not until it has a check, and then it is asked of every kind. test_guard.py runs the real
type check on both omissions: a guard that nothing compiles is a comment. One inbound dialect exists today; the next one
becomes a third enum here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

from tests.equivalence import bodies, callers, failures, plugins, records, rules
from tests.equivalence.bench import Bench
from tests.equivalence.guarantees import Guarantee
from tests.equivalence.kinds import Kind
from tests.equivalence.upstreams import EchoUpstreams, OpenAICompatibleUpstreams, Upstreams

Row: TypeAlias = type[Upstreams]
Check: TypeAlias = Callable[[Bench], Awaitable[None]]


def row(kind: Kind) -> Row:
    """How upstreams of this kind are made, scripted and watched."""
    match kind:
        case Kind.OPENAI_COMPATIBLE:
            return OpenAICompatibleUpstreams
        case Kind.ECHO:
            return EchoUpstreams
    assert_never(kind)


def check(guarantee: Guarantee) -> Check:
    """How this guarantee is asked of a kind."""
    match guarantee:
        case Guarantee.UNAUTHENTICATED:
            return callers.unauthenticated
        case Guarantee.GRANTS:
            return callers.grants
        case Guarantee.ATTRIBUTE_FORBIDDEN:
            return callers.attribute_forbidden
        case Guarantee.BOUND_ATTRIBUTE:
            return callers.bound_attribute
        case Guarantee.OBJECTION:
            return plugins.objection
        case Guarantee.CREDENTIALS_STAY:
            return callers.credentials_stay
        case Guarantee.RESIDENCY:
            return rules.residency
        case Guarantee.SILENCE:
            return rules.silence
        case Guarantee.SILENCE_REFUSED:
            return rules.silence_refused
        case Guarantee.CAPABILITY:
            return rules.capability
        case Guarantee.CONTEXT_WINDOW:
            return rules.context_window
        case Guarantee.PRICE_CEILING:
            return rules.price_ceiling
        case Guarantee.ALLOWED_CLASSES:
            return rules.allowed_classes
        case Guarantee.BROKEN_RULE:
            return plugins.broken_rule
        case Guarantee.NO_WIDENING:
            return plugins.no_widening
        case Guarantee.MONEY:
            return plugins.money
        case Guarantee.NO_PASS_THROUGH:
            return bodies.no_pass_through
        case Guarantee.UNREADABLE_BODY:
            return bodies.unreadable_body
        case Guarantee.REFUSED_FIELD:
            return bodies.refused_field
        case Guarantee.MODEL:
            return bodies.model
        case Guarantee.JUDGED_IS_SENT:
            return bodies.judged_is_sent
        case Guarantee.CONTENT_REFUSAL_STOPS:
            return failures.content_refusal_stops
        case Guarantee.KEY_FAULT_STOPS:
            return failures.key_fault_stops
        case Guarantee.LONG_PROMPT_STOPS:
            return failures.long_prompt_stops
        case Guarantee.BAD_REQUEST_STOPS:
            return failures.bad_request_stops
        case Guarantee.MOVES_INSIDE_THE_SET:
            return failures.moves_inside_the_set
        case Guarantee.LEAVING:
            return failures.leaving
        case Guarantee.RECORD:
            return records.record
        case Guarantee.NO_CONTENT_KEPT:
            return records.no_content_kept
        case Guarantee.EXPLAIN:
            return records.explain
    assert_never(guarantee)


ROWS: Mapping[Kind, Row] = MappingProxyType({kind: row(kind) for kind in Kind})
CHECKS: Mapping[Guarantee, Check] = MappingProxyType({guarantee: check(guarantee) for guarantee in Guarantee})


async def measure(guarantee: Guarantee, kind: Kind) -> None:
    """One cell. Raises AssertionError where the guarantee does not hold, and where its control is missing."""
    with ROWS[kind]() as upstreams:
        bench = Bench(kind, upstreams)
        await CHECKS[guarantee](bench)
        bench.done()
