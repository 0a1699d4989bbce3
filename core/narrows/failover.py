"""The closed failure table: what each class of failure permits, and the next step after a failed attempt.

Everything here is pure: no clock, no I/O, no state. The attempt loop of the pipeline asks `next_step` and obeys. Attempts
are bounded by targets × (1 + retries), and a target that was left is never entered again, because each step hands back the
candidates that remain. Source: DESIGN section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from narrows.types import Classified, FailureClass, Target


class Disposition(StrEnum):
    """What the table says of a class: the request may move on to another candidate, or it stops here."""

    MOVE = "move"
    STOP = "stop"


def disposition(failure_class: FailureClass) -> Disposition:
    """The closed table. An eighth class fails the type check here until somebody decides what it permits."""
    match failure_class:
        case FailureClass.TIMEOUT | FailureClass.RATE_LIMITED | FailureClass.SERVER_ERROR:
            return Disposition.MOVE
        case (
            FailureClass.CONTENT_POLICY
            | FailureClass.AUTHENTICATION
            | FailureClass.CONTEXT_LENGTH
            | FailureClass.INVALID_REQUEST
        ):
            return Disposition.STOP
    assert_never(failure_class)


MOVING: frozenset[FailureClass] = frozenset(
    failure_class for failure_class in FailureClass if disposition(failure_class) is Disposition.MOVE
)
ENDPOINT_DEAD = "endpoint_dead"
CONTEXT_LENGTH = "context_length"
WORDS: tuple[str, ...] = (*sorted(MOVING), ENDPOINT_DEAD, CONTEXT_LENGTH)
"""What a route's `failover_on` may hold."""

UNANSWERED = "unanswered"
"""The evidence of a verdict that no classifier gave."""

_FIRST_DELAY = 0.5
"""Seconds before the first repeat; doubled for each further one. The official clients' figure."""


@dataclass(frozen=True, slots=True)
class FailoverRule:
    """What one route lets move. `moves`: classes of the table that may. `endpoint_dead`: also to another credential when
    the endpoint is dead. `context_length`: also to a strictly larger window. `max_retries`: repeats on one target."""

    moves: frozenset[FailureClass] = MOVING
    endpoint_dead: bool = False
    context_length: bool = False
    max_retries: int = 1

    @classmethod
    def from_option(cls, failover_on: Iterable[str] | None, max_retries: int = 1) -> FailoverRule:
        """The rule of the route option `failover_on`; None (left out) is the three moving classes, [] moves nothing.

        Raises ValueError that names the word: it is none of `WORDS`. content_policy can never be opted in.
        """
        if failover_on is None:
            return cls(max_retries=max_retries)
        words = tuple(failover_on)
        for word in words:
            if word not in WORDS:
                refusal = " A provider's refusal never moves." if word == FailureClass.CONTENT_POLICY else ""
                raise ValueError(f"failover_on cannot hold {word!r}.{refusal} It takes {', '.join(WORDS)}")
        return cls(
            moves=frozenset(failure_class for failure_class in MOVING if failure_class in words),
            endpoint_dead=ENDPOINT_DEAD in words,
            context_length=CONTEXT_LENGTH in words,
            max_retries=max_retries,
        )


def merge(answers: Iterable[tuple[str, Classified]]) -> Classified:
    """One classification of all plugins' answers (plugin name, answer): what permits least wins.

    content_policy beats every answer, and any stop beats any move; among stops one that no route can opt in beats one
    that a route can. Between equals the first in hook order wins. The facts (`endpoint_dead`, `retry_after`) are the
    winner's. Nobody answered: invalid_request, which stops.
    """
    # min() keeps the first of equals.
    winner = min((answer for _, answer in answers), key=_permits, default=None)
    return Classified(FailureClass.INVALID_REQUEST, evidence=UNANSWERED) if winner is None else winner


def _permits(answer: Classified) -> int:
    """How much an answer could ever permit: 0 nothing, whatever the route says; more for what a route may opt in."""
    if answer.failure_class is FailureClass.CONTENT_POLICY:
        return 0
    if disposition(answer.failure_class) is Disposition.MOVE:
        return 5
    return 1 + 2 * answer.endpoint_dead + (answer.failure_class is FailureClass.CONTEXT_LENGTH)


def may_move(rule: FailoverRule, classified: Classified, here: Target, there: Target, credentials_differ: bool) -> bool:
    """May a request that failed like this at `here` be sent to `there`? Both are eligible; this asks only about failure.

    `credentials_differ`: the two targets' providers use different credentials. A window that is not declared is not
    known to be larger.
    """
    if classified.failure_class is FailureClass.CONTENT_POLICY:
        return False
    if classified.failure_class in rule.moves:
        return True
    if rule.endpoint_dead and classified.endpoint_dead and credentials_differ:
        return True
    if rule.context_length and classified.failure_class is FailureClass.CONTEXT_LENGTH:
        return _larger(here.context_window, there.context_window)
    return False


def _larger(here: int | None, there: int | None) -> bool:
    return here is not None and there is not None and there > here


def backoff(attempt: int, retry_after: float | None, cap: float) -> float:
    """Seconds to wait before repeat number `attempt` (from 1): half a second doubled each time, at least what the
    provider asks for, at most `cap`."""
    delay = _FIRST_DELAY * 2.0 ** min(max(attempt, 1) - 1, 30)
    return min(max(delay, retry_after or 0.0), cap)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try the same target again after `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class Next:
    """Leave for `target`; `left` are the candidates after it. What was passed over is not among them."""

    target: Target
    left: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """The caller gets this failure."""


Step: TypeAlias = Retry | Next | Stop
Differ: TypeAlias = Callable[[Target, Target], bool]
"""Do the credentials of two targets differ?"""


def next_step(
    rule: FailoverRule,
    classified: Classified,
    *,
    here: Target,
    left: Sequence[Target],
    retried: int,
    cap: float,
    credentials_differ: Differ,
    started: bool = False,
) -> Step:
    """What follows a failed attempt at `here`.

    `left`: eligible candidates not entered yet, in order. `retried`: repeats already made at `here`. `cap`: the longest
    wait before a repeat, in seconds. `started`: the first byte has reached the caller, after which nothing moves.

    rate_limited leaves at once while another candidate may be tried, and is repeated only at the last. timeout and
    server_error are repeated first. A stop is never repeated; it moves only where the route opted in.
    """
    if started:
        return Stop()
    onward = tuple(there for there in left if may_move(rule, classified, here, there, credentials_differ(here, there)))
    leaves_first = classified.failure_class is FailureClass.RATE_LIMITED and bool(onward)
    repeats = disposition(classified.failure_class) is Disposition.MOVE and retried < rule.max_retries
    if repeats and not leaves_first:
        return Retry(backoff(retried + 1, classified.retry_after, cap))
    return Next(onward[0], onward[1:]) if onward else Stop()
