"""The seam: the one way out of this process, and the only place (with `server.transport`) that knows an HTTP library.

A call is bound to its provider's origin. It follows no redirect, keeps no cookie, reads no proxy variable. Importing
this package does not import the HTTP library (0.1 s and more): the first call does, or `Clients.warm`.
"""

from __future__ import annotations

from narrows.upstream.clients import Clients
from narrows.upstream.errors import TooLarge, TransportKind, UpstreamClosed, UpstreamFault
from narrows.upstream.origin import Origin
from narrows.upstream.reading import read_all, read_some
from narrows.upstream.reply import Upstream

__all__ = [
    "Clients",
    "Origin",
    "TooLarge",
    "TransportKind",
    "Upstream",
    "UpstreamClosed",
    "UpstreamFault",
    "read_all",
    "read_some",
]
