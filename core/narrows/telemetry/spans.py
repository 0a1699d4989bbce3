"""One span per request for a model, owned by the gateway to the last byte, and one child per attempt.

The request's span is never the current one: the reply's body may be read, and closed, in another task. It is started when
the first child needs it as a parent, or at its end, with the time at which the request arrived: what is no request for a
model (a probe, a list, a wrong path) has none. Attributes are built only when the span records. Source: DESIGN section
10, INTERFACES "Spans".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from narrows.decision import AttemptRow, Decision
from narrows.telemetry import names
from narrows.telemetry.plugins import watched
from narrows.telemetry.stages import Stage, Within, marked, sending

Detail: TypeAlias = Literal["request", "stages", "plugins"]
"""The words of `[telemetry] detail`: the request and its attempts; stages and HTTP calls too; plugins' calls too."""

_NOTHING: Final = nullcontext()
_W3C = TraceContextTextMapPropagator()
_PARENT = "traceparent"
_STATE = "tracestate"


class Tracing:
    """Starts request spans. `provider`: the host's, or None for the process-wide one, asked for at each gateway.

    What a higher `detail` needs of others: `wrap` goes around every HTTP transport, `watch` around every plugin's call.
    Both are None where nothing of it is wanted, so that nothing is paid for it.
    """

    def __init__(self, provider: TracerProvider | None = None, detail: Detail = "request") -> None:
        self._tracer = trace.get_tracer(names.TRACER, tracer_provider=provider)
        self._detail = detail
        self.wrap: Callable[[Any], Any] | None = None
        self.watch = watched if detail == "plugins" else None
        if detail != "request":
            from narrows.telemetry.http import around

            self.wrap = around(provider)

    def request(self, headers: Iterable[tuple[str, str]], standalone: bool) -> RequestSpan:
        """A request's span. Its parent is the current span where that is valid (the host's), else the incoming
        traceparent: `propagate.extract` alone would orphan us from the host's span."""
        current = trace.get_current_span()
        if current.get_span_context().is_valid:
            parent = trace.set_span_in_context(current, Context())
        else:
            parent = _incoming(headers)
        kind = SpanKind.SERVER if standalone else SpanKind.INTERNAL
        return RequestSpan(self._tracer, parent, kind, self._detail)


def _incoming(headers: Iterable[tuple[str, str]]) -> Context:
    """The caller's trace, where it names one that W3C's rules accept. Nothing else of these headers is kept: without an
    SDK they go on upstream, and what goes there must be a trace. An inner request's word is newer than its host's."""
    carried: dict[str, list[str]] = {}
    for key, value in headers:
        if key == _PARENT:
            carried[key] = [value]
        elif key == _STATE:
            carried.setdefault(key, []).append(value)
    return _W3C.extract(carried, Context()) if _PARENT in carried else Context()


