"""Bodies that are read as a whole: plain answers, and the beginning of error bodies."""

from __future__ import annotations

import anyio

from narrows.upstream.errors import TooLarge, UpstreamFault
from narrows.upstream.reply import Upstream

ANSWER_BYTES = 64 * 1024 * 1024
ERROR_BYTES = 64 * 1024
ERROR_SECS = 5.0


async def read_all(upstream: Upstream, limit: int = ANSWER_BYTES) -> bytes:
    """The whole body; then the reply is closed, whatever happened.

    Raises TooLarge above `limit` bytes (at once, where a content-length says so), UpstreamFault where it breaks off.
    """
    try:
        if _announced(upstream) > limit:
            raise TooLarge(limit)
        parts, size = [], 0
        async for chunk in upstream.chunks:
            size += len(chunk)
            if size > limit:
                raise TooLarge(limit)
            parts.append(chunk)
        return b"".join(parts)
    finally:
        await upstream.aclose()


async def read_some(upstream: Upstream, limit: int = ERROR_BYTES, *, seconds: float = ERROR_SECS) -> tuple[bytes, bool]:
    """The first `limit` bytes of an error body, and whether that is all of it; then the reply is closed.

    The status is known already and decides most, so a body that breaks off, or is not there after `seconds`, is no
    fault: what came of it is returned, with False.
    """
    parts, size = [], 0
    complete = False
    try:
        with anyio.move_on_after(seconds):
            async for chunk in upstream.chunks:
                parts.append(chunk[: limit - size])
                size += len(chunk)
                if size > limit:
                    break
            else:
                complete = True
    except UpstreamFault:
        pass
    finally:
        await upstream.aclose()
    return b"".join(parts), complete


def _announced(upstream: Upstream) -> int:
    """The content-length in bytes; 0 where there is none, or none that can be read."""
    length = upstream.header("content-length") or ""
    return int(length[:18]) if length.isascii() and length.isdigit() else 0  # cut: large numbers cost time
