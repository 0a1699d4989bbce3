"""What an OpenAI chat stream says of itself while it passes: its first event, its end, its tokens.

Nothing here changes a byte of what is forwarded.
"""

from __future__ import annotations

import msgspec

from narrows.dialects.events import EVENT_BYTES, Event, EventSplitter
from narrows.dialects.usage import Counts, Output, counts, raw_usage
from narrows.types import Usage

__all__ = ["EVENT_BYTES", "Event", "EventSplitter", "StreamWatch"]

DONE = b"[DONE]"


class _Choice(msgspec.Struct, gc=False):
    delta: Output | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: object = None
    kind: str | None = msgspec.field(name="object", default=None)


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class StreamWatch:
    """What an OpenAI-shaped chat stream said so far. Fed every chunk; 1 to 2 microseconds of CPU for each event.

    `first_event`: the first complete data event; comments and keep-alives are none. `error`: the data of the first
    error event. `finish`: the data of the last event with a finish_reason. `refusal`: that of the first one in which the
    model refuses in words, whose finish may well be "stop". `usage`: what was reported, in one chunk or several, explicit
    zeros included. `done`: [DONE] was seen. `output_bytes`: UTF-8 bytes of all deltas (text, refusal, reasoning, tool
    arguments); an event that is not readable counts whole, so that an estimate is never too low.
    """

    __slots__ = ("_counts", "_splitter", "done", "error", "finish", "first_event", "output_bytes", "refusal", "usage")

    def __init__(self, limit: int = EVENT_BYTES) -> None:
        """`limit`: bytes of the longest event that is read."""
        self._splitter = EventSplitter(limit)
        self._counts = Counts()
        self.first_event: Event | None = None
        self.error: bytes | None = None
        self.finish: bytes | None = None
        self.refusal: bytes | None = None
        self.usage: Usage | None = None
        self.done = False
        self.output_bytes = 0

    @property
    def overflows(self) -> int:
        """How many events were too long to be read."""
        return self._splitter.overflows

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the stream, cut anywhere."""
        for event in self._splitter.feed(chunk):
            self._read(event)

    def end(self) -> None:
        """The stream is over: a last event without its blank line counts."""
        for event in self._splitter.end():
            self._read(event)

    def _read(self, event: Event) -> None:
        if self.first_event is None:
            self.first_event = event
        data = event.data
        if data == DONE:
            self.done = True
            return
        if event.name == "error":
            self._failed(data)
            return
        try:
            chunk = _decode_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._read_loosely(data)
            return
        if chunk.error or chunk.kind == "error":
            self._failed(data)
        for choice in chunk.choices or ():
            if choice.finish_reason:
                self._finished(choice.finish_reason, data)
            if choice.delta is not None:
                self.output_bytes += choice.delta.size()
                if choice.delta.refusal and self.refusal is None:
                    self.refusal = data
        self._report(chunk.usage)

    def _read_loosely(self, data: bytes) -> None:
        """An event of another shape than OpenAI's own: everything that can be known of it, and its size."""
        self.output_bytes += len(data)
        try:
            chunk = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if not isinstance(chunk, dict):
            return
        if chunk.get("error") or chunk.get("object") == "error":
            self._failed(data)
        choices = chunk.get("choices")
        if isinstance(choices, list) and any(isinstance(one, dict) and one.get("finish_reason") for one in choices):
            self.finish = data
        self._report(raw_usage(data))

    def _report(self, usage: msgspec.Raw) -> None:
        """Nonsense does not undo what was reported before."""
        told = counts(usage)
        if told is not None:
            self._counts = self._counts.joined(told)
            self.usage = self._counts.usage() or self.usage

    def _finished(self, reason: str, data: bytes) -> None:
        """One of several answers has ended. A refusal among them is not undone by another one that stopped."""
        if self.finish is None or reason != "stop":
            self.finish = data

    def _failed(self, data: bytes) -> None:
        if self.error is None:
            self.error = data
