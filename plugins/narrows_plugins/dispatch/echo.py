"""`echo`: a provider without a network. It answers with the caller's last message, or fails as it is told.

    [providers.demo]
    kind = "echo"
    fail = "rate_limited"          # one of the seven failure classes; left out: it answers
    fail_times = 2                 # only the first calls of this provider; left out: all

For demonstrations and tests. Its token counts are made up from the sizes of the texts, four bytes a token.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self, TypeAlias

import anyio
import msgspec
from pydantic import AfterValidator, PrivateAttr, field_validator, model_validator

from narrows import Attempt, FailureClass, Provider, Reply, hookimpl
from narrows_plugins.dispatch._openai_shapes import Answer, error, failure

PATH: Final = "/chat/completions"
BYTES_PER_TOKEN: Final = 4
MOST_CHOICES: Final = 128

_JSON: Final = ("content-type", "application/json")
_EVENTS: Final = ("content-type", "text/event-stream; charset=utf-8")


def _seconds(seconds: float) -> float:
    if not 0 <= seconds <= 3600:
        raise ValueError("must be from 0 to 3600 seconds")
    return seconds


def _one_or_more(calls: int) -> int:
    if calls < 1:
        raise ValueError("must be 1 or more; leave `fail` out where none is to fail")
    return calls


Seconds: TypeAlias = Annotated[float, AfterValidator(_seconds)]


class Echo(Provider):
    """Answers in this process with the model's name and the caller's last message. No key, no network.

    Options: `fail`, a failure class to answer with instead; `fail_times`, how many calls fail before the others are
    answered; `delay_secs` before the reply; `chunk_delay_secs` before each event of a stream but the first.
    """

    fail: FailureClass | None = None
    """The failure class to answer with. Left out: it answers."""
    fail_times: Annotated[int, AfterValidator(_one_or_more)] | None = None
    """How many calls fail before the others are answered. Left out: all."""
    delay_secs: Seconds = 0.0
    """Seconds to wait before the reply."""
    chunk_delay_secs: Seconds = 0.0
    """Seconds to wait before each event of a stream but the first."""

    _calls: Counter[str] = PrivateAttr(default_factory=Counter)

    @field_validator("base_url", "proxy", mode="before")
    @classmethod
    def _no_network(cls, given: object) -> object:
        if given is not None:
            raise ValueError("must be left out: echo answers in this process and calls nobody")
        return given

    @model_validator(mode="after")
    def _fails_somehow(self) -> Self:
        if self.fail_times is not None and self.fail is None:
            raise ValueError("has fail_times without fail; write which failure class to answer with")
        return self

    def count(self, model: str | None = None) -> int:
        """How many calls there were, of all models or of one (the name that the vendor is asked for)."""
        return self._calls.total() if model is None else self._calls[model]

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        """Send the body as it is; `answer` replies."""
        return await attempt.send(PATH, attempt.headers, attempt.body)

    async def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """A chat completion or its event stream, as the body asks; or the failure. 400 and 404 for what is neither."""
        fields = _fields(body)
        model = fields.get("model")
        if not isinstance(model, str):
            return Reply.whole(400, error("The body is no JSON object with a model."), [_JSON])
        self._calls[model] += 1
        number = self.count()
        await anyio.sleep(self.delay_secs)
        if path != PATH:
            return Reply.whole(404, error("Echo knows chat completions only.", code="not_found"), [_JSON])
        if self.fail is not None and (self.fail_times is None or number <= self.fail_times):
            status, text = failure(self.fail)
            return Reply.whole(status, text, [_JSON])
        answered = _answer(fields, model, number)
        if fields.get("stream") is not True:
            return Reply.whole(200, answered.completion(), [_JSON])
        options = fields.get("stream_options")
        usage = isinstance(options, dict) and options.get("include_usage") is True
        return Reply(200, (_EVENTS,), _Paced(answered.events(usage=usage), self.chunk_delay_secs))


class _Paced:
    """`Chunks` at a pace. No async generator: it may be closed from any task, also while another waits in it, and
    nothing is left to finalise where it is dropped half-way."""

    def __init__(self, events: Iterator[bytes], delay: float) -> None:
        self._events, self._delay = events, delay
        self._closed = anyio.Event()
        self._first = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._first:
            with anyio.move_on_after(self._delay):
                await self._closed.wait()
        self._first = False
        event = None if self._closed.is_set() else next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        self._closed.set()


def _answer(fields: Mapping[str, Any], model: str, number: int) -> Answer:
    messages = fields.get("messages")
    texts = [_text(message) for message in messages] if isinstance(messages, list) else []
    said = [text for role, text in texts if role == "user"]
    text, finish = f"{model}: {said[-1] if said else '(no user message)'}", "stop"
    # Never more than was asked for: what a call may cost is reckoned from that limit.
    limits = [fields.get("max_completion_tokens"), fields.get("max_tokens")]
    limit = min((most for most in limits if isinstance(most, int) and most >= 0), default=None)
    if limit is not None and _tokens(text) > limit:
        text, finish = text.encode()[: limit * BYTES_PER_TOKEN].decode(errors="ignore"), "length"
    n = fields.get("n")
    n = min(n, MOST_CHOICES) if isinstance(n, int) and n > 0 else 1
    prompt = sum(_tokens(text) for _, text in texts)
    return Answer(number, int(time.time()), model, text, finish, n, prompt, _tokens(text) * n)


def _text(message: object) -> tuple[str, str]:
    """A message's role and its text; the text parts of a list, joined."""
    if not isinstance(message, dict):
        return "", ""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return str(message.get("role")), content if isinstance(content, str) else ""


def _fields(body: bytes) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
