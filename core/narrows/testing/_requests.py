"""Reads HTTP/1.1 requests out of bytes, without touching a socket. Only what a test double needs, but that strictly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HEAD_LIMIT = 256 * 1024


class BadRequest(Exception):
    """What came in is not HTTP/1.1. The recording provider answers 400 and closes."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request off the wire. `headers`: lower-case names. `complete`: False where the peer left within it."""

    method: str
    path: str
    version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    complete: bool = True

    def values(self, name: str) -> list[str]:
        """The comma-separated values of that header, in lower case."""
        return [part.strip().lower() for key, value in self.headers if key == name for part in value.split(",")]

    @property
    def keep_alive(self) -> bool:
        return self.version == "HTTP/1.1" and "close" not in self.values("connection")


class RequestReader:
    """Feed it what arrives; it gives back whole requests, in order."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: Received | None = None
        self._body = bytearray()
        self._left: int | None = None  # bytes of the body still to come; None while the body is chunked
        self._promised = False

    def feed(self, data: bytes) -> Iterator[Received]:
        """The requests that are whole now. Raises BadRequest for what is not HTTP/1.1, after those before it."""
        self._buffer += data
        while (request := self._next()) is not None:
            yield request

    def unfinished(self) -> Received | None:
        """What had arrived of a request when the peer left within it, or None between two requests."""
        if self._head is not None:
            head = self._head
            rest = self._buffer if self._left is not None else b""
            return Received(head.method, head.path, head.version, head.headers, bytes(self._body + rest), False)
        if self._buffer:
            return Received("", "", "", (), bytes(self._buffer), False)
        return None

    def expects_continue(self) -> bool:
        """Whether the peer now waits for "100 Continue" (said once per request)."""
        if self._head is None or self._promised or "100-continue" not in self._head.values("expect"):
            return False
        self._promised = True
        return True

    def _next(self) -> Received | None:
        if self._head is None and not self._read_head():
            return None
        head = self._head
        if head is None or not self._read_body():
            return None
        whole = Received(head.method, head.path, head.version, head.headers, bytes(self._body))
        self._head, self._body, self._promised = None, bytearray(), False
        return whole

    def _read_head(self) -> bool:
        while self._buffer.startswith(b"\r\n"):  # RFC 9112 2.2: blank lines before a request are ignored
            del self._buffer[:2]
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_LIMIT:
                raise BadRequest(f"the head is longer than {HEAD_LIMIT} bytes")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
            raise BadRequest(f"not a request line of HTTP/1.1: {first[:80]!r}")
        headers = []
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise BadRequest(f"not a header field: {line[:80]!r}")
            headers.append((name.lower(), value.strip()))
        self._head = Received(parts[0], parts[1], parts[2], tuple(headers))
        self._left = self._length(self._head)
        del self._buffer[: end + 4]
        return True

    @staticmethod
    def _length(head: Received) -> int | None:
        codings, lengths = head.values("transfer-encoding"), set(head.values("content-length"))
        if codings and lengths:  # the classic of request smuggling: a provider behind a proxy would refuse it
            raise BadRequest("both transfer-encoding and content-length")
        if codings:
            if codings != ["chunked"]:
                raise BadRequest(f"transfer-encoding {codings} is not chunked")
            return None
        if not lengths:
            return 0
        if len(lengths) > 1 or not all(length.isascii() and length.isdigit() for length in lengths):
            raise BadRequest(f"content-length {sorted(lengths)} is not one number")
        return int(lengths.pop())

    def _read_body(self) -> bool:
        if self._left is not None:
            if len(self._buffer) < self._left:
                return False
            self._body += self._buffer[: self._left]
            del self._buffer[: self._left]
            return True
        while True:
            line_end = self._buffer.find(b"\r\n")
            if line_end < 0:
                return False
            text = bytes(self._buffer[:line_end].partition(b";")[0]).strip()
            if not text or text.strip(b"0123456789abcdefABCDEF"):  # int() would also take a sign and underscores
                raise BadRequest(f"not a chunk size: {text[:40]!r}")
            size = int(text, 16)
            if size == 0:
                return self._read_trailer(line_end + 2)
            end = line_end + 2 + size
            if len(self._buffer) < end + 2:
                return False
            self._body += self._buffer[line_end + 2 : end]
            del self._buffer[: end + 2]

    def _read_trailer(self, start: int) -> bool:
        """Trailers are read and dropped: no client of ours sends any."""
        if self._buffer[start : start + 2] == b"\r\n":
            del self._buffer[: start + 2]
            return True
        end = self._buffer.find(b"\r\n\r\n", start)
        if end < 0:
            return False
        del self._buffer[: end + 4]
        return True
