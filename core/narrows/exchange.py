"""One upstream call: the attempt as its provider sees it, the gate before its only way out, and its row in the record."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from narrows import money, tokens
from narrows.decision import AttemptRow
from narrows.dialects.body import BadBody, encode, members
from narrows.errors import ContractViolation, Passing
from narrows.holding import most_output, worst_case
from narrows.request import Sizes
from narrows.run import Run
from narrows.snapshot import Vendor
from narrows.telemetry import AttemptSpan
from narrows.types import Chunks, Classified, FailureClass, Inbound, Reply, Target, Usage
from narrows.upstream import Upstream, UpstreamFault

CALLER_HEADERS: Final = frozenset({"user-agent", "openai-beta", "x-stainless-retry-count"})
"""What of the caller's headers may travel upstream. Everything else stays here, credentials first of all."""

OK: Final = "ok"

_SECRET = re.compile(r"key|token|secret|auth|cookie|credential|passw|sig", re.IGNORECASE)
_NOT_REACHED: Final = frozenset({"connect_error", "connect_timeout"})
_LEAST_CHARS = 8
"""A value that is shorter than this is found in any text by chance."""


class Barred(ContractViolation, Passing):
    """A contract that was broken inside a provider's own `dispatch`. The hook loop lets it pass, and the attempt ends with
    it, whatever the provider makes of the exception."""


