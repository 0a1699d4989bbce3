"""Retry hints: every notation becomes seconds; what is no hint is None; no sentence is ever read for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows.types import Classified, Failure, FailureClass
from narrows_plugins.classify_error.generic import classify

DATE = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}
NOW = 1_792_567_680.0  # the same moment


def wait(headers: dict[str, str], error: dict[str, Any] | None = None, now: float | None = None) -> float | None:
    body = json.dumps({"error": {"message": "Too many requests. Try again in 99s", **(error or {})}}).encode()
    answer = classify(Failure("openai_compatible", status=429, headers=headers, body=body), now)
    assert answer is not None
    assert answer.failure_class is FailureClass.RATE_LIMITED
    return answer.retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "86400"}, 86_400.0),
        ({"retry-after": "4", "retry-after-ms": "3890"}, 3.89),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", **DATE}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:00:00 GMT", **DATE}, 0.0),
        ({"retry-after": "2026-10-21T07:28:10Z", **DATE}, 10.0),
        ({"x-ratelimit-reset-tokens": "3.89s"}, 3.89),
        ({"x-ratelimit-reset-requests": "1m30s"}, 90.0),
        ({"x-ratelimit-reset-requests": "174ms"}, 0.174),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "12"}, None),
        (
            {
                "x-ratelimit-reset-requests": "60s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "2s",
            },
            60.0,
        ),
        ({"x-ratelimit-reset": "1792567690", **DATE}, 10.0),
        ({"x-ratelimit-reset": "1792567690000", **DATE}, 10.0),
        ({"anthropic-ratelimit-input-tokens-reset": "2026-10-21T07:28:05Z", **DATE}, 5.0),
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Wed, 99 Foo 2026 07:28:30 GMT", **DATE}, None),
    ],
)
def test_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert wait(headers) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"retry_after": 7}, 7.0),
        ({"metadata": {"retry_after_seconds": 1}}, 1.0),
        ({"resets_in_seconds": 42}, 42.0),
        ({"resets_at": 1_792_567_690}, 10.0),
        ({"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22s"}]}, 22.0),
        ({"metadata": {"headers": {"Retry-After": "3"}}}, 3.0),
        ({"metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1792567690000"}}}, 10.0),
        ({"retry_after": "later"}, None),
        ({"retry_after": True}, None),
        ({"retry_after": None}, None),
    ],
)
def test_typed_members_of_the_body(error: dict[str, Any], seconds: float | None) -> None:
    assert wait(DATE, error) == seconds
    assert wait({"retry-after": "5"} | DATE, error) == 5.0  # a header says it first


def test_a_moment_needs_a_date_to_be_read_against() -> None:
    moment = {"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}
    assert wait(moment) is None
    assert wait(moment, now=NOW) == 30.0


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (5, "rate_limited"),
        (3_600, "rate_limited"),
        (3_601, "authentication"),
        (600_000, "authentication"),
        (None, "authentication"),
    ],
)
def test_a_used_up_plan_is_a_throttle_only_while_it_reopens_soon(seconds: int | None, expected: str) -> None:
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": seconds}
    answer = classify(Failure("openai_compatible", status=429, body=json.dumps({"error": error}).encode()))
    assert answer is not None
    assert answer.failure_class == expected
    assert answer.endpoint_dead == (expected == "authentication")


def test_no_money_stays_no_money_whatever_the_hint() -> None:
    body = json.dumps({"error": {"message": "?", "code": "insufficient_quota"}}).encode()
    answer = classify(Failure("openai_compatible", status=429, headers={"retry-after": "5"}, body=body))
    assert answer == Classified(FailureClass.AUTHENTICATION, True, 5.0, "code")
