"""What a recording provider can be told to answer: small frozen values, one per way an upstream behaves or misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from narrows.testing.call import Call

Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
"""Header fields of an answer. Pairs where a name must stand twice."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A gate in an answer: sending waits here until `provider.release(name)` lets it through, or the peer leaves."""

    name: str = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """`before`: seconds to wait, or a `Hold` to pass, before the first byte of the answer."""

    before: float | Hold = 0.0


@dataclass(frozen=True, slots=True)
class Answer(_Timed):
    """A plain HTTP answer, framed by content-length.

    `body`: bytes as they are, a mapping as JSON, or None for a valid body of this status: a chat completion whose
    content names the model (a stream of completion chunks where the request says `"stream": true`), or an OpenAI-shaped
    error from status 400 up. A content-length or transfer-encoding in `headers` replaces ours, true or not.
    """

    status: int = 200
    body: bytes | Mapping[str, object] | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Stream(_Timed):
    """An answer sent piece by piece with chunked transfer-encoding: each of `chunks` is one write and one HTTP chunk.

    `chunks`: None for the valid event stream of a chat completion; a `Hold` among them gates what follows.
    `delay`: seconds between two chunks. `cut_at`: the number of body bytes after which the connection is closed without
    the closing chunk (at the latest after the last chunk). `reset`: then by RST instead of FIN, by which a peer may
    lose bytes that it had not read yet. `end=False`: after the last chunk the stream stays open and silent until the
    peer leaves.
    """

    chunks: tuple[bytes | Hold, ...] | None = None
    delay: float = 0.0
    cut_at: int | None = None
    reset: bool = False
    end: bool = True
    status: int = 200
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Stall(_Timed):
    """Silence until the peer leaves or the provider closes.

    `after_headers=False`: not one byte. True: the head of a 200 event stream, then `body` (one chunk), then silence.
    """

    after_headers: bool = False
    body: bytes = b""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Refuse(_Timed):
    """Closes the connection before any byte: by FIN, or with `reset` by RST."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Redirect(_Timed):
    """A 3xx with a Location. `location`: as it goes on the wire."""

    status: int
    location: str


@dataclass(frozen=True, slots=True)
class Big(_Timed):
    """An OpenAI-shaped error body of exactly `size` bytes. It is made while it is sent and never held in memory;
    sending ends when the peer leaves. `chunked`: without a content-length, so that only reading tells its size."""

    size: int
    status: int = 500
    chunked: bool = False

    def __post_init__(self) -> None:
        if self.size < 128:
            raise ValueError(f"Big(size={self.size}) is too small: 128 bytes hold the error around the filling")


@dataclass(frozen=True, slots=True)
class Raw(_Timed):
    """These bytes on the wire, verbatim: no status line, no framing of ours. `close`: then the connection ends."""

    data: bytes
    close: bool = True


Scripted: TypeAlias = Answer | Stream | Stall | Refuse | Redirect | Big | Raw
"""The closed set of answers."""

Script: TypeAlias = Scripted | Callable[[Call], Scripted]
"""One step of a script: an answer, or a function that chooses it by looking at the call."""