class Outgoing:
    """The `Attempt` of one call. `send` is bound to the provider's origin, and may be used once, until `close`.

    A provider may assign to what it is shown; what is judged and sent is kept beside it.
    """

    def __init__(self, run: Run, target: Target, vendor: Vendor, number: int, body: bytes, span: AttemptSpan) -> None:
        self._run, self._vendor, self._span, self._target, self._body = run, vendor, span, target, body
        self._used = False
        self._barred: Barred | None = None
        self._upstream: Upstream | None = None
        self.target, self.number, self.body = target, number, body
        self.stream = run.call.stream if run.call is not None else False
        self.headers: Mapping[str, str] = caller_headers(run.inbound)

    async def send(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Call the provider's origin, once, through the gate. See `Attempt.send`."""
        try:
            body = self._allowed(body)
        except Barred as barred:
            self._barred = barred
            raise
        sent = {**headers, **self._span.headers}
        exchange = self._run.exchange
        if exchange is not None:
            exchange.sent, exchange.reached = (path, headers), True
        if self._vendor.origin is None:
            return await self._vendor.block.answer(path, sent, body)
        try:
            with self._span.sending():
                upstream = await self._run.engine.clients.send(self._vendor.origin, "POST", path, sent, body)
        except UpstreamFault as fault:
            if exchange is not None and fault.transport in _NOT_REACHED:
                exchange.reached = False
            raise
        self._upstream = self._run.upstream = upstream
        return Reply(upstream.status, upstream.headers, upstream)

    def close(self) -> None:
        """The provider has answered, or failed: nothing is sent any more. Raises what `send` raised, if it did."""
        self._used = True
        if self._barred is not None:
            raise self._barred

    def reply(self, answer: object, failed: Callable[[Exception], object]) -> Reply:
        """The provider's answer, if it is one; a body that it made itself is watched. Raises Barred."""
        if not isinstance(answer, Reply) or type(answer.status) is not int:
            raise self._violation("it returned no Reply")
        if answer.chunks is self._upstream:
            return answer
        return replace(answer, chunks=Made(answer.chunks, self._upstream, failed))

    def _allowed(self, body: bytes) -> bytes:
        """What may be sent now. Raises Barred."""
        if self._used:
            raise self._violation("it called attempt.send twice, or too late; an attempt is one upstream call")
        self._used = True
        gate(self._run, self._target, self._vendor)
        return body if body is self._body else self._with_model(body)

    def _with_model(self, body: bytes) -> bytes:
        """A body the provider wrote itself is sent with the target's model all the same."""
        try:
            found = members(body)
        except BadBody as bad:
            raise self._violation(f"its body is no JSON object: {bad}") from None
        return encode(found, {"model": msgspec.json.encode(self._target.model)})

    def _violation(self, reason: str) -> Barred:
        return Barred(self._vendor.dispatch.plugin, "dispatch", reason)


class Made:
    """A body that a provider made itself, or put around the upstream's. What it raises is that plugin's failure, and to
    the caller a stream that broke off. Closing it closes the upstream's too, read or not."""

    def __init__(self, chunks: Chunks, upstream: Upstream | None, failed: Callable[[Exception], object]) -> None:
        self._chunks, self._upstream, self._failed = chunks, upstream, failed
        self._source: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> Made:
        return self

    async def __anext__(self) -> bytes:
        try:
            if self._source is None:
                self._source = aiter(self._chunks)
            chunk: object = await anext(self._source)
            if isinstance(chunk, bytes):
                return chunk
            raise TypeError("a chunk is bytes")
        except (StopAsyncIteration, Passing):
            raise
        except Exception as error:  # noqa: BLE001 - a third party's code, while the caller is already reading
            self._failed(error)
        raise UpstreamFault("stream_cut", "provider")

    async def aclose(self) -> None:
        """Close both. Nobody is left to be told of a failure but the log."""
        try:
            await self._chunks.aclose()
        except Exception as error:  # noqa: BLE001 - the upstream's must still be closed
            self._failed(error)
        finally:
            if self._upstream is not None:
                await self._upstream.aclose()


def gate(run: Run, target: Target, vendor: Vendor) -> None:
    """Before every egress: the target must be in the eligible set. Raises Barred.

    It only ever closes. Kill switch, overrides, waivers and revoked keys are asked here when their issues bring them.
    """
    if run.candidates is None or target not in run.candidates:
        raise Barred(vendor.dispatch.plugin, "dispatch", f"{target.name} is not eligible for this request")


def caller_headers(inbound: Inbound) -> dict[str, str]:
    """The caller's headers that may travel."""
    return {key: value for key, value in inbound.headers if key in CALLER_HEADERS}


def credentials(path: str, headers: Mapping[str, str]) -> frozenset[bytes]:
    """What a provider sends to prove who it is: values of headers and of the query whose names say so, as they are and
    as they stand in a URL."""
    named = [*headers.items(), *parse_qsl(urlsplit(path).query)]
    values = {part for name, value in named if _SECRET.search(name) for part in (value, *value.split())}
    return frozenset(
        text.encode() for value in values if len(value) >= _LEAST_CHARS for text in (value, quote(value, ""))
    )


class Exchange:
    """What is known of one call; `finish` writes its row once, however it ended. `reached`: the upstream may have the
    request. `usage`: what the provider reported."""

    def __init__(self, run: Run, target: Target, vendor: Vendor, span: AttemptSpan) -> None:
        self.run, self.target, self.vendor, self.span = run, target, vendor, span
        self.number = len(run.attempts) + 1
        self.started_ms = run.elapsed_ms()
        self.status: int | None = None
        self.usage: Usage | None = None
        self.output_bytes = 0
        self.reached = False
        self.response_model: str | None = None
        self.done = False
        self.sent: tuple[str, Mapping[str, str]] = ("", {})

    def quoted(self, body: bytes) -> bool:
        """Does the vendor repeat the credential that it was sent? Some do, with the URL that they did not find."""
        return any(secret in body for secret in credentials(*self.sent))

    def finish(self, classified: Classified | None, *, answered: bool) -> None:
        """Write the row. `classified` None: ok. `answered`: the provider bills the prompt, and what came of it."""
        if self.done:
            return
        self.done = True
        usage, cost = self._used(classified, answered=answered)
        row = AttemptRow(
            n=self.number,
            target=self.target.name,
            provider=self.vendor.name,
            kind=self.vendor.kind,
            failure_class=OK if classified is None else str(classified.failure_class),
            status=self.status,
            endpoint_dead=classified is not None and classified.endpoint_dead,
            evidence=classified.evidence if classified is not None else "",
            started_ms=self.started_ms,
            duration_ms=self.run.elapsed_ms() - self.started_ms,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cached,
            usage="reported" if usage.reported else "estimated",
            cost_micro_usd=cost,
        )
        self.run.attempts.append(row)
        self.run.holding.charge(cost or 0)
        self.span.end(row, self.response_model)

    def abandon(self) -> None:
        """Nobody waits for the answer any more, which is no fault: what was sent is charged, what came of it, too."""
        self.finish(None, answered=self.reached)

    def _used(self, classified: Classified | None, *, answered: bool) -> tuple[Usage, int | None]:
        """Tokens, and micro-USD where the target has a price: as reported, else as estimated.

        A call that timed out may have been answered all the same, so it counts as the most it can have used. One that
        never reached the upstream used nothing.
        """
        sizes, price = self.run.call.sizes if self.run.call is not None else Sizes(), self.target.price
        if self.usage is not None:
            return self.usage, money.attempt_cost(self.usage, price)
        if self.reached and classified is not None and classified.failure_class is FailureClass.TIMEOUT:
            return Usage(sizes.at_most, most_output(sizes, self.target)), worst_case(sizes, self.target)
        usage = Usage()
        if answered:  # about four bytes a token, of what was sent and what came back
            usage = Usage(tokens.estimate(sizes.at_most), tokens.estimate(self.output_bytes))
        return usage, money.attempt_cost(usage, price)
