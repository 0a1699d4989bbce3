"""Tokens of an OpenAI-shaped answer: as its provider reports them, and the bytes of output where it does not.

What is reported is believed, an explicit zero too. What is no count (negative, a fraction, a text, absurdly large) is
read as not reported, so that it can make no cost. Source: DESIGN section 8; OpenAI's API reference, "CompletionUsage".
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from narrows.tokens import REPORTED_MAX
from narrows.types import Usage


class Function(msgspec.Struct, gc=False):
    """Of a tool call."""

    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    """Of a message or a delta."""

    function: Function | None = None


class Output(msgspec.Struct, gc=False):
    """What the model wrote: a message, or a part of one."""

    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None

    def size(self) -> int:
        """UTF-8 bytes of text, refusal, reasoning and tool arguments."""
        size = _bytes(self.content) + _bytes(self.refusal) + _bytes(self.reasoning) + _bytes(self.reasoning_content)
        for call in self.tool_calls or ():
            size += 0 if call.function is None else _bytes(call.function.arguments)
        return size


class _Choice(msgspec.Struct, gc=False):
    message: Output | None = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice]


class _Body(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: msgspec.Raw = msgspec.Raw()
    completion_tokens_details: msgspec.Raw = msgspec.Raw()
    prompt_cache_hit_tokens: msgspec.Raw = msgspec.Raw()


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Counts(NamedTuple):
    """What usage objects said so far. `extra`: reasoning tokens."""

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    cached: int | None = None
    extra: int | None = None

    def joined(self, later: Counts) -> Counts:
        """With what a later object says, which wins field by field: some vendors spread usage over their chunks. A total
        belongs to the object that it came in."""
        kept = [before if now is None else now for before, now in zip(self, later, strict=True)]
        return Counts(*kept)._replace(total=later.total)

    def usage(self) -> Usage | None:
        """Prompt and answer must both be known, or one of them and their total: half a count would be too small a bill.
        Reasoning is part of the completion, but for vendors whose total says that it comes on top."""
        prompt, answered, total = self.prompt, self.completion, self.total
        if total is not None and prompt is not None and answered is None:
            answered = total - prompt
        elif total is not None and answered is not None and prompt is None:
            prompt = total - answered
        if prompt is None or answered is None or prompt < 0 or answered < 0:
            return None
        if self.extra and total == prompt + answered + self.extra:
            answered += self.extra
        return Usage(prompt, answered, min(self.cached or 0, prompt), reported=True)


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_body = msgspec.json.Decoder(_Body).decode
_decode_usage = msgspec.json.Decoder(_Usage).decode
_decode_details = msgspec.json.Decoder(_Details | None).decode
_decode_count = msgspec.json.Decoder(int | None).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def counts(usage: msgspec.Raw) -> Counts | None:
    """What one usage object says, or None where it is none or nonsense."""
    if len(usage) <= len(b"null"):  # most chunks of a stream say null
        return None
    try:
        found = _decode_usage(usage)
    except _UNREADABLE:
        return None
    told = (found.prompt_tokens, found.completion_tokens, found.total_tokens)
    if any(count is not None and not 0 <= count <= REPORTED_MAX for count in told):
        return None
    cached = _details(found.prompt_tokens_details).cached_tokens
    if cached is None:  # DeepSeek's name for it
        cached = _count(found.prompt_cache_hit_tokens)
    return Counts(*told, _counted(cached), _counted(_details(found.completion_tokens_details).reasoning_tokens))


def raw_usage(body: bytes) -> msgspec.Raw:
    """The usage object of a body or an event, undecoded; empty where there is none."""
    try:
        return _decode_body(body).usage
    except _UNREADABLE:
        return msgspec.Raw()


def usage_in(body: bytes) -> Usage | None:
    """The tokens that a JSON body (a plain answer or one event) reports, or None where it reports none."""
    found = counts(raw_usage(body))
    return None if found is None else found.usage()


def output_in(body: bytes) -> int:
    """UTF-8 bytes that the model wrote in a plain answer, all its choices together. One of another shape counts whole, so
    that an estimate is never too low."""
    try:
        return sum(choice.message.size() for choice in _decode_answer(body).choices if choice.message is not None)
    except _UNREADABLE:
        return len(body)


def _details(raw: msgspec.Raw) -> _Details:
    """A part of a usage object. Nonsense there costs the caller a discount, not the count."""
    try:
        return (_decode_details(raw) if raw else None) or _Details()
    except _UNREADABLE:
        return _Details()


def _count(raw: msgspec.Raw) -> int | None:
    try:
        return _decode_count(raw) if raw else None
    except _UNREADABLE:
        return None


def _counted(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= REPORTED_MAX else None


def _bytes(text: str | None) -> int:
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
