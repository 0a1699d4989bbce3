"""Bodies that come compressed although we asked for `identity`: taken apart piece by piece, never as a whole."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator

PIECE = 64 * 1024
"""Bytes of one piece. 64 KiB of gzip can hold 64 MiB; only this much of it is in memory at once."""

READABLE = frozenset({"gzip", "x-gzip", "deflate"})
"""What the standard library reads. br and zstd would need a dependency, for upstreams that ignore `identity`."""


class Inflate:
    """One gzip or deflate body, fed in any pieces."""

    def __init__(self) -> None:
        self._zlib: zlib._Decompress | None = None
        self._head = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The readable pieces of this chunk, each at most PIECE bytes. Raises zlib.error."""
        if self._zlib is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            self._zlib = zlib.decompressobj(_window(data))
        full = True
        while data or full:
            if self._zlib.eof:  # gzip: another member follows
                if not data:
                    return
                self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)
            piece = self._zlib.decompress(data, PIECE)
            if piece:
                yield piece
            full = len(piece) == PIECE  # then there may be more, even where all input is used up
            data = self._zlib.unused_data or self._zlib.unconsumed_tail

    def end(self) -> None:
        """The body ends here. Raises zlib.error where something is missing; no body at all is fine."""
        if self._zlib is None and not self._head:
            return
        if self._zlib is None or not self._zlib.eof:
            raise zlib.error("incomplete")


class Inflated:
    """The chunks of a compressed source, readable. An iterator, not a generator: nothing is left to be finalised."""

    def __init__(self, source: AsyncIterator[bytes]) -> None:
        self._source = source
        self._inflate = Inflate()
        self._pieces: Iterator[bytes] = iter(())

    def __aiter__(self) -> Inflated:
        return self

    async def __anext__(self) -> bytes:
        while True:
            for piece in self._pieces:
                return piece
            try:
                chunk = await anext(self._source)
            except StopAsyncIteration:
                self._inflate.end()
                raise
            self._pieces = self._inflate.feed(chunk)


def _window(head: bytes) -> int:
    """zlib's parameter for a body that begins so: gzip or zlib by their header, else raw deflate, which some servers
    send under the same name (RFC 9110, 8.4.1.2)."""
    gzip = head.startswith(b"\x1f\x8b")
    wrapped = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return zlib.MAX_WBITS | 32 if gzip or wrapped else -zlib.MAX_WBITS
