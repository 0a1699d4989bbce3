"""What a status says where nothing better does: the last evidence.

403 stops, always, and says nothing about the key (an edge's challenge page is a 403 too). An unknown 4xx is the request's
fault, an unknown 5xx the server's. Sources: RFC 9110; Cloudflare's 52x; AWS, Cohere, nginx for 424, 498 and 499.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from narrows_plugins.classify_error.verdicts import (
    BAD_KEY,
    BROKEN,
    FORBIDDEN,
    INVALID,
    MISSING,
    THROTTLED,
    TIMED_OUT,
    TOO_LONG,
    USED_UP,
    Verdict,
)

KNOWN: Mapping[int, Verdict] = MappingProxyType(
    {
        401: BAD_KEY,
        402: USED_UP,
        403: FORBIDDEN,
        404: MISSING,
        405: MISSING,
        407: FORBIDDEN,
        408: TIMED_OUT,
        410: MISSING,
        413: TOO_LONG,
        424: BROKEN,
        425: BROKEN,
        429: THROTTLED,
        451: FORBIDDEN,
        499: TIMED_OUT,
        504: TIMED_OUT,
        522: TIMED_OUT,
        524: TIMED_OUT,
        598: TIMED_OUT,
    }
)


def by_status(status: int) -> Verdict:
    """The verdict of an HTTP status of 300 and more. A redirect is never followed, so it is a wrong request that stops."""
    known = KNOWN.get(status)
    if known is not None:
        return known
    return BROKEN if status >= 500 else INVALID
