"""Cuts a stream of bytes behind each whole event, so that nothing is forwarded which was not read first.

Every byte comes out again, in order and unchanged. Source of the grammar: WHATWG HTML, 9.2 (server-sent events).
"""

from __future__ import annotations

import re

from narrows.dialects.events import EVENT_BYTES

LONGEST_EVENT = 2 * EVENT_BYTES
"""Bytes of an event that are held, its field names included. A longer one is too long to be read as well
(`EVENT_BYTES`), so holding it would protect nobody; it is given out in pieces, and memory stays bounded."""

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_COMMENTS = re.compile(rb"(?::[^\r\n]*[\r\n]|[\r\n])*")
_OVERLAP = 3
"""How many bytes of a blank line may stand before a cut: all but the last of "\\r\\n\\r\\n"."""


class EventCutter:
    """Feed it what arrives; it gives back pieces, each one whole event with its blank line.

    A comment is a piece as soon as its line is whole: keep-alives must not wait for the next event.
    """

    __slots__ = ("_tail", "inside")

    def __init__(self) -> None:
        self._tail = bytearray()
        self.inside = False  # a part of an event that is too long was given out, and its end was not

    def feed(self, chunk: bytes) -> list[bytes]:
        """The pieces that this chunk completes."""
        if not self._tail and chunk.endswith(b"\n\n") and chunk.find(b"\n\n") == len(chunk) - 2 and b"\r" not in chunk:
            self.inside = False
            return [chunk]  # by far the most frequent chunk is one event
        seen = max(len(self._tail) - _OVERLAP, 0)
        self._tail += chunk
        ends = _ends(self._tail, seen)
        if ends:
            self.inside = False
        start = ends[-1] if ends else 0
        pieces = [bytes(self._tail[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]
        if start < len(self._tail) and _COMMENTS.fullmatch(self._tail, start):
            pieces.append(bytes(self._tail[start:]))
            start = len(self._tail)
        elif len(self._tail) - start > LONGEST_EVENT:
            pieces.append(bytes(self._tail[start:]))
            start = len(self._tail)
            self.inside = True
        del self._tail[:start]
        return pieces

    def rest(self) -> bytes:
        """What is left: the beginning of an event whose end did not come. It is given out once."""
        rest = bytes(self._tail)
        self._tail.clear()
        return rest


def _ends(data: bytearray, start: int) -> list[int]:
    """Where blank lines end."""
    if b"\r" in data:
        return [match.end() for match in _BLANK_LINE.finditer(data, start)]
    ends: list[int] = []  # the same in a tenth of the time
    while (place := data.find(b"\n\n", start)) >= 0:
        start = place + 2
        ends.append(start)
    return ends
