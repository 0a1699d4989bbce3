"""What an upstream's reply is: an answer for the caller, or a failure with its class, and what the caller is told then.

A plain answer is read whole; a stream is held up to its first event. Error bodies are cut at 64 KiB before anything looks
at them. Source: DESIGN sections 2 ("Times"), 6 and 9.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import msgspec

from narrows import refusals
from narrows.dialects.errors import error_document, error_event
from narrows.dialects.usage import output_in, usage_in
from narrows.exchange import Exchange
from narrows.failover import UNANSWERED
from narrows.relay import ERROR_BYTES, Beginning, Relay
from narrows.run import Run
from narrows.types import Chunks, Classified, Denial, Failure, FailureClass, Phase, Reply
from narrows.upstream import UpstreamFault

ERROR_SECS = 5.0
ANSWER_BYTES = 64 * 1024 * 1024
HELD_BYTES = 1024 * 1024
EVENT_STREAM = "text/event-stream"
_PASSED_ON = frozenset({"content-type", "retry-after"})

Classify = Callable[[Failure], Classified]


@dataclass(frozen=True, slots=True)
class Answered:
    """The caller gets this."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed. `body`: the vendor's own error, `whole` unless it was cut."""

    classified: Classified
    failure: Failure
    headers: tuple[tuple[str, str], ...] = ()
    whole: bool = True

    def told(self, run: Run) -> Reply | Denial:
        """The failure as the caller gets it: the vendor's status and body where there is an honest one to pass."""
        failure, kind = self.failure, self.classified.failure_class
        run.failure_class = str(kind)
        if failure.status is None:
            if kind is FailureClass.TIMEOUT:
                return Denial("upstream_timeout", "the upstream did not answer in time")
            return Denial("upstream_error", "the upstream could not be reached, or broke off")
        if kind is FailureClass.AUTHENTICATION:
            return Denial("upstream_error", "the gateway's credential for this upstream was refused; tell its operator")
        if run.exchange is not None and run.exchange.quoted(failure.body):
            return Denial("upstream_error", "the upstream's error repeats the gateway's credential; tell its operator")
        if 300 <= failure.status < 400:
            return Denial("upstream_error", "the upstream answered with a redirect; they are not followed")
        if failure.phase == "stream_event" and self.whole:
            body = b"data: " + failure.body.replace(b"\n", b"\ndata: ") + b"\n\n"
            return self._passed(run, failure.status, body, (("content-type", EVENT_STREAM),))
        if failure.status < 400:
            return Denial("upstream_error", "the upstream's answer was not a chat completion")
        if not self.whole:
            document = error_document("upstream_error", "the upstream's error was too large, or came only in part",
                                      failure.status, decision=run.id, policy=run.snapshot.policy)  # fmt: skip
            named = (refusals.JSON, *(field for field in self.headers if field[0] == "retry-after"))
            return self._passed(run, failure.status, msgspec.json.encode(document), named)
        return self._passed(run, failure.status, failure.body, self.headers)

    def _passed(self, run: Run, status: int, body: bytes, headers: tuple[tuple[str, str], ...]) -> Reply:
        run.outcome, run.status, run.code = "upstream_error", status, "upstream_error"
        named = (*refusals.answered(run), ("x-narrows-code", "upstream_error"))
        return Reply.whole(status, body, (*headers, *named))


async def judged(run: Run, exchange: Exchange, reply: Reply, classify: Classify) -> Answered | Failed:
    """Read as much of the reply as it takes to know what it is. Raises UpstreamFault where it breaks off before that."""
    headers = tuple((key, value) for key, value in reply.headers if key in _PASSED_ON)
    media = (reply.header("content-type") or "").partition(";")[0].strip().casefold()
    if not 200 <= reply.status < 300:
        try:
            body, whole = await _error_body(reply.chunks)
        except anyio.get_cancelled_exc_class():  # its caller left: the status says what it was
            failure = Failure(exchange.vendor.kind, "response", reply.status, dict(reply.headers))
            exchange.finish(classify(failure), answered=False)
            raise
        return await _failed(run, exchange, reply, classify, "response", body, headers, whole)
    if exchange.run.call is not None and exchange.run.call.stream and media == EVENT_STREAM:
        return await _stream(run, exchange, reply, classify)
    body, whole = await read(reply.chunks, ANSWER_BYTES)
    answer = _completion(body) if whole else None
    if answer is None or (exchange.run.call is not None and exchange.run.call.stream):
        return await _failed(run, exchange, reply, classify, "response", body, headers, whole)
    await run.close_upstream_quietly()
    exchange.usage, exchange.response_model = usage_in(body), answer.named()
    exchange.output_bytes = output_in(body) if exchange.usage is None else 0
    verdict = classify(Failure(exchange.vendor.kind, "finish", reply.status, body=body))
    exchange.finish(None if verdict.evidence == UNANSWERED else verdict, answered=True)
    run.outcome, run.status = "answered", reply.status
    return Answered(Reply.whole(reply.status, body, (*headers, *refusals.answered(run))))


