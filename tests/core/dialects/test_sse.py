"""Event streams: the same is found however they are cut, and nothing of them is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.dialects.sse import Event, EventSplitter, StreamWatch
from narrows.dialects.usage import usage_in
from narrows.testing import error_event, stream_events
from narrows.types import FailureClass, Usage


def cut_at(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(place for place in places if place < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def split(chunks: Sequence[bytes], limit: int = 1024) -> tuple[list[Event], int]:
    """The events of these chunks, those at the very end included, and how many were too long."""
    splitter = EventSplitter(limit)
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    return events + splitter.end(), splitter.overflows


def plain(data: bytes, limit: int) -> tuple[list[Event], int]:
    """The grammar, written down as plainly as it goes: lines, fields, blank lines."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\n\n"
    events, lost, name = [], 0, b""
    found: list[bytes] = []
    too_long = False
    for line in text.split(b"\n"):
        if line:
            too_long = too_long or len(line) > limit
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                found.append(value)
            elif field == b"event":
                name = value
            too_long = too_long or len(b"\n".join(found)) > limit
            continue
        if too_long:
            lost += 1
        elif found:
            events.append(Event(name.decode("utf-8", "replace") or "message", b"\n".join(found)))
        found, name, too_long = [], b"", False
    return events, lost


ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
PIECES = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data",
        b"data:",
        b"data:  two",
        b"data: \xf0\x9f\x8e\x88",
        b"data: \xff\xfe",
        b"data: [DONE]",
        b"data: " + b"x" * 40,
        b"data: " + b"x" * 30,
        b"event: error",
        b"event:ping",
        b"event",
        b": keep-alive",
        b":" + b"c" * 60,
        b"id: 7",
        b"retry: 1",
        b"unknown: y",
        b"",
        b"",
        b"",
    ]
)
LINES = st.lists(st.tuples(PIECES, ENDS).map(b"".join), max_size=14).map(b"".join)
STREAMS = st.tuples(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]), LINES).map(b"".join)


@given(stream=STREAMS, places=st.lists(st.integers(0, 400), max_size=12))
def test_however_it_is_cut_the_same_is_found(stream: bytes, places: list[int]) -> None:
    expected = plain(stream, 36)
    assert split([stream], 36) == expected
    assert split(cut_at(stream, places), 36) == expected
    assert split(stream.replace(b"\n\n", b"\n\n|").split(b"|"), 36) == expected  # an event each, as servers write them
    assert split(stream.splitlines(keepends=True), 36) == expected
    assert split([stream[at : at + 1] for at in range(len(stream))], 36) == expected


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [Event("message", b"a")]),
        (b"data: a\ndata: b\n\n", [Event("message", b"a\nb")]),
        (b"event: error\ndata: a\n\ndata: b\n\n", [Event("error", b"a"), Event("message", b"b")]),
        (b"event: ping\n\ndata: b\n\n", [Event("message", b"b")]),
        (b"data\n\n", [Event("message", b"")]),
        (b"\xef\xbb\xbfdata: a\r\rdata: b\r\r", [Event("message", b"a"), Event("message", b"b")]),
        (b": comment\n\n: another\n\n", []),
        (b"data: a\n\n\n\ndata: b\n\n", [Event("message", b"a"), Event("message", b"b")]),
        (b"data: a\n\ndata: b", [Event("message", b"a"), Event("message", b"b")]),
        (b'error: {"code": 400}\n\n', [Event("error", b'{"code": 400}')]),
        (b"", []),
    ],
)
def test_the_grammar(stream: bytes, events: list[Event]) -> None:
    assert split([stream]) == (events, 0)


@pytest.mark.parametrize(
    ("chunk", "events"),
    [
        (b"data: b\ndata: c\n", []),
        (b"data: b\n:\n", []),
        (b"data: b\r\n\r\n", [Event("message", b"b")]),
        (b"data: b\n\r", [Event("message", b"b")]),
        (b"data: bcdefghijk\n\n", []),
        (b"\ndata: b\n\n", [Event("message", b"b")]),
    ],
)
def test_what_is_nearly_the_most_frequent_chunk(chunk: bytes, events: list[Event]) -> None:
    splitter = EventSplitter(limit=15)
    assert splitter.feed(b"data: a\n\n") == [Event("message", b"a")]
    assert splitter.feed(chunk) == events


