"""The `fast` extra: aiohttp's connections below httpx's transport interface. On asyncio only, without proxies."""

from __future__ import annotations

import ssl

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from narrows.upstream.errors import TransportKind

KINDS: tuple[tuple[type[Exception], TransportKind], ...] = (
    (aiohttp.ConnectionTimeoutError, "connect_timeout"),
    (aiohttp.SocketTimeoutError, "read_timeout"),
    (aiohttp.ClientConnectorError, "connect_error"),
    (aiohttp.ClientError, "protocol_error"),
    (RuntimeError, "protocol_error"),  # "Connection closed.", from a body whose connection went during shutdown
)
"""What aiohttp's exceptions are, first match. httpx-aiohttp's own table calls a disconnect a connect timeout."""

LARGE = 512 * 1024
"""From this size on a body is sent in pieces: aiohttp warns of larger ones, because one write blocks the loop."""


def transport(context: ssl.SSLContext, idle_secs: float) -> httpx.AsyncBaseTransport:
    """A transport whose session is opened by its first request, inside the running loop."""

    def session() -> aiohttp.ClientSession:
        # limit=0: the caller counts. No cookies, or one caller's would travel with the next one's request.
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context, keepalive_timeout=idle_secs),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        )

    return AiohttpTransport(verify=context, trust_env=False, client=session)
