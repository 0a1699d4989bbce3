"""From the upstream's stream to the caller's, byte for byte, and how it may end.

The first event was held until it was classified; after the first byte nothing moves. Whole lines are forwarded as they
come; a line that is not complete waits for its end, so that a cut never leaves half an event in front of our error
event. A stream that broke ends with an error event and never with `[DONE]`. Source: DESIGN section 6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable

from narrows.dialects.sse import StreamWatch
from narrows.exchange import Exchange
from narrows.types import Chunks, Classified, Failure, FailureClass
from narrows.upstream import UpstreamFault

LONGEST_LINE = 1 << 20
"""A longer line is forwarded in pieces: memory is bounded, and nobody is cut there but by a fault."""


class Relay:
    """The chunks of one streamed answer, as the caller gets them. An iterator, not a generator: nothing is left over to
    be finalised when it is abandoned."""

    def __init__(
        self,
        exchange: Exchange,
        source: Chunks,
        held: bytes,
        watch: StreamWatch,
        classify: Callable[[Failure], Classified],
        error_event: Callable[[str], bytes],
    ) -> None:
        self._exchange, self._chunks, self._watch = exchange, source, watch
        self._source: AsyncIterator[bytes] = aiter(source)
        self._classify, self._error_event = classify, error_event
        self._ready: deque[bytes] = deque()
        self._tail = b""
        self._over = False
        self._forward(held)
        self._look()

    def __aiter__(self) -> Relay:
        return self

    async def __anext__(self) -> bytes:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            try:
                chunk = await anext(self._source)
            except StopAsyncIteration:
                self._ended()
            except UpstreamFault as fault:
                self._broken(Failure(self._exchange.vendor.kind, "stream_event", 200, transport=fault.transport))
            else:
                self._watch.feed(chunk)
                self._forward(chunk)
                self._look()
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Close the upstream. The row is written by what was known."""
        self._over = True
        self._note()
        self._exchange.finish(None, answered=True)
        await self._chunks.aclose()

    def _forward(self, chunk: bytes) -> None:
        data = self._tail + chunk
        end = data.rfind(b"\n") + 1
        if len(data) - end > LONGEST_LINE:
            end = len(data)
        if end:
            self._ready.append(data[:end])
        self._tail = data[end:]

    def _look(self) -> None:
        """An error event of the upstream ends the stream: it is passed, whatever follows it is not."""
        if self._watch.error is None or self._over:
            return
        self._over = True
        run = self._exchange.run
        classified = self._classify(Failure(self._exchange.vendor.kind, "stream_event", 200, body=self._watch.error))
        run.outcome, run.code = "upstream_error", "upstream_error"
        if classified.failure_class is FailureClass.AUTHENTICATION:
            # Vendors echo keys in these: the operator's fault is told in our words.
            self._ready.clear()
            self._ready.append(b"\n" + self._error_event("upstream_error"))
        else:
            self._ready = deque(_without_done(chunk) for chunk in self._ready)
        self._note()
        self._exchange.finish(classified, answered=True)

    def _ended(self) -> None:
        """The upstream closed cleanly. Without `[DONE]` and without a finish it broke off all the same."""
        self._over = True
        if not self._watch.done and self._watch.finish is None:
            self._broken(Failure(self._exchange.vendor.kind, "stream_event", 200, transport="stream_cut"))
            return
        if self._tail:
            self._ready.append(self._tail)
            self._tail = b""
        self._note()
        finish = self._watch.finish
        classified = None
        if finish is not None:
            classified = self._classify_finish(finish)
        self._exchange.run.outcome = "answered"
        self._exchange.finish(classified, answered=True)

    def _classify_finish(self, finish: bytes) -> Classified | None:
        classified = self._classify(Failure(self._exchange.vendor.kind, "finish", 200, body=finish))
        return None if classified.evidence == "unanswered" else classified

    def _broken(self, failure: Failure) -> None:
        self._over = True
        classified = self._classify(failure)
        timed_out = classified.failure_class is FailureClass.TIMEOUT
        run = self._exchange.run
        run.outcome = "upstream_incomplete"
        run.code = "upstream_timeout" if timed_out else "upstream_incomplete"
        # The blank line ends an event whose lines were all forwarded; half a line was not.
        self._ready.append(b"\n" + self._error_event(run.code))
        self._note()
        self._exchange.finish(classified, answered=True)

    def _note(self) -> None:
        self._exchange.usage = self._watch.usage
        self._exchange.output_bytes = self._watch.output_bytes


def _without_done(chunk: bytes) -> bytes:
    for mark in (b"data: [DONE]", b"data:[DONE]"):
        chunk = chunk.partition(mark)[0]
    return chunk