def test_an_event_is_found_with_its_last_byte_and_not_before() -> None:
    splitter = EventSplitter()
    splitter.feed(b"data: first\n\n")
    assert splitter.feed(b"data: a\n") == []
    assert splitter.pending > 0
    assert splitter.feed(b"\n") == [Event("message", b"a")]
    assert splitter.pending == 0


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_that_is_too_long_is_given_up_and_the_next_one_read(size: int) -> None:
    stream = b"data: " + b"x" * 5000 + b"\n\ndata: a\n\n" + b"data: x\n" * 2000 + b"\ndata: b\n\n"
    splitter = EventSplitter(limit=2000)
    events: list[Event] = []
    for at in range(0, len(stream), size):
        events += splitter.feed(stream[at : at + size])
        assert splitter.pending <= 4001  # never more than a line and the data before it
    assert (events, splitter.overflows) == ([Event("message", b"a"), Event("message", b"b")], 2)


def test_a_long_event_in_small_pieces_costs_no_more_than_its_length() -> None:
    """A buffer that is joined for each piece would copy gigabytes here."""
    splitter = EventSplitter()
    splitter.feed(b"data: ")
    for _ in range(100_000):
        assert splitter.feed(b"xxxxxxxx") == []
    [event] = splitter.feed(b"\n\n")
    assert len(event.data) == 800_000


# ---- what a chat stream says of itself ----


def chunk(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(finish: str | None = None, /, **fields: object) -> bytes:
    return chunk(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


def watched(*chunks: bytes, limit: int = 1024 * 1024) -> StreamWatch:
    watch = StreamWatch(limit)
    for each in chunks:
        watch.feed(each)
    watch.end()
    return watch


def facts(watch: StreamWatch) -> tuple[object, ...]:
    state = (watch.first_event, watch.error, watch.finish, watch.usage)
    return (*state, watch.done, watch.output_bytes, watch.overflows)


def test_a_whole_stream() -> None:
    events = stream_events("small-1", "Hello grüße", usage=(7, 5), finish="length")
    watch = watched(*events)
    assert watch.first_event == Event("message", events[0][6:-2])
    assert watch.usage == Usage(7, 5, 0, reported=True)
    assert watch.finish is not None
    assert b'"length"' in watch.finish
    assert (watch.done, watch.error, watch.output_bytes) == (True, None, len("Hello grüße".encode()))


WHOLE = b": hi\n\n" + b"".join(stream_events("small-1", "Hello grüße 🎈", usage=(7, 5), finish="content_filter"))


@given(places=st.lists(st.integers(0, len(WHOLE)), max_size=20))
def test_however_a_stream_is_cut_it_says_the_same(places: list[int]) -> None:
    assert facts(watched(*cut_at(WHOLE, places))) == facts(watched(WHOLE))


def test_every_single_cut_says_the_same() -> None:
    expected = facts(watched(WHOLE))
    for place in range(len(WHOLE)):
        assert facts(watched(WHOLE[:place], WHOLE[place:])) == expected


def test_a_comment_is_no_first_event() -> None:
    watch = StreamWatch()
    watch.feed(b": OPENROUTER PROCESSING\n\n")
    watch.feed(b"event: ping\n\n")
    assert watch.first_event is None
    watch.feed(delta(content="a"))
    assert watch.first_event is not None


@pytest.mark.parametrize(
    "event",
    [
        error_event(FailureClass.RATE_LIMITED),
        chunk(error={"message": "Overloaded", "code": 502}, choices=[]),
        chunk(error="out of memory"),
        chunk(object="error", message="too long", code=400),
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
        b"event: error\ndata: not JSON\n\n",
        b'error: {"code": 400, "message": "exceeds the context"}\n\n',
        chunk(error={"code": 502}, choices=[{"delta": {"content": ["odd"]}, "finish_reason": "error"}]),
    ],
)
def test_an_error_event_is_kept_as_it_is(event: bytes) -> None:
    watch = watched(delta(content="a"), event, error_event(FailureClass.SERVER_ERROR))
    [_, expected] = split([delta(content="a") + event])[0]
    assert watch.error == expected.data


@pytest.mark.parametrize(
    "event",
    [
        delta(content='He said: "error": {"message": "x"}, [DONE], "finish_reason": "stop"'),
        chunk(error=None, choices=[]),
        chunk(object="chat.completion.chunk", choices=None, usage=None),
        chunk(choices=[{"delta": None, "finish_reason": ""}]),
        b'data: "[DONE]"\n\n',
        b"data: 5\n\n",
        b"data: {\n\n",
        b"data: \xff\n\n",
        b"data: " + b"[" * 3000 + b"\n\n",
    ],
)
def test_what_only_looks_like_an_end_is_none(event: bytes) -> None:
    watch = watched(event)
    assert (watch.error, watch.finish, watch.usage, watch.done) == (None, None, None, False)
    assert watch.first_event is not None


def test_the_last_finish_is_kept() -> None:
    last = delta("content_filter")
    watch = watched(delta(content="a"), delta("stop"), last, chunk(choices=[]))
    assert watch.finish == last[6:-2]


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"content": "abc"}, 3),
        ({"content": "ü🎈"}, 6),
        ({"content": None, "refusal": "no"}, 2),
        ({"reasoning_content": "hm", "content": "x"}, 3),
        ({"reasoning": "hm"}, 2),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}, {"function": {"name": "f"}}]}, 5),
        ({"role": "assistant"}, 0),
    ],
)
def test_output_is_counted_in_bytes(fields: dict[str, object], size: int) -> None:
    assert watched(delta(**fields)).output_bytes == size


