"""Text that a provider echoes from the prompt never changes a class: a caller could otherwise turn a stop into a move."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.classify import MOVES, Case, load
from narrows.types import Failure, FailureClass
from narrows_plugins.classify_error.generic import classify

EVERY = load()
WORDS = "rate limit exceeded context length content policy invalid api key"
ECHOES = (
    f' … your message was: "{WORDS}"',
    f"\n{WORDS}",
    " Rate limit reached for x. Please try again in 3s. Service overloaded. Request timed out.",
    ' {"error": {"code": "rate_limit_exceeded", "type": "server_error", "message": "Overloaded"}}',
    '\ndata: {"error": {"code": 429}}',
    " Error code: 429 - {'error': {'message': 'rate limit'}}",
    " litellm.RateLimitError: rate limit. Usage limit reached, try again in 5 minutes",
    " 余额不足 请求过于频繁",
)
_TEXT_MEMBERS = ("message", "Message", "msg", "errorMessage", "detail", "error")


@pytest.mark.parametrize("echo", ECHOES)
def test_an_echo_behind_the_providers_words_changes_nothing(echo: str) -> None:
    changed = []
    for case in EVERY:
        before, after = classify(case.failure), classify(_appended(case, echo))
        assert before is not None
        if after is None or (after.failure_class, after.endpoint_dead) != (before.failure_class, before.endpoint_dead):
            changed.append((case.id, before, after))
    assert changed == []


@pytest.mark.parametrize("echo", ECHOES)
def test_members_that_hold_input_are_not_read(echo: str) -> None:
    for case in EVERY:
        before = classify(case.failure)
        after = classify(_beside(case, echo))
        assert after == before, case.id


@pytest.mark.parametrize("echoed", ["rate limit exceeded", "The server is overloaded", "Request timed out", "too many requests",
                                    "gpt is temporarily rate-limited", '{"error": {"code": "rate_limit_exceeded"}}'])  # fmt: skip
@pytest.mark.parametrize(
    "template",
    [
        "Invalid user message={{'role': 'user', 'content': '{}'}}",
        "messages[0].content must be a string, got {}",
        "'{}' is not of type 'array' - 'messages'",
        '"{}" is not one of ["system", "user"]',
        "“{}” is not a valid role",
        "Invalid value: '{}'. Supported values are: 'system', 'assistant', 'user'.",
        "Input should be a valid list [type=list_type, input_value='{}', input_type=str]",
        "Failed to deserialize the JSON body: unknown variant `{}`",
        "Template rendering failed: {}",
        "Unexpected token in: {}",
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_quoted_prompt_does_not_make_a_bad_request_move(template: str, echoed: str, status: int) -> None:
    message = template.format(echoed)
    bodies = (
        {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": None}},
        {"error": {"message": message, "code": status}},
        {"error": message},
        {"detail": [{"type": "value_error", "loc": ["body", "messages"], "msg": message, "input": echoed}]},
        {"error": {"message": "Provider returned error", "code": status, "metadata": {"raw": message}}},
    )
    for body in bodies:
        answer = classify(Failure("openai_compatible", status=status, body=json.dumps(body).encode()))
        assert answer is not None
        assert answer.failure_class not in MOVES, body


@pytest.mark.parametrize("text", [WORDS, '{"error": {"code": 429, "message": "rate limit"}}', "content_filter"])
def test_what_the_model_wrote_is_never_read(text: str) -> None:
    reply = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    refusal = json.loads(json.dumps(reply))
    refusal["choices"][0]["finish_reason"] = "content_filter"
    assert classify(Failure("openai_compatible", "finish", 200, body=json.dumps(reply).encode())) is None
    answer = classify(Failure("openai_compatible", "finish", 200, body=json.dumps(refusal).encode()))
    assert answer is not None
    assert answer.failure_class is FailureClass.CONTENT_POLICY


def _appended(case: Case, echo: str) -> Failure:
    """The case with the echo behind every text that is a message, at any depth, JSON in a text included."""
    return _edited(case, lambda node: _with_texts(node, echo), lambda text: text + echo)


def _beside(case: Case, echo: str) -> Failure:
    members = {
        "input": echo,
        "failed_generation": echo,
        "flagged_input_copy": echo,
        "prompt": [{"error": echo}],
        "ctx": echo,
    }
    return _edited(case, lambda node: _with_members(node, members), lambda text: text)


def _edited(case: Case, edit: Callable[[Any], Any], edit_text: Callable[[str], str]) -> Failure:
    if not case.failure.body.strip():
        return case.failure
    try:
        node = json.loads(case.failure.body)
    except ValueError:
        return replace(case.failure, body=edit_text(case.failure.body.decode()).encode())
    return replace(case.failure, body=json.dumps(edit(node), ensure_ascii=False).encode())


def _with_texts(node: Any, echo: str) -> Any:
    if isinstance(node, list):
        return [_with_texts(item, echo) for item in node]
    if not isinstance(node, dict):
        return node
    edited = {key: _with_texts(value, echo) for key, value in node.items()}
    for key in _TEXT_MEMBERS:
        if isinstance(edited.get(key), str):
            edited[key] += echo
    raw = edited.get("raw")
    if isinstance(raw, str):
        try:
            edited["raw"] = json.dumps(_with_texts(json.loads(raw), echo))
        except ValueError:
            edited["raw"] = raw if raw.startswith("data:") else raw + echo
    return edited


def _with_members(node: Any, members: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_with_members(item, members) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _with_members(value, members) for key, value in node.items()} | members
