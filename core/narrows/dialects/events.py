"""Finds the events in a stream of bytes. Source of the grammar: WHATWG HTML, 9.2 (server-sent events)."""

from __future__ import annotations

from typing import NamedTuple

EVENT_BYTES = 1024 * 1024
"""The longest event that is read. A longer one passes to the caller like any other, but unread."""

BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event. `name`: its `event:` field, "message" where it has none. `data`: its data lines, joined by a newline."""

    name: str
    data: bytes


class EventSplitter:
    """Finds the events in a stream that comes in any pieces. How it is cut never changes what is found.

    A line or an event's data above `limit` bytes is given up and counted in `overflows`; the next event is read again.
    Beyond the grammar: a field `error`, by which llama.cpp reports a failure, is read as an event of that name.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_line",
        "_line_size",
        "_lost",
        "_name",
        "_plain",
        "_size",
        "_started",
        "limit",
        "overflows",
    )

    def __init__(self, limit: int = EVENT_BYTES) -> None:
        self.limit = limit
        self.overflows = 0
        self._line: list[bytes] = []  # the unfinished line, in the pieces that it came in
        self._line_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self._lost = False  # this event is too long
        self._after_cr = False  # a "\n" that comes next belongs to the line before
        self._started = False  # whatever byte order mark there may be is behind us
        self._plain = False  # between two events: the next chunk may be a whole one

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished event are held."""
        return sum(map(len, self._line)) + self._size

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes."""
        if self._plain:  # by far the most frequent chunk is one event of one line
            lines = chunk.splitlines()
            if len(lines) == 2 and not lines[1] and chunk.endswith(b"\n"):
                line = lines[0]
                if line.startswith(b"data: ") and len(line) <= self.limit:
                    return [Event("message", line[6:])]
        events: list[Event] = []
        if not self._started:
            chunk = self._start(chunk)
        if chunk:
            self._scan(chunk, events)
            self._plain = not (self._line or self._data or self._name or self._lost or self._after_cr)
        return events

    def end(self) -> list[Event]:
        """The stream is over. An event that lacks only its blank line counts, as it does for the official clients."""
        events: list[Event] = []
        self._started = True
        self._after_cr = False
        self._scan(b"\n\n", events)
        return events

    def _start(self, chunk: bytes) -> bytes:
        """Drop a byte order mark, which may itself come in pieces. Answers with what is to be read now."""
        chunk = b"".join(self._line) + chunk
        self._line.clear()
        if len(chunk) < len(BOM) and BOM.startswith(chunk):
            self._line.append(chunk)
            self._line_size = len(chunk)
            return b""
        self._started = True
        self._line_size = 0
        return chunk.removeprefix(BOM)

    def _scan(self, chunk: bytes, events: list[Event]) -> None:
        if self._after_cr:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
            if not chunk:
                return
        lines = chunk.splitlines()  # of bytes: at "\n", "\r" and "\r\n", and nowhere else
        rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        self._after_cr = chunk.endswith(b"\r")
        for line in lines:
            if self._line:
                line = self._joined(line)
            self._take(line, events)
        if rest:
            self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        """Hold the beginning of a line. Of one that is too long only the size is kept."""
        self._line_size += len(piece)
        if self._line_size > self.limit:
            self._lose()
            self._line = [b":"]  # what is left of it reads as a comment
        else:
            self._line.append(piece)

    def _joined(self, end: bytes) -> bytes:
        line = b"".join((*self._line, end))
        self._line.clear()
        self._line_size = 0
        return line

    def _take(self, line: bytes, events: list[Event]) -> None:
        if not line:
            if self._data and not self._lost:
                events.append(Event(self._name or "message", b"\n".join(self._data)))
            self._data = []
            self._size = 0
            self._name = ""
            self._lost = False
            return
        if len(line) > self.limit:
            self._lose()
            return
        name, _, value = line.partition(b":")
        if name == b"data" or name == b"error":
            if name == b"error":
                self._name = "error"
            value = value.removeprefix(b" ")
            self._size += len(value) + 1
            if self._size > self.limit + 1:
                self._lose()
            if not self._lost:
                self._data.append(value)
        elif name == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self.overflows += 1
        self._data = []
        self._size = 0
