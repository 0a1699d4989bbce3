"""Where a stream is cut behind whole events: nothing is lost, nothing is early, whatever the pieces it comes in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.dialects.cutting import LONGEST_EVENT, EventCutter
from narrows.dialects.sse import StreamWatch

LINES = st.sampled_from([b"data: {}", b"data: [DONE]", b": ping", b"event: error", b"id: 7", b"", b"data:", b"odd"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=12).map(b"".join)


def in_pieces(stream: bytes, places: set[int]) -> list[bytes]:
    inside = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[begin:end] for begin, end in pairwise(inside)]


@given(stream=STREAMS, places=st.sets(st.integers(0, 200), max_size=8))
def test_every_byte_comes_out_again_and_only_behind_whole_events(stream: bytes, places: set[int]) -> None:
    cutter, watch, whole = EventCutter(), StreamWatch(), StreamWatch()
    out = b""
    for chunk in in_pieces(stream, places):
        for piece in cutter.feed(chunk):
            out += piece
            watch.feed(piece)
            assert watch._splitter.pending == 0 or piece.endswith(b"\r")  # nothing unread was given out
    rest = cutter.rest()
    assert out + rest == stream
    watch.feed(rest)
    whole.feed(stream)
    for each in (watch, whole):
        each.end()
    assert (watch.done, watch.error, watch.first_event) == (whole.done, whole.error, whole.first_event)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_comes_out_as_soon_as_it_is_whole(end: bytes) -> None:
    event = b"event: message" + end + b"data: {}" + end + end
    cutter = EventCutter()
    given = [cutter.feed(bytes([byte])) for byte in event + b": ping" + end]
    assert next(piece for pieces in given for piece in pieces).rstrip() == event.rstrip()
    place = next(number for number, pieces in enumerate(given) if pieces)
    assert place >= len(event) - len(end)  # a "\n" behind "\r" may follow its line
    assert b"".join(piece for pieces in given for piece in pieces) == event + b": ping" + end


def test_a_comment_does_not_wait_for_a_blank_line() -> None:
    cutter = EventCutter()
    assert cutter.feed(b": pi") == []
    assert cutter.feed(b"ng\n") == [b": ping\n"]
    assert cutter.feed(b"data: 1\n: within an event\n") == []
    assert cutter.feed(b"\n") == [b"data: 1\n: within an event\n\n"]


def test_memory_is_bounded_and_the_inside_of_an_event_is_known() -> None:
    cutter = EventCutter()
    assert cutter.feed(b"data: " + b"x" * LONGEST_EVENT) != []
    assert cutter.inside
    assert cutter.feed(b"x" * 10) == []
    assert cutter.feed(b"\n\n") == [b"x" * 10 + b"\n\n"]
    assert not cutter.inside
