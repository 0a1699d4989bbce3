"""The reader of requests: what is one, what is refused, and that no split of the bytes changes either."""

from __future__ import annotations

import pytest

from narrows.testing._requests import BadRequest, Received, RequestReader

PLAIN = b"POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nX-Two: 1\r\nx-two: 2\r\n\r\nbody"
CHUNKED = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
TRAILER = b"POST /t HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n"
BARE = b"\r\nGET /g HTTP/1.0\r\n\r\n"


def test_requests_come_out_whole_and_in_order() -> None:
    found = list(RequestReader().feed(PLAIN + CHUNKED + TRAILER + BARE))

    assert [(one.method, one.path, one.body) for one in found] == [
        ("POST", "/v1/x?y=1", b"body"),
        ("POST", "/c", b"abc0123456789"),
        ("POST", "/t", b"a"),
        ("GET", "/g", b""),
    ]
    assert found[0].headers == (("host", "a"), ("content-length", "4"), ("x-two", "1"), ("x-two", "2"))
    assert [one.keep_alive for one in found] == [True, True, True, False]
    assert all(one.complete for one in found)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_no_split_of_the_bytes_changes_what_is_read(size: int) -> None:
    stream = PLAIN + CHUNKED + TRAILER + BARE
    reader = RequestReader()
    found = [one for start in range(0, len(stream), size) for one in reader.feed(stream[start : start + size])]

    assert found == list(RequestReader().feed(stream))
    assert reader.unfinished() is None


@pytest.mark.parametrize("stream", [PLAIN, CHUNKED, TRAILER])
def test_a_request_that_breaks_off_is_unfinished_at_every_byte(stream: bytes) -> None:
    for cut in range(1, len(stream)):
        reader = RequestReader()
        assert list(reader.feed(stream[:cut])) == []
        left = reader.unfinished()
        assert left is not None, cut
        assert not left.complete


def test_the_bytes_of_an_unfinished_body_are_kept() -> None:
    reader = RequestReader()
    assert list(reader.feed(PLAIN[:-1])) == []
    head = (("host", "a"), ("content-length", "4"), ("x-two", "1"), ("x-two", "2"))
    assert reader.unfinished() == Received("POST", "/v1/x?y=1", "HTTP/1.1", head, b"bod", False)


@pytest.mark.parametrize(
    "stream",
    [
        b"nonsense\r\n\r\n",
        b"GET /  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nspace : 1\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
        b"a" * 300_000,
    ],
)
def test_what_is_not_http_is_refused(stream: bytes) -> None:
    with pytest.raises(BadRequest):
        list(RequestReader().feed(stream))


def test_requests_before_a_bad_one_are_still_read() -> None:
    found: list[Received] = []
    with pytest.raises(BadRequest):
        found.extend(RequestReader().feed(PLAIN + b"nonsense\r\n\r\n"))
    assert [one.path for one in found] == ["/v1/x?y=1"]


def test_continue_is_expected_once() -> None:
    reader = RequestReader()
    assert list(reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")) == []
    assert [reader.expects_continue(), reader.expects_continue()] == [True, False]
    assert [one.body for one in reader.feed(b"x")] == [b"x"]
    assert list(reader.feed(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n")) == []
    assert not reader.expects_continue()
