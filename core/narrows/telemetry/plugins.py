"""A span around one call of a plugin: its name and its hook, never what it was given or answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

from narrows.telemetry import names
from narrows.telemetry.stages import watcher

CANCELLED = "cancelled"
"""`error.type` of what was given up before it ended."""


def watched(plugin: str, hook: str, call: Callable[[], object]) -> object:
    """What the call answers. Its span ends with it, or when the answer has been awaited."""
    tracer = watcher()
    if tracer is None:
        return call()
    attributes = {names.PLUGIN: plugin, names.HOOK: hook}
    span = tracer.start_span(f"{hook} {plugin}", attributes=attributes)
    with failing(span), trace.use_span(span, record_exception=False, set_status_on_exception=False):
        answer = call()
    if isawaitable(answer):
        return _Awaited(span, answer)
    span.end()
    return answer


class _Awaited:
    """An answer that is not there yet. No coroutine: one that nobody awaits would warn a second time."""

    def __init__(self, span: Span, answer: Awaitable[object]) -> None:
        self._span, self._answer = span, answer

    def __await__(self) -> Generator[Any, None, object]:
        return self._waited().__await__()

    async def _waited(self) -> object:
        with failing(self._span), trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
            answer = await self._answer
        self._span.end()
        return answer


@contextmanager
def failing(span: Span) -> Iterator[None]:
    """End the span where the block raises."""
    try:
        yield
    except BaseException as error:
        failed(span, error)
        span.end()
        raise


def failed(span: Span, error: BaseException) -> None:
    """Say what went wrong: the exception's type. Its text may hold anything."""
    span.set_attribute(names.ERROR_TYPE, type(error).__name__ if isinstance(error, Exception) else CANCELLED)
    span.set_status(Status(StatusCode.ERROR))