def test_output_of_another_shape_counts_whole() -> None:
    odd = delta(content=[{"type": "text", "text": "abc"}])
    assert watched(odd).output_bytes == len(odd) - len(b"data: \n\n")


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}, Usage(7, 5, 0, reported=True)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0, 0, reported=True)),
        ({"prompt_tokens": 7, "total_tokens": 12}, Usage(7, 5, 0, reported=True)),
        ({"completion_tokens": 5, "total_tokens": 12}, Usage(7, 5, 0, reported=True)),
        (
            {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}},
            Usage(7, 5, 3, reported=True),
        ),
        (
            {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 30}},
            Usage(7, 5, 7, reported=True),
        ),
        ({"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": None}, Usage(7, 5, 0, reported=True)),
        ({"prompt_tokens": 7}, None),
        ({"prompt_tokens": -7, "completion_tokens": 5}, None),
        ({"prompt_tokens": 7.5, "completion_tokens": 5}, None),
        ({"prompt_tokens": True, "completion_tokens": 5}, None),
        ({"prompt_tokens": "7", "completion_tokens": 5}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": 5}, None),
        ({"prompt_tokens": 2**60, "completion_tokens": 5}, None),
        ({"prompt_tokens": 12, "total_tokens": 7}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)
def test_usage_is_what_is_reported_or_nothing(reported: object, usage: Usage | None) -> None:
    assert watched(chunk(choices=[], usage=reported)).usage == usage
    assert usage_in(json.dumps({"choices": [], "usage": reported}).encode()) == usage


def test_the_last_usage_counts_and_nonsense_does_not_undo_it() -> None:
    first = chunk(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 1})
    second = chunk(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 2})
    watch = watched(first, second, chunk(usage=None), chunk(usage={}), chunk(usage={"prompt_tokens": "x"}))
    assert watch.usage == Usage(7, 2, 0, reported=True)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"usage": {"prompt_tokens": 1', b"\xff", b"[" * 3000])
def test_a_body_without_usage_reports_none(body: bytes) -> None:
    assert usage_in(body) is None


def test_an_event_that_is_too_long_passes_unread() -> None:
    watch = watched(delta(content="x" * 500), delta(content="y"), limit=300)
    assert (watch.overflows, watch.output_bytes) == (1, 1)
