"""What travels in header fields, and what does not."""

from __future__ import annotations

import pytest

from narrows.upstream.headers import incoming, outgoing


def test_fields_go_out_in_order_and_in_lower_case() -> None:
    sent = outgoing({"Authorization": "Bearer k", "x-title": " café "})
    assert sent == [(b"authorization", b"Bearer k"), (b"x-title", "café".encode("latin-1"))]


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "accept-encoding",
        "expect",
        "te",
        "upgrade",
        "trailer",
    ],
)
def test_what_decides_where_a_call_goes_and_ends_is_the_gateways(name: str) -> None:
    with pytest.raises(ValueError, match=name.lower()):
        outgoing({name: "other.example"})


@pytest.mark.parametrize("value", ["sk-secret\n", "sk-secret\r\nhost: other", "sk-secret\x00", "sk-secret\u2028"])
def test_a_value_that_http_cannot_carry_is_refused_without_repeating_it(value: str) -> None:
    with pytest.raises(ValueError, match="authorization") as caught:
        outgoing({"authorization": value})
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "ä"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        outgoing({name: "x"})


def test_what_ends_at_this_hop_is_taken_off_an_answer() -> None:
    raw = [
        (b"Content-Type", b"application/json"),
        (b"Connection", b"keep-alive, X-Hop"),
        (b"Keep-Alive", b"timeout=5"),
        (b"X-Hop", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
        (b"X-Raw", b"\xe9"),
    ]
    expected = (("content-type", "application/json"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-raw", "é"))
    assert incoming(raw) == expected
