"""Valid OpenAI-shaped bodies: a chat completion, its event stream, and an error of each failure class.

Shapes: the public OpenAI API reference for chat completions, and error bodies seen from that API.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import assert_never

from narrows.testing.answers import Answer
from narrows.testing.call import Call
from narrows.types import FailureClass

DONE = b"data: [DONE]\n\n"
USAGE = (7, 5)
CREATED = 1_700_000_000


def completion(
    model: str, text: str | None = None, *, usage: tuple[int, int] = USAGE, finish: str = "stop", number: int = 1
) -> dict[str, object]:
    """A `chat.completion`. `text`: the content, by default a sentence that names the model. `usage`: prompt and
    completion tokens. `finish`: the finish_reason, for example "content_filter"."""
    message = {"role": "assistant", "content": _text(model, text), "refusal": None}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(usage),
    }


def stream_events(
    model: str,
    text: str | None = None,
    *,
    usage: tuple[int, int] | None = None,
    finish: str = "stop",
    number: int = 1,
) -> tuple[bytes, ...]:
    """The events of a streamed completion: the role, one content delta a word, the finish, the usage if given, [DONE]."""
    first, *others = _text(model, text).split(" ")
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}, {"content": first}]
    deltas += [{"content": f" {word}"} for word in others]
    choices: list[list[object]] = [[_choice(delta, None)] for delta in deltas]
    choices.append([_choice({}, finish)])
    base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": CREATED, "model": model}
    extra: dict[str, object] = {} if usage is None else {"usage": None}  # the API says null on all but the last
    events = [event({**base, "choices": choice, **extra}) for choice in choices]
    if usage is not None:
        events.append(event({**base, "choices": [], "usage": _usage(usage)}))
    return (*events, DONE)


def event(data: Mapping[str, object]) -> bytes:
    """One server-sent event with this JSON as its data."""
    return b"data: " + encode(data) + b"\n\n"


def failure_answer(
    failure: FailureClass, *, status: int | None = None, retry_after: float | None = None, message: str | None = None
) -> Answer:
    """The HTTP answer by which OpenAI's API reports a failure of this class.

    `status`: instead of the usual one (500 could be 503). `retry_after`: seconds, as a Retry-After header. `message`:
    instead of ours. A timeout without any answer is a `Stall`, not this.
    """
    usual, error = _failure(failure, message)
    headers = () if retry_after is None else (("retry-after", f"{retry_after:g}"),)
    return Answer(status or usual, {"error": error}, headers)


def error_event(failure: FailureClass, *, message: str | None = None) -> bytes:
    """The event by which a stream that began with status 200 reports a failure of this class."""
    return event({"error": _failure(failure, message)[1]})


def _failure(failure: FailureClass, message: str | None) -> tuple[int, dict[str, object]]:
    match failure:
        case FailureClass.TIMEOUT:
            return 504, _error(message or "The request timed out.", "timeout", code="timeout")
        case FailureClass.RATE_LIMITED:
            said = message or "Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1."
            return 429, _error(said, "requests", code="rate_limit_exceeded")
        case FailureClass.SERVER_ERROR:
            return 500, _error(message or "The server had an error while processing your request.", "server_error")
        case FailureClass.CONTENT_POLICY:
            said = message or "Your request was rejected as a result of our safety system."
            return 400, _error(said, code="content_policy_violation")
        case FailureClass.AUTHENTICATION:
            return 401, _error(message or "Incorrect API key provided.", code="invalid_api_key")
        case FailureClass.CONTEXT_LENGTH:
            said = message or "This model's maximum context length is 4097 tokens."
            return 400, _error(said, code="context_length_exceeded", param="messages")
        case FailureClass.INVALID_REQUEST:
            said = message or "Unknown parameter: 'frobnicate'."
            return 400, _error(said, code="unknown_parameter", param="frobnicate")
    assert_never(failure)


def default_body(call: Call, status: int) -> Mapping[str, object] | tuple[bytes, ...]:
    """What an `Answer` without a body of its own says: an object, or the events of a stream."""
    if status >= 400:
        return {"error": _error(f"Scripted status {status}.", "server_error" if status >= 500 else None)}
    fields = call.fields
    model = call.model or "no-model"
    if not call.wants_stream:
        return completion(model, number=call.number)
    options = fields.get("stream_options")
    wants_usage = isinstance(options, dict) and options.get("include_usage") is True
    return stream_events(model, usage=USAGE if wants_usage else None, number=call.number)


def encode(data: Mapping[str, object]) -> bytes:
    """Compact JSON."""
    return json.dumps(data, separators=(",", ":")).encode()


def _error(
    message: str, kind: str | None = None, *, code: str | None = None, param: str | None = None
) -> dict[str, object]:
    return {"message": message, "type": kind or "invalid_request_error", "param": param, "code": code}


def _choice(delta: Mapping[str, object], finish: str | None) -> dict[str, object]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _usage(usage: tuple[int, int]) -> dict[str, object]:
    prompt, answered = usage
    return {"prompt_tokens": prompt, "completion_tokens": answered, "total_tokens": prompt + answered}


def _text(model: str, text: str | None) -> str:
    return f"Answered by {model}." if text is None else text