async def _stream(run: Run, exchange: Exchange, reply: Reply, classify: Classify) -> Answered | Failed:
    """Hold the first event, with the comments before it, until it is known to be no error."""
    begun = Beginning()
    async for chunk in reply.chunks:
        begun.feed(chunk)
        if begun.known or begun.size > HELD_BYTES:
            break
    else:
        begun.end()
    error = begun.watch.error
    if error is not None:
        return await _failed(run, exchange, reply, classify, "stream_event", error, (), len(error) <= ERROR_BYTES)
    if not begun.begins:
        return await _failed(run, exchange, reply, classify, "response", b"".join(begun.held), (), False)
    run.outcome, run.status = "client_disconnected", reply.status  # until the stream has ended
    relay = Relay(exchange, reply.chunks, begun, classify, lambda code: _event(run, code))
    run.upstream = relay
    headers = (("content-type", reply.header("content-type") or EVENT_STREAM), ("cache-control", "no-cache"))
    return Answered(Reply(reply.status, (*headers, *refusals.answered(run)), relay))


async def _failed(
    run: Run,
    exchange: Exchange,
    reply: Reply,
    classify: Classify,
    phase: Phase,
    body: bytes,
    headers: tuple[tuple[str, str], ...],
    whole: bool,
) -> Failed:
    failure = Failure(
        exchange.vendor.kind,
        phase,
        reply.status,
        dict(reply.headers),
        body[:ERROR_BYTES],
    )
    await run.close_upstream_quietly()
    verdict = classify(failure)
    if verdict.evidence == UNANSWERED and reply.status < 300:
        # A 200 that is no answer to this request, and in which no classifier sees an error: the upstream is broken.
        verdict = Classified(FailureClass.SERVER_ERROR, evidence="not an answer")
    exchange.finish(verdict, answered=False)
    return Failed(verdict, failure, headers, whole)


async def read(chunks: Chunks, limit: int) -> tuple[bytes, bool]:
    """The body up to a limit in bytes, and whether that is all of it."""
    parts = bytearray()
    async for chunk in chunks:
        parts += chunk
        if len(parts) > limit:
            return bytes(parts[:limit]), False
    return bytes(parts), True


async def _error_body(chunks: Chunks) -> tuple[bytes, bool]:
    """The beginning of an error body. The status is known and decides most, so a body that breaks off or does not come
    is no fault of its own."""
    body = bytearray()
    with anyio.move_on_after(ERROR_SECS):
        try:
            async for chunk in chunks:
                body += chunk[: ERROR_BYTES + 1 - len(body)]
                if len(body) > ERROR_BYTES:
                    break
            else:
                return bytes(body), True
        except UpstreamFault:
            pass
    return bytes(body[:ERROR_BYTES]), False


_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")


class _Completion(msgspec.Struct):
    choices: list[msgspec.Raw]
    model: msgspec.Raw = msgspec.Raw()

    def named(self) -> str | None:
        """The model that answered, where it has the shape of a name: it goes on a span, and no other text of an answer
        may."""
        try:
            model = msgspec.json.decode(self.model, type=str)
        except msgspec.DecodeError:
            return None
        return model if _MODEL.fullmatch(model) else None


_COMPLETION = msgspec.json.Decoder(_Completion)


def _completion(body: bytes) -> _Completion | None:
    """What makes a body a chat completion, or None. Anything else of an unusual shape is no reason to refuse it."""
    try:
        return _COMPLETION.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _event(run: Run, code: str) -> bytes:
    message = {
        "upstream_timeout": "the upstream stalled before its answer was complete",
        "stopping": "the gateway is being stopped before this answer was complete",
        "upstream_incomplete": "the upstream broke off before its answer was complete",
    }.get(code, "the upstream failed before its answer was complete")
    return error_event(error_document(code, message, 502, decision=run.id, policy=run.snapshot.policy))
