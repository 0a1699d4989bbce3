"""The hooks: what each is asked, what None means, what an exception means. Source: DESIGN section 3.

An implementation may take fewer arguments than its specification, never more; later versions only add arguments.
Synchronous implementations must not block. Asynchronous ones run under a deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pluggy

from narrows.candidates import Candidates
from narrows.decision import Decision
from narrows.errors import Problem
from narrows.ranking import Ranked
from narrows.request import Request
from narrows.types import Allowance, Classified, Denial, Failure, Identity, Inbound, Maybe, Reply, Target

if TYPE_CHECKING:
    from narrows.constraints import Attempt, CheckedConfig, Consult, Services

PROJECT: Final = "narrows"
F = TypeVar("F", bound=Callable[..., Any])

hookspec = pluggy.HookspecMarker(PROJECT)
_marker = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: F) -> F:
    """Mark a method as the implementation of the hook it is named after. It takes no options: order is the order of
    the configuration, and wrappers could swallow a refusal."""
    return _marker(function)


class Hooks:
    """The specifications. `PIPELINE` lists the eight of the request path in their order, `LIFE_CYCLE` the others."""

    @hookspec
    def authenticate(self, inbound: Inbound) -> Maybe[Identity | Denial]:
        """Who is calling, from headers alone. The first identity wins; a `Denial` for a recognised but bad credential
        ends it. None: not mine. An exception: 401, closed. Only this hook sees credentials and the host's user."""
        raise NotImplementedError

    @hookspec
    def authorize(self, request: Request) -> Maybe[Denial]:
        """May this request be served at all? Every plugin may object. None: no objection. An exception: refused."""
        raise NotImplementedError

    @hookspec
    def budget(self, request: Request) -> Maybe[Allowance | Denial]:
        """An allowance to hold money from; a `Denial` only for rate limits and closed accounts. None: no opinion.
        An exception: 503 `budget_unverifiable`."""
        raise NotImplementedError

    @hookspec
    def narrow(self, request: Request, candidates: Candidates) -> Maybe[Candidates]:
        """The candidates less those that may not be used, each with a reason. Called in sequence; each sees what is
        left. None: removes nothing. An exception: 503 `constraint_failed`, never skipped."""
        raise NotImplementedError

    @hookspec
    def rank(self, request: Request, candidates: Candidates, consult: Consult) -> Maybe[Sequence[Target] | Ranked]:
        """The preferred order: a prefix of the candidates, the rest follow in their order; `Ranked` says why, too. Exactly
        one per route. None: keep the order. An exception: configuration order inside the set, counted."""
        raise NotImplementedError

    @hookspec
    def dispatch(self, attempt: Attempt) -> Awaitable[Reply]:
        """Send one attempt with `attempt.send`, the only way out, and answer with its reply. The target's provider is
        asked. None: a violation. An exception goes to `classify_error`."""
        raise NotImplementedError

    @hookspec
    def classify_error(self, failure: Failure, target: Target) -> Classified | None:
        """What kind of failure this is. Pure; every plugin is asked; content_policy beats every answer, any stop beats
        any move. None: not mine. An exception: stop, invalid_request, counted."""
        raise NotImplementedError

    @hookspec
    def record(self, decision: Decision) -> Maybe[None]:
        """Keep the decision. Called after the last byte, off the request path; of a `Sink` in a thread of its own, again
        where it failed. An exception is counted and logged and never touches the response."""
        raise NotImplementedError

    @hookspec
    def check(self, config: CheckedConfig) -> Iterable[Problem] | None:
        """At load: problems that this plugin sees in the configuration. Opens nothing."""
        raise NotImplementedError

    @hookspec
    def start(self, services: Services) -> Maybe[None]:
        """When the gateway starts, inside its event loop. An exception refuses the start."""
        raise NotImplementedError

    @hookspec
    def stop(self) -> Maybe[None]:
        """When the gateway stops, in reverse order."""
        raise NotImplementedError


PIPELINE: Final = ("authenticate", "authorize", "budget", "narrow", "rank", "dispatch", "classify_error", "record")
LIFE_CYCLE: Final = ("check", "start", "stop")
EVERY_HOOK: Final = frozenset(PIPELINE + LIFE_CYCLE)