class RequestSpan:
    """The span of one request."""

    __slots__ = ("_arrived", "_context", "_detail", "_ended", "_kind", "_parent", "_span", "_tracer")

    def __init__(self, tracer: trace.Tracer, parent: Context, kind: SpanKind, detail: Detail) -> None:
        self._tracer, self._parent, self._kind, self._detail, self._ended = tracer, parent, kind, detail, False
        self._arrived = time.time_ns()
        self._span: Span | None = None
        self._context = parent

    @property
    def recording(self) -> bool:
        """Is anybody keeping it?"""
        return self._started().is_recording()

    @property
    def staged(self) -> bool:
        """Is a span wanted of each stage? Not of a request that nobody keeps."""
        return self._detail != "request" and self.recording

    def stage(self, name: str) -> Stage:
        """A child span for one stage, current while its block runs. Only where `staged`."""
        span = self._tracer.start_span(name, context=self._context)
        return Stage(span, self._watcher)

    def current(self) -> AbstractContextManager[object]:
        """For what is called behind the last byte: a block whose plugins' calls hang below this span."""
        if self._watcher is None or self._span is None or not self._span.get_span_context().trace_flags.sampled:
            return _NOTHING
        return Within(marked(self._span, self._watcher))

    @property
    def _watcher(self) -> trace.Tracer | None:
        """What makes the spans of plugins' calls, where they are wanted."""
        return self._tracer if self._detail == "plugins" else None

    def attempt(self, target: str, model: str, provider: str, number: int) -> AttemptSpan:
        """A child span for one upstream call."""
        if not self._started().get_span_context().is_valid:
            return AttemptSpan(trace.INVALID_SPAN, {}, traced=False, watcher=None)
        span = self._tracer.start_span(f"{names.CHAT} {model}", context=self._context, kind=SpanKind.CLIENT)
        if span.is_recording():
            span.set_attributes({
                names.OPERATION: names.CHAT, names.PROVIDER: provider, names.REQUEST_MODEL: model,
                names.TARGET: target, names.ATTEMPT: number,
            })  # fmt: skip
        carried: dict[str, str] = {}
        _W3C.inject(carried, trace.set_span_in_context(span, Context()))
        return AttemptSpan(span, carried, traced=self._detail != "request", watcher=self._watcher)

    def _started(self) -> Span:
        if self._span is None:
            self._span = self._tracer.start_span(
                names.CHAT, context=self._parent, kind=self._kind, start_time=self._arrived
            )
            self._context = trace.set_span_in_context(self._span, Context())
        return self._span

    def end(self, decision: Decision | None, offered: Sequence[str] = (), eligible: Sequence[str] = ()) -> None:
        """Put the decision on the span and end it; without a decision, end it if it was started. Ending twice is
        harmless."""
        if self._ended:
            return
        self._ended = True
        if decision is not None and self._started().is_recording():
            _describe(self._started(), decision, offered, eligible)
        if self._span is not None:
            self._span.end()


def _describe(span: Span, decision: Decision, offered: Sequence[str], eligible: Sequence[str]) -> None:
    if decision.route is not None:
        span.update_name(f"{names.CHAT} {decision.route}")
        span.set_attributes({names.ROUTE: decision.route, names.REQUEST_MODEL: decision.route})
    span.set_attributes({
        names.OPERATION: names.CHAT, names.DECISION_ID: decision.id, names.POLICY: decision.policy,
        names.OUTCOME: decision.outcome, names.CODE: decision.code, names.OFFERED: list(offered),
        names.ELIGIBLE: list(eligible), names.ORDER: list(decision.order),
    })  # fmt: skip
    removed: dict[tuple[str, str], list[str]] = {}
    for row in decision.excluded:
        removed.setdefault((row.constraint, row.code), []).append(row.target)
    for (constraint, code), targets in removed.items():
        span.add_event(names.EXCLUSION_EVENT, {names.CONSTRAINT: constraint, names.CODE: code, names.TARGETS: targets})
    if decision.outcome in ("upstream_error", "upstream_incomplete") or decision.status >= 500:
        span.set_status(Status(StatusCode.ERROR))
        span.set_attribute(names.ERROR_TYPE, decision.code)


class AttemptSpan:
    """The span of one attempt, and the trace headers that travel with it."""

    __slots__ = ("_span", "_traced", "_watcher", "headers")

    def __init__(self, span: Span, headers: dict[str, str], *, traced: bool, watcher: trace.Tracer | None) -> None:
        """`traced`: is a span wanted of its HTTP call? `watcher`: makes those of plugins' calls, where they are wanted."""
        recording = span.is_recording()
        self._span, self.headers = span, headers
        self._traced, self._watcher = traced and recording, watcher if recording else None

    def current(self) -> AbstractContextManager[object]:
        """A block whose plugins' calls hang below this span."""
        return _NOTHING if self._watcher is None else Within(marked(self._span, self._watcher))

    def sending(self) -> AbstractContextManager[object]:
        """A block that makes the HTTP call. Whatever a host has told OpenTelemetry about its HTTP clients, our call is
        traced as we say, or not at all."""
        return sending(self._span, traced=self._traced) if self.headers else _NOTHING

    def end(self, row: AttemptRow, response_model: str | None = None) -> None:
        """Put what happened on the span and end it."""
        if not self._span.is_recording():
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
