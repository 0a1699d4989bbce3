"""From the upstream's stream to the caller's, byte for byte, and how it may end.

The first event was held until it was classified; after the first byte nothing moves. Every further event is read before
it is forwarded, and forwarded as soon as it is whole: an error in which a vendor quotes a key never gets out, and a cut
never leaves half an event in front of ours. A stream that broke ends with an error event and never with `[DONE]`. Source:
DESIGN section 6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from narrows.dialects.cutting import EventCutter
from narrows.dialects.sse import StreamWatch
from narrows.exchange import Exchange
from narrows.failover import UNANSWERED
from narrows.stopping import CODE as STOPPING
from narrows.types import Chunks, Classified, Failure, FailureClass
from narrows.upstream import UpstreamFault

ERROR_BYTES = 64 * 1024
"""Of an error no more than this is looked at. One that is larger cannot be judged, so it is not passed on either."""


@dataclass(slots=True)
class Beginning:
    """A stream up to its first event, which alone decides: what follows it is the middle of the stream, also where it
    came in the same packet. `held`: what was read up to there, event by event; `behind`: what came with it."""

    cutter: EventCutter = field(default_factory=EventCutter)
    watch: StreamWatch = field(default_factory=StreamWatch)
    held: list[bytes] = field(default_factory=list)
    behind: list[bytes] = field(default_factory=list)
    size: int = 0
    ended: bool = False

    @property
    def known(self) -> bool:
        """Has the first event been read?"""
        return self.watch.first_event is not None

    @property
    def begins(self) -> bool:
        """Is this the beginning of an answer? An event that the stream's end cut off is one only if it is also the
        last that an answer needs."""
        return self.known and (not self.ended or self.watch.done or self.watch.finish is not None)

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        self.size += len(chunk)
        for piece in self.cutter.feed(chunk):
            self._take(piece)

    def end(self) -> None:
        """The stream is over before its first event was whole: one that lacks only its blank line is read too."""
        self.ended = True
        self._take(self.cutter.rest())
        self.watch.end()

    def _take(self, piece: bytes) -> None:
        if self.known:
            self.behind.append(piece)
        else:
            self.watch.feed(piece)
            self.held.append(piece)


class Relay:
    """The chunks of one streamed answer, as the caller gets them. An iterator, not a generator: nothing is left over to
    be finalised when it is abandoned."""

    def __init__(
        self,
        exchange: Exchange,
        source: Chunks,
        beginning: Beginning,
        classify: Callable[[Failure], Classified],
        error_event: Callable[[str], bytes],
    ) -> None:
        """`classify`: what a failure is. `error_event`: our own, for a stable code, in the caller's dialect."""
        self._exchange, self._chunks = exchange, source
        self._stopping = exchange.run.engine.stopping
        self._source: AsyncIterator[bytes] = aiter(source)
        self._cutter, self._watch = beginning.cutter, beginning.watch
        self._classify, self._error_event = classify, error_event
        self._ready: deque[bytes] = deque([b"".join(beginning.held)])
        self._over = False
        self._take(beginning.behind)

    def __aiter__(self) -> Relay:
        return self

    async def __anext__(self) -> bytes:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            if self._stopping.over:  # an upstream that is always ready would never be waited for
                self._cut()
                continue
            with self._stopping.wait() as wait:
                try:
                    chunk = await anext(self._source)
                except StopAsyncIteration:
                    self._ended()
                except UpstreamFault as fault:
                    self._broke(fault.transport)
                else:
                    self._take(self._cutter.feed(chunk))
            if wait.cut:
                self._cut()
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Close the upstream. The row is written by what was known. A caller that has `[DONE]` has the whole answer."""
        if not self._over and self._stopping.over:
            self._cut()
        elif not self._over:
            self._over = True
            self._settle("answered" if self._watch.done else "client_disconnected")
        await self._chunks.aclose()

    def _take(self, pieces: Iterable[bytes]) -> None:
        """Forward these events, each read before. An error event of the upstream ends the stream: what follows it is
        not passed, a `[DONE]` least of all."""
        good: list[bytes] = []
        for piece in pieces:
            self._watch.feed(piece)
            if self._watch.error is not None:
                self._failed(good, piece, self._watch.error)
                return
            good.append(piece)
        self._forward(good)

    def _forward(self, pieces: list[bytes]) -> None:
        chunk = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if chunk:
            self._ready.append(chunk)

    def _failed(self, good: list[bytes], piece: bytes, error: bytes) -> None:
        self._over = True
        classified = self._classify(self._failure(body=error))
        if classified.failure_class is FailureClass.AUTHENTICATION or len(error) > ERROR_BYTES:
            # Vendors echo keys in these: the operator's fault is told in our words.
            piece = self._ours("upstream_error")
        elif self._exchange.quoted(error):  # and in others, with the URL that failed
            piece = self._ours("upstream_error")
        self._forward([*good, piece])
        run = self._exchange.run
        run.outcome, run.code = "upstream_error", "upstream_error"
        self._finish(classified)

    def _ended(self) -> None:
        """The upstream closed cleanly. Without `[DONE]` and without a finish it broke off all the same."""
        rest = self._cutter.rest()
        self._watch.feed(rest)
        self._watch.end()
        error = self._watch.error
        if error is not None:
            self._failed([], rest, error)
        elif self._watch.done or self._watch.finish is not None:
            self._complete(rest)
        else:
            self._broke("stream_cut")

    def _broke(self, transport: str) -> None:
        """It stalled, or the connection went. Behind `[DONE]` nothing can be missing."""
        if self._watch.done:
            self._complete(b"")
            return
        self._over = True
        classified = self._classify(self._failure(transport=transport))
        run = self._exchange.run
        run.outcome = "upstream_incomplete"
        run.code = "upstream_timeout" if classified.failure_class is FailureClass.TIMEOUT else "upstream_incomplete"
        self._forward([self._ours(run.code)])
        self._finish(classified)

    def _cut(self) -> None:
        """The gateway stops. The upstream did nothing wrong, so the call's row is ok; the caller's answer is incomplete."""
        if self._watch.done:
            self._complete(b"")
            return
        self._over = True
        run = self._exchange.run
        run.outcome, run.code = "upstream_incomplete", STOPPING
        self._forward([self._ours(STOPPING)])
        self._finish(None)

    def _complete(self, rest: bytes) -> None:
        self._over = True
        self._forward([rest])
        self._settle("answered")

    def _settle(self, outcome: Literal["answered", "client_disconnected"]) -> None:
        """It ended without a fault; a finish may still tell of a refusal."""
        classified = None
        told = self._watch.refusal or self._watch.finish
        if told is not None:
            classified = self._classify(Failure(self._exchange.vendor.kind, "finish", 200, body=told))
        self._exchange.run.outcome = outcome
        self._finish(None if classified is None or classified.evidence == UNANSWERED else classified)

    def _finish(self, classified: Classified | None) -> None:
        self._exchange.usage = self._watch.usage
        self._exchange.output_bytes = self._watch.output_bytes
        self._exchange.finish(classified, answered=True)

    def _failure(self, body: bytes = b"", transport: str | None = None) -> Failure:
        return Failure(self._exchange.vendor.kind, "stream_event", 200, body=body[:ERROR_BYTES], transport=transport)

    def _ours(self, code: str) -> bytes:
        """Our error event. Where half of an overlong event is out, its end comes first."""
        return (b"\n\n" if self._cutter.inside else b"") + self._error_event(code)
