"""Spans to a collector, over OTLP/HTTP: a tracer provider of our own. Only `narrows serve` makes one.

What OpenTelemetry reads from the environment (`OTEL_*`) is its SDK's to read. Spans are sent by a thread, out of a bounded
queue: a collector that is down, slow or silent costs no request anything. Needs the extra `otel`; imported only where
`[telemetry] exporter` asks for it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

STOP_SECS: Final = 2.0
"""How long a stop waits for the last spans to be taken."""

QUIET_SECS: Final = 60.0
"""Between two lines about spans that were lost."""

SERVICE: Final = "narrows"
PROTOCOL: Final = "http/protobuf"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_LIBRARY: Final = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")

log = logging.getLogger("narrows.telemetry")


class Collector:
    """A tracer provider whose spans go to a collector, until `stop`."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        """`exporter`: another one, for tests. Raises ValueError and RuntimeError where the environment says what cannot be
        done."""
        self.provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)  # `stop` is bounded, atexit is not
        self.provider.add_span_processor(BatchSpanProcessor(_over_http() if exporter is None else Telling(exporter)))

    def stop(self, seconds: float = STOP_SECS) -> bool:
        """Send what is left, for at most so long; then it is lost. Was everything offered to the collector?"""
        last = threading.Thread(target=self.provider.shutdown, name="narrows-last-spans", daemon=True)
        last.start()
        last.join(seconds)
        if last.is_alive():
            log.warning("the collector did not take the last spans within %g s; they are lost", seconds)
        return not last.is_alive()


class Telling(SpanExporter):
    """Passes spans on. When they are lost it says so in a line of ours, seldom: the library's own lines quote the
    collector's URL, and there are several for each batch."""

    def __init__(
        self,
        exporter: SpanExporter,
        cause: Callable[[], str] = lambda: "it does not say why",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exporter, self._cause, self._clock = exporter, cause, clock
        self._lost = 0
        self._next = clock()
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """One batch, in the exporter's thread."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            if self._failing:
                log.info("the collector takes spans again")
            self._failing = False
            return result
        self._failing = True
        self._lost += len(spans)
        if self._clock() >= self._next:
            self._next = self._clock() + QUIET_SECS
            log.warning("the collector does not take spans (%s); %d are lost so far, requests are not affected; "
                        "see OTEL_EXPORTER_OTLP_ENDPOINT", self._cause(), self._lost)  # fmt: skip
        return result

    def shutdown(self) -> None:
        """No more spans come."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is kept here."""
        return self._exporter.force_flush(timeout_millis)


class Cause(logging.Handler):
    """Reads the library's lines instead of showing them. Of one that says why a batch was lost, the status is kept."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._status: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """One line of the library."""
        values = record.args if isinstance(record.args, tuple) else ()
        self._status = next((value for value in values if type(value) is int), None)

    def __call__(self) -> str:
        """Why the last batch was lost."""
        return "it gave no answer" if self._status is None else f"it answered {self._status}"


def _over_http() -> SpanExporter:
    """The library's exporter, quiet. Raises ValueError for a protocol that it does not speak."""
    for name in _PROTOCOLS:
        if os.environ.get(name, PROTOCOL) != PROTOCOL:
            raise ValueError(
                f"{name} asks for another protocol; only {PROTOCOL} is spoken, to port 4318 of most collectors"
            )
    exporter, cause = OTLPSpanExporter(), Cause()
    _LIBRARY.addHandler(cause)
    _LIBRARY.propagate = False
    return Telling(exporter, cause)


def _resource() -> Resource:
    """Who speaks. What the environment says of it counts more."""
    ours = Resource.create({SERVICE_NAME: SERVICE, SERVICE_VERSION: version("narrows")})
    return ours.merge(OTELResourceDetector().detect())
