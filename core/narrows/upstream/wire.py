"""The HTTP library behind the seam: one transport for one origin, its requests, and what its exceptions are.

Imported by the first call only.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import anyio
import httpx

from narrows.upstream.errors import TransportKind, UpstreamFault, describe
from narrows.upstream.headers import RawHeaders
from narrows.upstream.lanes import Lanes
from narrows.upstream.origin import Origin

Wrap: TypeAlias = Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport]
"""Puts something around a transport: how `telemetry` traces calls without this package importing OpenTelemetry."""

KINDS: tuple[tuple[type[Exception], TransportKind], ...] = (
    (httpx.ConnectTimeout, "connect_timeout"),
    (httpx.PoolTimeout, "connect_timeout"),
    (httpx.ConnectError, "connect_error"),
    (httpx.ProxyError, "connect_error"),
    (httpx.ReadTimeout, "read_timeout"),
    (httpx.TransportError, "protocol_error"),
    (anyio.BrokenResourceError, "protocol_error"),
    (anyio.ClosedResourceError, "protocol_error"),
    (anyio.EndOfStream, "protocol_error"),
    (TimeoutError, "read_timeout"),
    (OSError, "protocol_error"),  # ssl.SSLError too
    (zlib.error, "protocol_error"),
)
"""What went wrong, first match. The rows behind httpx's own are exceptions that were seen to slip through it."""

IDLE_SECS = 30.0
"""How long a connection may wait for its next request. Over aiohttp less than half the read time-out: its read timer can
run on behind the end of an answer, and would fail the next request on that connection."""

PIECE = 256 * 1024
URLS = 256


class Wire:
    """The transport of one origin, and how to speak to it. Opens no socket before the first call."""

    def __init__(self, origin: Origin, context: ssl.SSLContext, *, fast: bool, wrap: Wrap | None) -> None:
        """`fast`: over aiohttp (asyncio only, no proxy). Raises ImportError where its extra is missing, ValueError for
        a host that no URL may have."""
        self._base = _parsed(origin.base_url)
        self._host = self._base.netloc
        self._urls: dict[str, httpx.URL] = {}
        self._kinds = KINDS
        self._large: int | None = None
        if fast:
            from narrows.upstream import fast as over_aiohttp

            transport = over_aiohttp.transport(context, min(IDLE_SECS, origin.timeout_secs / 2))
            self._kinds = over_aiohttp.KINDS + KINDS
            self._large = over_aiohttp.LARGE
        else:
            proxy = None if origin.proxy is None else httpx.Proxy(origin.proxy)
            transport = Lanes(lambda: _lane(context, proxy), IDLE_SECS)
        self.transport = transport if wrap is None else wrap(transport)
        self.faults: tuple[type[Exception], ...] = tuple(error for error, _ in self._kinds)

    def request(
        self, method: str, url: str, headers: RawHeaders, body: bytes, *, connect: float, timeout: float
    ) -> httpx.Request:
        """The request as this transport takes it. `timeout`: seconds, for every single read and write."""
        fields = [(b"host", self._host), (b"accept-encoding", b"identity"), *headers]
        if body or method not in {"GET", "HEAD", "DELETE"}:
            fields.append((b"content-length", b"%d" % len(body)))
        times = {"connect": connect, "read": timeout, "write": timeout, "pool": None}
        target = self._url(url)
        if self._large is not None and len(body) < self._large:
            return httpx.Request(method, target, headers=fields, content=body, extensions={"timeout": times})
        return httpx.Request(method, target, headers=fields, stream=_Sent(body), extensions={"timeout": times})

    def fault(self, error: Exception, *, reading: bool = False) -> UpstreamFault:
        """What this exception (one of `faults`) is to the rest of the gateway. `reading`: the headers were there."""
        kind, known = self._kind(error)
        if reading and kind != "read_timeout":
            kind = "stream_cut"
        return UpstreamFault(kind, describe(known))

    def _kind(self, error: Exception) -> tuple[TransportKind, BaseException]:
        for each in (error.__cause__, error):  # a bridge keeps the library's own exception below its own
            for known, kind in self._kinds:
                if each is not None and isinstance(each, known):
                    return kind, each
        return "protocol_error", error

    def _url(self, url: str) -> httpx.URL:
        known = self._urls.get(url)
        if known is not None:
            return known
        parsed = _parsed(url)
        if (parsed.scheme, parsed.netloc, parsed.userinfo) != (self._base.scheme, self._host, b""):
            raise ValueError("an upstream call leads away from its provider's origin")
        if len(self._urls) >= URLS:  # paths with an id in them: forget, rather than grow
            self._urls.clear()
        self._urls[url] = parsed
        return parsed


class _Sent(httpx.AsyncByteStream):
    """A request's body, in pieces: each write has its own timeout, and none holds the loop for long."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Pieces(self._body)


class _Pieces:
    """An iterator and not a generator: it may be dropped half-way without being finalised."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._at >= len(self._body):
            raise StopAsyncIteration
        piece = self._body[self._at : self._at + PIECE]  # the body itself, uncopied, where it is one piece
        self._at += PIECE
        return piece


def _lane(context: ssl.SSLContext, proxy: httpx.Proxy | None) -> httpx.AsyncBaseTransport:
    # no socket options: TCP_NODELAY is asyncio's, uvloop's and trio's own default (tests/core/upstream/test_calls.py)
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_SECS)
    return httpx.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits, proxy=proxy)


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """For https. Takes 10 ms and more. Raises OSError and ssl.SSLError for a file that cannot be read."""
    if ca_file is not None:
        return ssl.create_default_context(cafile=ca_file)
    return httpx.create_ssl_context(trust_env=False)


def plain_context() -> ssl.SSLContext:
    """For http, where it is never used: without one, httpx would load the certificates."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _parsed(url: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        raise ValueError("base_url and path make no valid URL") from None
