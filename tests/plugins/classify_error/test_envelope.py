"""Every envelope of the catalogue, each around the same error: the class does not depend on the wrapping."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows.types import Classified, Failure, FailureClass, Phase
from narrows_plugins.classify_error.envelope import layers_of, unwrap
from narrows_plugins.classify_error.generic import classify

TOO_LONG = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."
INNER = {"error": {"message": TOO_LONG, "type": "invalid_request_error", "param": None, "code": None}}
RAW = json.dumps(INNER)


def asked(body: Any, status: int | None = 400, phase: Phase = "response", **headers: str) -> Classified | None:
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return classify(Failure("openai_compatible", phase, status, headers, raw))


@pytest.mark.parametrize(
    "body",
    [
        INNER,
        {"error": TOO_LONG},
        {"object": "error", "message": TOO_LONG, "type": "BadRequestError", "code": 400},
        [INNER],
        {"error": INNER},
        {"error": {"error": {"error": {"message": TOO_LONG}}, "code": 400}},
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": RAW, "provider_name": "X"}}},
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": TOO_LONG}}},
        {"error": {"message": "Provider returned error", "metadata": {"raw": f"data: {RAW}\n\n"}}},
        {"error": {"message": "Provider returned error", "metadata": {"raw": json.dumps([INNER])}}},
        {"detail": TOO_LONG},
        {"detail": INNER},
        {"detail": [{"loc": ["body"], "msg": TOO_LONG, "type": "value_error"}]},
        {"message": TOO_LONG},
        {"Message": TOO_LONG},
        {"errorMessage": TOO_LONG},
        {"message": INNER},
        {"message": {"detail": TOO_LONG}},
        {"message": RAW},
        {"error": RAW},
        {"errors": [{"message": TOO_LONG, "code": 7003}]},
        {"base_resp": {"status_code": 2013, "status_msg": TOO_LONG}},
        {"error": {"message": f"litellm.BadRequestError: OpenAIException - {TOO_LONG}", "code": "400"}},
        {"error": {"message": f"litellm.BadRequestError: XException - {RAW}. Received Model Group=x", "code": "400"}},
        {"error": {"message": f"Error code: 400 - {INNER}", "code": "500"}},
        f"data: {RAW}\n\ndata: [DONE]\n\n",
        f"event: error\ndata: {RAW}\n\n",
        TOO_LONG,
        b"\xef\xbb\xbf" + RAW.encode(),
        json.dumps(INNER, ensure_ascii=True).replace("'", "\\u2019"),
    ],
)
def test_one_error_in_every_envelope(body: Any) -> None:
    answer = asked(body)
    assert answer is not None
    assert answer.failure_class is FailureClass.CONTEXT_LENGTH
    assert answer.evidence == "message"


@pytest.mark.parametrize("code", [429, "429"])
def test_a_code_of_digits_is_a_status(code: int | str) -> None:
    answer = asked({"error": {"message": "?", "code": code}}, status=200)
    assert answer == Classified(FailureClass.RATE_LIMITED, evidence="status")


@pytest.mark.parametrize("code", [None, "", "weird_new_code", 5, -1, True, 1e9, {"a": 1}])
def test_a_code_that_says_nothing_leaves_it_to_the_status(code: object) -> None:
    assert asked({"error": {"message": "?", "code": code}}) == Classified(
        FailureClass.INVALID_REQUEST, evidence="status"
    )
    assert asked({"error": {"message": "?", "code": code}}, 503) == Classified(
        FailureClass.SERVER_ERROR, evidence="status"
    )


def test_code_outranks_type_and_type_outranks_text_and_text_the_status() -> None:
    error = {"message": "Rate limit reached", "type": "overloaded_error", "code": "invalid_api_key"}
    assert asked({"error": error}) == Classified(FailureClass.AUTHENTICATION, True, evidence="code")
    del error["code"]
    assert asked({"error": error}) == Classified(FailureClass.SERVER_ERROR, evidence="type")
    del error["type"]
    assert asked({"error": error}) == Classified(FailureClass.RATE_LIMITED, evidence="message")
    error["message"] = "?"
    assert asked({"error": error}) == Classified(FailureClass.INVALID_REQUEST, evidence="status")


def test_a_typed_detail_outranks_them_all() -> None:
    error = {
        "message": "Rate limit",
        "type": "rate_limit_error",
        "details": {"error_code": "contract_spend_limit_reached"},
    }
    assert asked({"error": error}, 429) == Classified(FailureClass.AUTHENTICATION, True, evidence="detail")


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    "error",
    [
        {"code": "rate_limit_exceeded"},
        {"type": "server_error", "message": "Overloaded"},
        {"code": 429, "message": "Too many requests"},
        {"type": "usage_limit_reached", "resets_in_seconds": 5},
        {"code": "timeout"},
    ],
)
def test_403_and_401_stop_whatever_they_say(status: int, error: dict[str, Any]) -> None:
    wrapped = {"error": {"code": status, "metadata": {"raw": json.dumps({"error": error})}}}
    for body, told in (({"error": error}, status), (wrapped, 200), (wrapped, 502)):
        answer = asked(body, told)
        assert answer is not None
        assert answer.failure_class is FailureClass.AUTHENTICATION
    allowed = asked({"error": error}, 503)  # the same body does move with another status
    assert allowed is not None
    assert allowed.failure_class in {FailureClass.RATE_LIMITED, FailureClass.SERVER_ERROR, FailureClass.TIMEOUT}


def test_a_dead_endpoint_at_403_needs_a_typed_word() -> None:
    told = "Your API key does not have permission to use the specified resource."
    assert asked("<html>Forbidden</html>", 403) == Classified(FailureClass.AUTHENTICATION, False, evidence="status")
    assert asked({"error": {"message": told}}, 403) == Classified(
        FailureClass.AUTHENTICATION, False, evidence="message"
    )
    typed = asked({"error": {"message": told, "type": "permission_error"}}, 403)
    assert typed == Classified(FailureClass.AUTHENTICATION, True, evidence="message")
    assert asked({"error": {"message": told}}, 401) == Classified(FailureClass.AUTHENTICATION, True, evidence="message")


@pytest.mark.parametrize("status", [301, 302, 307, 308, 399])
def test_a_redirect_stops(status: int) -> None:
    answer = asked({"error": {"code": "rate_limit_exceeded"}}, status, location="https://elsewhere.example")
    assert answer == Classified(FailureClass.INVALID_REQUEST, evidence="status")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "\n\n\n",
        "<!DOCTYPE html><p>Sign in",
        '{"id": "x", "choices": [{"mes',
        "{}",
        "[]",
        "null",
        '{"foo": 1}',
        "oops",
    ],
)
def test_a_200_that_is_no_answer_is_a_server_error(body: str) -> None:
    assert asked(body, 200) == Classified(FailureClass.SERVER_ERROR, evidence="body")


@pytest.mark.parametrize(
    "body",
    [
        {"id": "x", "object": "chat.completion", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]},
        {
            "id": "x",
            "error": None,
            "choices": [{"message": {"content": "", "refusal": None}, "finish_reason": "tool_calls"}],
        },
        {"object": "list", "data": [{"embedding": [0.1]}]},
        {"choices": [{"message": {"content": "hi"}, "finish_reason": "length"}], "base_resp": {"status_code": 0}},
        {"object": "response", "status": "completed", "error": None, "output": [], "incomplete_details": None},
    ],
)
def test_a_normal_answer_is_no_failure(body: Any) -> None:
    assert asked(body, 200) is None
    assert asked(body, 200, "finish") is None
    assert asked(body, None, "stream_event") is None


@pytest.mark.parametrize(
    "reason", ["content_filter", "safety", "SAFETY", "refusal", "sensitive", "guardrail_intervened"]
)
def test_a_refusal_that_arrives_as_success(reason: str) -> None:
    phases: tuple[Phase, ...] = ("response", "finish", "stream_event")
    for phase in phases:
        answer = asked({"choices": [{"delta": {}, "finish_reason": reason}]}, 200, phase)
        assert answer == Classified(FailureClass.CONTENT_POLICY, evidence="finish")


def test_the_other_forms_of_refusal_as_success() -> None:
    bodies: tuple[Any, ...] = (
        {"choices": [{"message": {"content": None, "refusal": "I can't help."}, "finish_reason": "stop"}]},
        {"choices": [{"finish_reason": "length"}, {"finish_reason": "error"}, {"finish_reason": "content_filter"}]},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []},
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}},
        {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
        {"type": "response.refusal.delta", "delta": "I"},
    )
    for body in bodies:
        assert asked(body, 200, "finish") == Classified(FailureClass.CONTENT_POLICY, evidence="finish"), body


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {"error": {"message": "Provider disconnected", "code": 502}, "choices": [{"finish_reason": "error"}]},
            "server_error",
        ),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "server_error"),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "?"}, "rate_limited"),
        (
            {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "?"}}},
            "content_policy",
        ),
        ({"x_groq": {"error": "over capacity"}, "choices": []}, "server_error"),
        ({"error": {"message": "?", "type": "invalid_request_error"}}, "invalid_request"),
        ({"error": "something new"}, "server_error"),
    ],
)
def test_an_error_event_inside_a_stream(event: Any, expected: str) -> None:
    for status in (200, None):
        answer = asked(event, status, "stream_event")
        assert answer is not None
        assert answer.failure_class == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("connect_timeout", "timeout"),
        ("read_timeout", "timeout"),
        ("connect_error", "server_error"),
        ("protocol_error", "server_error"),
        ("stream_cut", "server_error"),
        ("something_new", "server_error"),
    ],
)
def test_a_transport_failure(kind: str, expected: str) -> None:
    for status in (None, 200):
        answer = classify(Failure("openai_compatible", status=status, body=b'{"error": {"code": 400}}', transport=kind))
        assert answer == Classified(FailureClass(expected), evidence="transport")


def test_a_cut_error_body_does_not_hide_the_status_that_arrived() -> None:
    answer = classify(Failure("openai_compatible", status=403, body=b'{"error": {"mess', transport="stream_cut"))
    assert answer == Classified(FailureClass.AUTHENTICATION, evidence="status")


def test_deep_wrapping_ends() -> None:
    body: Any = {"error": {"code": "rate_limit_exceeded"}}
    for _ in range(40):
        body = {"error": json.dumps(body)} if len(json.dumps(body)) < 5_000 else {"error": body}
    assert len(layers_of(unwrap(json.dumps(body).encode()))) <= 9


@pytest.mark.parametrize(
    "code", ["invalid_timeout", "unsupported_rate_limit", "missing_timeout", "image_download_timeout"]
)
def test_a_code_about_a_parameter_does_not_move(code: str) -> None:
    assert asked({"error": {"code": code}}) == Classified(FailureClass.INVALID_REQUEST, evidence="status")
    moving = asked({"error": {"code": f"upstream_{code.partition('_')[2]}"}})
    assert moving is not None
    assert moving.failure_class in {FailureClass.TIMEOUT, FailureClass.RATE_LIMITED}
