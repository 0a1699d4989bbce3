"""Spans that a test looks at, and how to read one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import httpx
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.surface.support import Site


class Spans:
    """A tracer provider of the test's own, and what it has exported. `running`: spans that have begun and not ended."""

    def __init__(self, **options: Any) -> None:
        self.provider = TracerProvider(**options)
        self.running = Running()
        self.provider.add_span_processor(self.running)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def clear(self) -> None:
        self._exporter.clear()

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self.all() if span.kind is kind]


class Running(SpanProcessor):
    """Which spans have begun and not ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: dict[int, str] = {}

    @property
    def names(self) -> list[str]:
        """As they were called when they began."""
        with self._lock:
            return list(self._spans.values())

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        with self._lock:
            self._spans[span.get_span_context().span_id] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        assert context is not None
        with self._lock:
            del self._spans[context.span_id]


def said(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes."""
    return dict(span.attributes or {})


def ident(span: ReadableSpan) -> tuple[str, str]:
    """Trace and span, as they stand in a traceparent."""
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def traceparent(span: ReadableSpan) -> str:
    """The header that names this span as the parent."""
    context = span.get_span_context()
    assert context is not None
    assert context.trace_flags.sampled
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def parent(span: ReadableSpan) -> str | None:
    """The id of the span above it."""
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def tree(spans: Sequence[ReadableSpan]) -> dict[str, str | None]:
    """The name of each span with that of the one above it. Names must be different."""
    known = {ident(span)[1]: span.name for span in spans}
    assert len({span.name for span in spans}) == len(spans), [span.name for span in spans]
    return {span.name: known.get(parent(span) or "") for span in spans}


def done(site: Site, response: httpx.Response) -> None:
    """Wait until the request is over on the gateway's side too."""
    site.log.wait(response.headers["x-narrows-decision"])
