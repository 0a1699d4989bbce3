"""Spans that are the current one while a block runs: stages, attempts, plugins' calls.

What a plugin traces itself, a database or an HTTP call of its own, then hangs below its stage. None is current across a
`yield`: such a block is awaited to its end, in one task.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from opentelemetry import trace
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY as SUPPRESSED,  # its public form stands in a package that takes 70 ms to import
)
from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.trace import Span, Status, StatusCode

from narrows.telemetry import names

_WATCHER: Final = create_key("narrows-watcher")
_SENDING: Final = create_key("narrows-sending")


class Stage:
    """The span of one stage."""

    __slots__ = ("_span", "_token", "_watcher")

    def __init__(self, span: Span, watcher: trace.Tracer | None) -> None:
        """`watcher`: makes the spans of the plugins' calls in it, where they are wanted."""
        self._span, self._watcher = span, watcher

    def __enter__(self) -> Self:
        self._token = attach(marked(self._span, self._watcher))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        detach(self._token)
        self._span.end()

    def ended(self, code: str, status: int) -> None:
        """The request ends here, with that code and HTTP status. That a rule held is no error of anybody."""
        self._span.set_attribute(names.CODE, code)
        if status >= 500:
            self._span.set_attribute(names.ERROR_TYPE, code)
            self._span.set_status(Status(StatusCode.ERROR))


class Within:
    """A block in which that context is the current one. A class: it is entered for every attempt that has a span."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = attach(self._context)

    def __exit__(self, *_: object) -> None:
        detach(self._token)


def marked(span: Span, watcher: trace.Tracer | None) -> Context:
    """The current context with this span in it. Only where there is a `watcher` are plugins' calls traced."""
    return set_value(_WATCHER, watcher, trace.set_span_in_context(span))


def watcher() -> trace.Tracer | None:
    """Who makes the spans of plugins' calls here."""
    found = get_value(_WATCHER)
    return found if isinstance(found, trace.Tracer) else None


def sending(span: Span, *, traced: bool) -> Within:
    """A block for one HTTP call below that span. Nothing of the caller's own context, like its baggage, goes along.

    Not `traced`: no instrumentation that a host has put around every HTTP client may trace it.
    """
    return Within(set_value(_SENDING if traced else SUPPRESSED, True, trace.set_span_in_context(span, Context())))


def is_sending() -> bool:
    """Is a span wanted of the HTTP call that is made here?"""
    return get_value(_SENDING) is True


def untraced() -> Within:
    """A block in which nobody else traces an HTTP call."""
    return Within(set_value(SUPPRESSED, True))
