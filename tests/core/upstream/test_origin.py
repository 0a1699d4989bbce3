"""A call is a path below its origin and nothing else."""

from __future__ import annotations

import pytest

from narrows.upstream import Origin

BASE = Origin("https://api.example/v1")


@pytest.mark.parametrize(
    ("base_url", "path", "url"),
    [
        ("https://api.example/v1", "/chat/completions", "https://api.example/v1/chat/completions"),
        ("https://api.example/v1/", "/chat/completions", "https://api.example/v1/chat/completions"),
        ("http://127.0.0.1:8000", "/", "http://127.0.0.1:8000/"),
        ("http://[::1]:8000/a/b", "/c", "http://[::1]:8000/a/b/c"),
        ("HTTPS://API.example", "/x?api-version=2024-10-21", "HTTPS://API.example/x?api-version=2024-10-21"),
        (
            "https://api.example",
            "/x?next=https://other.example/..",
            "https://api.example/x?next=https://other.example/..",
        ),
        ("https://v.example", "/models/claude@001:rawPredict", "https://v.example/models/claude@001:rawPredict"),
        ("https://v.example", "/models/a%2Fb...c", "https://v.example/models/a%2Fb...c"),
        ("https://bücher.example", "/x", "https://bücher.example/x"),
    ],
)
def test_a_path_is_put_behind_the_base_url(base_url: str, path: str, url: str) -> None:
    assert Origin(base_url).url(path) == url


@pytest.mark.parametrize(
    "path",
    [
        "",
        "chat/completions",
        "https://other.example/v1",
        "//other.example/v1",
        "/a//b",
        "/https://other.example",
        "@other.example/",
        ":80@other.example/",
        ".other.example/",
        "/../admin",
        "/a/..",
        "/./a",
        "/%2e%2e/admin",
        "/a/%2E./b",
        "/%252e%252e/admin",
        "/a%2f%2fb",
        "/a%2f..%2fb",
        "/\\other.example",
        "/%5Cother.example",
        "/a b",
        "/a\r\nhost: other.example",
        "/a%0d%0ahost:%20other.example",
        "/a#b",
        "/a\x00",
        "/ä",
        '/"',
    ],
)
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ValueError) as caught:
        BASE.url(path)
    assert "other.example" not in str(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "api.example/v1",
        "ftp://api.example",
        "https://",
        "https:///v1",
        "https://user:secret@api.example",
        "https://api.example/v1?key=secret",
        "https://api.example/v1#secret",
        "https://api.example:0/",
        "https://api.example:99999/",
        "https://api.example:secret/",
        "https://api.example/../secret",
        "https://api.example//secret",
        "https://api.example /secret",
        "https://api.example\n/secret",
        "https://api.example\\secret",
    ],
)
def test_a_base_url_that_is_none_is_refused_without_repeating_it(base_url: str) -> None:
    with pytest.raises(ValueError) as caught:
        Origin(base_url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout_secs", 0.0),
        ("connect_secs", -1.0),
        ("max_connections", 0),
        ("proxy", "socks5://proxy.example"),
        ("proxy", "proxy.example:3128"),
    ],
)
def test_numbers_and_proxies_that_cannot_be_meant_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        Origin("https://api.example", **{field: value})  # type: ignore[arg-type]


def test_a_proxy_may_hold_credentials_and_does_not_show_them() -> None:
    origin = Origin("https://api.example", proxy="http://user:secret@proxy.example:3128")
    assert "secret" not in repr(origin)


def test_connections_are_shared_by_host_and_not_by_path_or_patience() -> None:
    same = Origin("https://API.example/other/", timeout_secs=1.0, connect_secs=1.0)
    assert same.key == BASE.key
    for other in (
        Origin("http://api.example/v1"),
        Origin("https://api.example:8443/v1"),
        Origin("https://api.example/v1", max_connections=4),
        Origin("https://api.example/v1", proxy="http://proxy.example"),
        Origin("https://api.example/v1", ca_file="ca.pem"),
    ):
        assert other.key != BASE.key
