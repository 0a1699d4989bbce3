"""The limits that docs/explanation/failover.md admits are so: when one is mended, the page has to change."""

from __future__ import annotations

import pytest

from narrows import Failure, FailureClass, classify
from narrows.failover import MOVING
from tests.docs.pages import FAILOVER, page

LIMITS = " ".join(page(FAILOVER).section("Limits").split())
REFUSAL = b'{"error": {"message": "I cannot help with this request."}}'


@pytest.mark.parametrize(
    ("admitted", "status", "expected", "moves"),
    [
        ("A refusal as a bare 400 is recorded as an invalid request.", 400, FailureClass.INVALID_REQUEST, False),
        ("A refusal sent as a 5xx is moved on.", 500, FailureClass.SERVER_ERROR, True),
    ],
)
def test_an_admitted_limit_is_so(admitted: str, status: int, expected: FailureClass, moves: bool) -> None:
    assert admitted in LIMITS
    found = classify("openai_compatible", Failure("openai_compatible", status=status, body=REFUSAL)).failure_class
    assert found is expected
    assert (found in MOVING) == moves


def test_a_refusal_that_says_so_is_none_of_these() -> None:
    body = b'{"error": {"message": "I cannot help with this request.", "code": "content_policy_violation"}}'
    failure = Failure("openai_compatible", status=400, body=body)
    assert classify("openai_compatible", failure).failure_class is FailureClass.CONTENT_POLICY


def test_the_trade_is_named_and_can_be_counted() -> None:
    assert "Availability is traded away." in LIMITS
    assert "`narrows_blocked_fallback_total`" in LIMITS
