"""The few things a rule can say, named once so that the tables stay readable.

A verdict is a class plus two facts. Who decided what, and why: money, plans and entitlements are `authentication`, because
no wait cures them and a silent move would hand the bill to another vendor; a missing model is `invalid_request`, because
the class must stop while the flag tells health; a `clocked` limit is a throttle while it reopens soon, and money otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from narrows import FailureClass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says. `clocked`: read as a throttle where the failure itself states a short wait. `typed`: at a 403
    its `endpoint_dead` counts only with a typed word beside it, because an edge or a guardrail writes texts too."""

    failure_class: FailureClass
    endpoint_dead: bool = False
    clocked: bool = False
    typed: bool = False


TIMED_OUT = Verdict(FailureClass.TIMEOUT)
THROTTLED = Verdict(FailureClass.RATE_LIMITED)
BROKEN = Verdict(FailureClass.SERVER_ERROR)
REFUSED = Verdict(FailureClass.CONTENT_POLICY)
TOO_LONG = Verdict(FailureClass.CONTEXT_LENGTH)
INVALID = Verdict(FailureClass.INVALID_REQUEST)
MISSING = Verdict(FailureClass.INVALID_REQUEST, endpoint_dead=True)
FORBIDDEN = Verdict(FailureClass.AUTHENTICATION)
BAD_KEY = Verdict(FailureClass.AUTHENTICATION, endpoint_dead=True, typed=True)
NO_MONEY = Verdict(FailureClass.AUTHENTICATION, endpoint_dead=True)
USED_UP = Verdict(FailureClass.AUTHENTICATION, endpoint_dead=True, clocked=True)

MOVES = frozenset({FailureClass.TIMEOUT, FailureClass.RATE_LIMITED, FailureClass.SERVER_ERROR})
"""The classes that may send a request on to another target. Rules that answer one of these are held to more proof."""
