"""The classifier reads what strangers send. Whatever that is, it answers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.types import Classified, Failure, FailureClass
from narrows_plugins.classify_error.generic import classify

# fmt: off
KEYS = (
    "error", "errors", "message", "msg", "detail", "code", "type", "status",
    "error_code", "details", "reason", "violations", "quotaId", "quotaValue", "metadata", "raw",
    "limit_source", "reasons", "flagged_input", "headers", "choices", "finish_reason", "refusal", "delta",
    "response", "base_resp", "status_code", "innererror", "content_filter_result", "retry_after", "resets_at", "retryDelay",
    "incomplete_details", "output", "content", "candidates", "promptFeedback",
)
# fmt: on
WORDS = (
    "rate_limit_exceeded",
    "429",
    "1113",
    "data: {}",
    '{"error": {"code": 500}}',
    "[]",
    "content_filter",
    "",
    "…",
    "Error: ",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=25,
)
headers = st.dictionaries(
    st.sampled_from(
        (
            "retry-after",
            "retry-after-ms",
            "date",
            "x-ratelimit-reset-tokens",
            "x-ratelimit-remaining-tokens",
            "x-amzn-errortype",
            ":exception-type",
            "content-type",
        )
    ),
    st.text(max_size=40)
    | st.sampled_from(("20", "Wed, 21 Oct 2015 07:28:00 GMT", "2026-01-01T00:00:00Z", "1e400", "-1", "1m3s")),
    max_size=4,
)
phases = st.sampled_from(("response", "stream_event", "finish"))
statuses = st.none() | st.integers(100, 599) | st.sampled_from((200, 400, 401, 403, 404, 429, 500))
transports = st.none() | st.sampled_from(("connect_error", "read_timeout", "stream_cut", "something new"))


def check(failure: Failure) -> None:
    answer = classify(failure, now=1_760_000_000.0)
    assert answer is None or isinstance(answer, Classified)
    if answer is None:
        assert failure.status is None or failure.status < 300
        return
    assert answer.retry_after is None or 0 <= answer.retry_after < float("inf")
    if failure.status == 403:
        assert answer.failure_class not in {FailureClass.TIMEOUT, FailureClass.RATE_LIMITED, FailureClass.SERVER_ERROR}


@given(st.binary(max_size=300), phases, statuses, headers, transports)
@settings(max_examples=150, deadline=None)
def test_any_bytes(body: bytes, phase: Any, status: int | None, head: dict[str, str], transport: str | None) -> None:
    check(Failure("openai_compatible", phase, status, head, body, transport))


@given(json_values, phases, statuses, headers)
@settings(max_examples=300, deadline=None)
def test_any_json(value: Any, phase: Any, status: int | None, head: dict[str, str]) -> None:
    check(Failure("openai_compatible", phase, status, head, json.dumps(value).encode(errors="surrogatepass")))


@given(json_values)
@settings(max_examples=100, deadline=None)
def test_any_json_without_a_clock_of_the_test(value: Any) -> None:
    answer = classify(Failure("openai_compatible", status=429, body=json.dumps(value).encode(errors="surrogatepass")))
    assert answer is not None


def test_nesting_deeper_than_any_error() -> None:
    for body in (b"[" * 60_000, b'{"error":' * 20_000, b'{"error":' * 900 + b"1" + b"}" * 900):
        answer = classify(Failure("openai_compatible", status=400, body=body))
        assert answer is not None
        assert answer.failure_class is FailureClass.INVALID_REQUEST


def test_a_body_of_64_kib_of_one_letter_is_read_at_once() -> None:
    for letter in ("a", "a ", "the ", "error: ", "a.", "' "):
        text = letter * (65_536 // len(letter))
        body = json.dumps({"error": {"message": text, "code": text}}).encode()
        answer = classify(Failure("openai_compatible", status=500, body=body))
        assert answer is not None
