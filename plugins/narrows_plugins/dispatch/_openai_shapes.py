"""The bodies that a server of OpenAI's chat completions sends: an answer, its event stream, an error of each class.

Shapes: the public API reference for chat completions. A test reads them with the official client's own types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import msgspec

from narrows import FailureClass

Table: TypeAlias = dict[str, object]

DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered, before it is put into a shape. `created`: seconds since 1970. `finish`: the finish_reason of
    each of the `n` equal choices."""

    number: int
    created: int
    model: str
    text: str
    finish: str
    n: int
    prompt_tokens: int
    completion_tokens: int

    def completion(self) -> bytes:
        """The whole answer as one `chat.completion`."""
        message = {"role": "assistant", "content": self.text, "refusal": None}
        choices = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": self.finish}
            for index in range(self.n)
        ]
        return encode({**self._head("chat.completion"), "choices": choices, "usage": self._usage()})

    def events(self, *, usage: bool) -> Iterator[bytes]:
        """The answer as events: for each choice its role, a piece a word, its finish; then the usage, then `[DONE]`."""
        no_usage: Table = {"usage": None} if usage else {}  # the API says null on all but the last
        for index in range(self.n):
            deltas: list[Table] = [{"role": "assistant", "content": "", "refusal": None}]
            deltas += [{"content": piece} for piece in _pieces(self.text)]
            for delta in deltas:
                yield self._event([_choice(index, delta, None)], no_usage)
            yield self._event([_choice(index, {}, self.finish)], no_usage)
        if usage:
            yield self._event([], {"usage": self._usage()})
        yield DONE

    def _event(self, choices: Sequence[Table], more: Table) -> bytes:
        return b"data: " + encode({**self._head("chat.completion.chunk"), "choices": choices, **more}) + b"\n\n"

    def _head(self, shape: str) -> Table:
        return {"id": f"chatcmpl-echo-{self.number}", "object": shape, "created": self.created, "model": self.model}

    def _usage(self) -> Table:
        total = self.prompt_tokens + self.completion_tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": total,
        }


def failure(failure_class: FailureClass) -> tuple[int, bytes]:
    """Status and body of an error of that class."""
    match failure_class:
        case FailureClass.TIMEOUT:
            return 504, error("The request timed out.", "timeout", "timeout")
        case FailureClass.RATE_LIMITED:
            return 429, error("Rate limit reached for requests.", "requests", "rate_limit_exceeded")
        case FailureClass.SERVER_ERROR:
            return 503, error("The server is overloaded or not ready yet.", "server_error")
        case FailureClass.CONTENT_POLICY:
            return 400, error("The request was rejected by the safety system.", code="content_policy_violation")
        case FailureClass.AUTHENTICATION:
            return 401, error("Incorrect API key provided.", code="invalid_api_key")
        case FailureClass.CONTEXT_LENGTH:
            return 400, error("The prompt is too long.", code="context_length_exceeded", param="messages")
        case FailureClass.INVALID_REQUEST:
            return 400, error("Unknown parameter.", code="unknown_parameter")
    assert_never(failure_class)


def error(
    message: str, kind: str = "invalid_request_error", code: str | None = None, param: str | None = None
) -> bytes:
    """An error's body."""
    return encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def encode(body: Mapping[str, object]) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(body)


def _choice(index: int, delta: Table, finish: str | None) -> Table:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


def _pieces(text: str) -> list[str]:
    """The text in pieces that end behind each space; together they are the text."""
    words = text.split(" ")
    return [f"{word} " for word in words[:-1]] + [words[-1]]
