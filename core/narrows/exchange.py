"""One upstream call: the attempt as its provider sees it, the gate before its only way out, and its row in the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from narrows import money, tokens
from narrows.decision import AttemptRow
from narrows.dialects.body import BadBody, encode, members
from narrows.errors import ContractViolation
from narrows.holding import worst_case
from narrows.run import Run
from narrows.snapshot import Vendor
from narrows.telemetry import AttemptSpan
from narrows.types import Classified, FailureClass, Inbound, Reply, Target, Usage

CALLER_HEADERS: Final = frozenset({"user-agent", "openai-beta", "x-stainless-retry-count"})
"""What of the caller's headers may travel upstream. Everything else stays here, credentials first of all."""

OK: Final = "ok"


class Outgoing:
    """The `Attempt` of one call. `send` is bound to the provider's origin and may be used once."""

    def __init__(
        self, run: Run, target: Target, vendor: Vendor, number: int, body: bytes, trace: Mapping[str, str]
    ) -> None:
        self._run, self._vendor, self._trace, self._sent = run, vendor, trace, False
        self.target, self.number, self.body = target, number, body
        self.stream = run.call.stream if run.call is not None else False
        self.headers: Mapping[str, str] = caller_headers(run.inbound)

    async def send(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Call the provider's origin, once, through the gate. See `Attempt.send`."""
        if self._sent:
            raise self._violation("it called attempt.send twice; an attempt is one upstream call")
        self._sent = True
        gate(self._run, self.target, self._vendor)
        if body is not self.body:
            body = self._with_model(body)
        sent = {**headers, **self._trace}
        if self._vendor.origin is None:
            return await self._vendor.block.answer(path, sent, body)
        upstream = await self._run.engine.clients.send(self._vendor.origin, "POST", path, sent, body)
        self._run.upstream = upstream
        return Reply(upstream.status, upstream.headers, upstream)

    def _with_model(self, body: bytes) -> bytes:
        """A body the provider wrote itself is sent with the target's model all the same."""
        try:
            found = members(body)
        except BadBody as bad:
            raise self._violation(f"its body is no JSON object: {bad}") from None
        return encode(found, {"model": msgspec.json.encode(self.target.model)})

    def _violation(self, reason: str) -> ContractViolation:
        return ContractViolation(self._vendor.dispatch.plugin, "dispatch", reason)


def gate(run: Run, target: Target, vendor: Vendor) -> None:
    """Before every egress: the target must be in the eligible set. Raises ContractViolation.

    It only ever closes. Kill switch, overrides, waivers and revoked keys are asked here when their issues bring them.
    """
    if run.candidates is None or target not in run.candidates:
        raise ContractViolation(vendor.dispatch.plugin, "dispatch", f"{target.name} is not eligible for this request")


def caller_headers(inbound: Inbound) -> dict[str, str]:
    """The caller's headers that may travel."""
    return {key: value for key, value in inbound.headers if key in CALLER_HEADERS}


class Exchange:
    """What is known of one call; `finish` writes its row once, however it ended."""

    def __init__(self, run: Run, target: Target, vendor: Vendor, span: AttemptSpan) -> None:
        self.run, self.target, self.vendor, self.span = run, target, vendor, span
        self.number = len(run.attempts) + 1
        self.started_ms = run.elapsed_ms()
        self.status: int | None = None
        self.usage: Usage | None = None
        self.output_bytes = 0
        self.response_model: str | None = None
        self.done = False

    def finish(self, classified: Classified | None, *, answered: bool) -> None:
        """Write the row. `classified` None: ok. `answered`: tokens were (or may have been) produced."""
        if self.done:
            return
        self.done = True
        usage = self.usage or self._estimate(classified, answered=answered)
        cost = money.attempt_cost(usage, self.target.price)
        if classified is not None and classified.failure_class is FailureClass.TIMEOUT and self.usage is None:
            cost = worst_case(self.run.call.sizes, self.target) if self.run.call is not None else cost
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

    def _estimate(self, classified: Classified | None, *, answered: bool) -> Usage:
        """Where nobody reported: about four bytes a token, of what was sent and what came back."""
        if not answered or self.run.call is None:
            return Usage()
        return Usage(tokens.estimate(self.run.call.sizes.at_most), tokens.estimate(self.output_bytes))
