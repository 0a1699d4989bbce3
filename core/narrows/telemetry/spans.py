"""One span per request, owned by the gateway to the last byte, and one child per attempt.

A span is never made the current one: the reply's body may be read, and closed, in another task. Attributes are built
only when the span records. Source: DESIGN section 10, INTERFACES "Spans".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from narrows.decision import AttemptRow, Decision
from narrows.telemetry import names

_W3C = TraceContextTextMapPropagator()
_FIELDS = frozenset({"traceparent", "tracestate"})


class Tracing:
    """Starts request spans. `provider`: the host's, or None for the process-wide one, asked for at each gateway."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(names.TRACER, tracer_provider=provider)

    def request(self, headers: Iterable[tuple[str, str]], standalone: bool) -> RequestSpan:
        """A request's span. Its parent is the current span where that is valid (the host's), else the incoming
        traceparent: `propagate.extract` alone would orphan us from the host's span."""
        carried = {key: value for key, value in headers if key in _FIELDS}
        parent = None
        if not trace.get_current_span().get_span_context().is_valid:
            parent = _W3C.extract(carried)
        kind = SpanKind.SERVER if standalone else SpanKind.INTERNAL
        span = self._tracer.start_span(names.CHAT, context=parent, kind=kind)
        return RequestSpan(self._tracer, span, carried)


class RequestSpan:
    """The span of one request."""

    __slots__ = ("_carried", "_context", "_ended", "_span", "_tracer")

    def __init__(self, tracer: trace.Tracer, span: Span, carried: dict[str, str]) -> None:
        self._tracer, self._span, self._carried, self._ended = tracer, span, carried, False
        self._context: Context = trace.set_span_in_context(span, Context())

    @property
    def recording(self) -> bool:
        """Is anybody keeping it?"""
        return self._span.is_recording()

    def attempt(self, target: str, model: str, provider: str, number: int) -> AttemptSpan:
        """A child span for one upstream call."""
        if not self._span.get_span_context().is_valid:
            return AttemptSpan(self._span, self._carried)
        span = self._tracer.start_span(f"{names.CHAT} {model}", context=self._context, kind=SpanKind.CLIENT)
        if span.is_recording():
            span.set_attributes({
                names.OPERATION: names.CHAT, names.PROVIDER: provider, names.REQUEST_MODEL: model,
                names.TARGET: target, names.ATTEMPT: number,
            })  # fmt: skip
        carried: dict[str, str] = {}
        _W3C.inject(carried, trace.set_span_in_context(span, Context()))
        return AttemptSpan(span, carried)

    def end(self, decision: Decision | None, offered: Sequence[str] = (), eligible: Sequence[str] = ()) -> None:
        """Put the decision on the span and end it. Ending twice is harmless."""
        if self._ended:
            return
        self._ended = True
        if decision is not None and self._span.is_recording():
            self._describe(decision, offered, eligible)
        self._span.end()

    def _describe(self, decision: Decision, offered: Sequence[str], eligible: Sequence[str]) -> None:
        if decision.route is not None:
            self._span.update_name(f"{names.CHAT} {decision.route}")
            self._span.set_attributes({names.ROUTE: decision.route, names.REQUEST_MODEL: decision.route})
        self._span.set_attributes({
            names.OPERATION: names.CHAT, names.DECISION_ID: decision.id, names.POLICY: decision.policy,
            names.OUTCOME: decision.outcome, names.CODE: decision.code, names.OFFERED: list(offered),
            names.ELIGIBLE: list(eligible), names.ORDER: list(decision.order),
        })  # fmt: skip
        removed: dict[tuple[str, str], list[str]] = {}
        for row in decision.excluded:
            removed.setdefault((row.constraint, row.code), []).append(row.target)
        for (constraint, code), targets in removed.items():
            self._span.add_event(
                names.EXCLUSION_EVENT, {names.CONSTRAINT: constraint, names.CODE: code, names.TARGETS: targets}
            )
        if decision.outcome in ("upstream_error", "upstream_incomplete") or decision.status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))
            self._span.set_attribute(names.ERROR_TYPE, decision.code)


class AttemptSpan:
    """The span of one attempt, and the trace headers that travel with it."""

    __slots__ = ("_span", "headers")

    def __init__(self, span: Span, headers: dict[str, str]) -> None:
        self._span, self.headers = span, headers

    def end(self, row: AttemptRow, response_model: str | None = None) -> None:
        """Put what happened on the span and end it."""
        if not self._span.is_recording() or self._span.get_span_context() is None:
            return
        attributes: dict[str, str | int] = {
            names.INPUT_TOKENS: row.input_tokens,
            names.OUTPUT_TOKENS: row.output_tokens,
        }
        if response_model is not None:
            attributes[names.RESPONSE_MODEL] = response_model
        if row.cost_micro_usd is not None:
            attributes[names.COST] = row.cost_micro_usd
        if row.failure_class != "ok":
            attributes[names.ERROR_TYPE] = row.failure_class
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attributes(attributes)
        self._span.end()
