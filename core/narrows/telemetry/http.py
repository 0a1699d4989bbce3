"""OpenTelemetry's instrumentation of httpx around each transport of ours, with nothing in its spans that may be a secret.

The global `instrument()` does not see transports like ours. What the instrumentation would record is more than may leave
this process: a URL with its query, any header that the environment names, the texts of exceptions. So it is handed a
tracer that writes what stands in `names`, and nothing else. Imported only where such spans are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.instrumentation.httpx import AsyncOpenTelemetryTransport
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NonRecordingSpan, Span, SpanKind, Status, StatusCode, TracerProvider

from narrows.telemetry import names
from narrows.telemetry.plugins import failed
from narrows.telemetry.stages import is_sending, untraced

_URLS = ("url.full", "http.url")
_METHODS = ("http.request.method", "http.method")
"""The instrumentation speaks the old conventions or the new, as the environment says. We write the new."""


def around(provider: TracerProvider | None) -> Callable[[Any], Any]:
    """What is put around each transport. Untyped: only `upstream` knows httpx."""
    return lambda transport: Traced(transport, provider)


class Traced:
    """A transport whose calls are traced where they belong to an attempt that is kept, and left alone where not."""

    def __init__(self, transport: Any, provider: TracerProvider | None) -> None:
        self._plain = transport
        inner: Any = _Untraced(transport)
        self._traced = AsyncOpenTelemetryTransport(
            inner,
            tracer_provider=_Provider(provider),
            meter_provider=NoOpMeterProvider(),
            response_hook=_answered,
        )

    async def handle_async_request(self, request: Any) -> Any:
        """The response. Its span ends with the headers; the attempt's goes on."""
        transport = self._traced if is_sending() else self._plain
        return await transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the transport."""
        await self._plain.aclose()


class _Untraced:
    """The transport below the span: a host that has instrumented httpx everywhere would trace the call once more."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    async def handle_async_request(self, request: Any) -> Any:
        with untraced():
            return await self._transport.handle_async_request(request)


async def _answered(_: Span, request: object, response: Any) -> None:
    span = trace.get_current_span()
    span.set_attribute(names.HTTP_STATUS, response.status_code)
    if response.status_code >= 400:
        span.set_attribute(names.ERROR_TYPE, str(response.status_code))
        span.set_status(Status(StatusCode.ERROR))


class _Provider(TracerProvider):
    """Gives the instrumentation its tracer. The schema that it names is of conventions that we do not write."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider

    def get_tracer(
        self, instrumenting_module_name: str, instrumenting_library_version: str | None = None, *_: object, **__: object
    ) -> trace.Tracer:
        return _Tracer(trace.get_tracer(instrumenting_module_name, instrumenting_library_version, self._provider))


class _Tracer(trace.Tracer):
    """Writes what may be known, and hands out a span on which nothing can be written."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_span(self, name: str, *_: object, **__: object) -> Span:
        raise NotImplementedError("the instrumentation of httpx makes its spans current")

    @contextmanager  # the API's own decorator is private; nobody decorates a function with ours
    def start_as_current_span(  # type: ignore[override]
        self,
        name: str,
        context: object = None,
        kind: SpanKind = SpanKind.CLIENT,
        attributes: Mapping[str, Any] | None = None,
        **__: object,
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=_known(attributes or {}), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield NonRecordingSpan(span.get_span_context())
            except BaseException as error:
                failed(span, error)
                raise


def _known(attributes: Mapping[str, Any]) -> dict[str, str | int]:
    """The method and where the call goes, out of what the instrumentation says of a request."""
    url = urlsplit(str(next((attributes[key] for key in _URLS if key in attributes), "")))
    host, port = url.hostname or "", url.port
    place = f"[{host}]" if ":" in host else host
    known: dict[str, str | int] = {
        names.HTTP_METHOD: str(next((attributes[key] for key in _METHODS if key in attributes), "")),
        names.URL: f"{url.scheme}://{place}" + (f":{port}" if port is not None else ""),
        names.SERVER_ADDRESS: host,
    }
    return known if port is None else {**known, names.SERVER_PORT: port}
