"""What can go wrong on the way to an upstream and back. No text here holds a URL, a header or a body.

An HTTP library's own messages do: h11 quotes an illegal header value, which is often a key. So its exceptions are
never chained to ours; what is kept of them are names (`describe`).
"""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Literal, TypeAlias

from narrows.errors import NarrowsError, Passing

TransportKind: TypeAlias = Literal["connect_error", "connect_timeout", "read_timeout", "protocol_error", "stream_cut"]
"""`Failure.transport`: why there was no (whole) HTTP answer."""

DEPTH = 8


class UpstreamFault(Passing):
    """There was no answer, or it broke off.

    `transport`: connect_error (refused, no such host, TLS, proxy), connect_timeout, read_timeout (headers, or between
    two chunks), protocol_error (what was sent or answered was not HTTP, or the connection went before the headers),
    stream_cut (the body broke off). `detail`: names of exceptions and error numbers. `local`: our own
    `max_connections` was used up and nothing was sent, which says nothing about the endpoint's health.
    """

    def __init__(self, transport: TransportKind, detail: str = "", *, local: bool = False) -> None:
        self.transport: TransportKind = transport
        self.detail = detail
        self.local = local
        super().__init__(f"{transport} ({detail})" if detail else transport)


class UpstreamClosed(Passing):
    """A reply was read after we had closed it, or while another task closed it. It is not the upstream's fault."""

    def __init__(self) -> None:
        super().__init__("the reply was closed on our side")


class TooLarge(NarrowsError):
    """A plain answer is larger than the gateway holds in memory. `limit`: bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"the upstream's answer is larger than {limit} bytes")


def describe(error: BaseException) -> str:
    """Names only: the exception's class, and what the system said below it (`ECONNREFUSED`, `certificate 18`, …)."""
    name = type(error).__name__
    below: BaseException | None = error
    for _ in range(DEPTH):
        if below is None:
            break
        known = _known(below)
        if known is not None:
            return f"{name}: {known}"
        group = below.exceptions if isinstance(below, BaseExceptionGroup) else ()
        below = next(iter(group), None) or below.__cause__ or below.__context__
    return name


def _known(error: BaseException) -> str | None:
    """What the system says, where this exception is its own; a library's that only derives from it is looked below."""
    code = getattr(error, "verify_code", None)
    if isinstance(code, int):  # ssl.SSLCertVerificationError
        return f"certificate {code}"
    if isinstance(error, ssl.SSLError):  # its errno is none of the system's
        reason = getattr(error, "reason", None)
        return reason if isinstance(reason, str) else None
    if isinstance(error, socket.gaierror):
        return "name resolution"
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    return None
