"""The hook loop with a span around each call: it answers, fails and is late as it does without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from narrows.calls import Calls, Impl
from narrows.errors import Passing, PluginError
from narrows.telemetry.plugins import watched
from narrows.telemetry.stages import Stage
from tests.surface.spans import Spans, said

SECRET = "SECRET-canary-1c1c"


def impl(function: Callable[..., Any]) -> Impl:
    return Impl("mine", "plugins.mine", "authorize", function, (), "(host)")


def only(spans: Spans) -> ReadableSpan:
    """The span of the call: the stage's has not ended."""
    (span,) = [span for span in spans.all() if span.name != "stage"]
    assert (span.name, span.events) == ("authorize mine", ())
    assert SECRET not in span.to_json()
    return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def calls(spans: Spans) -> Iterator[Calls]:
    """Whose spans have all ended."""
    yield Calls(deadline_secs=0.05, watch=watched)
    assert spans.running.names == []


def staged(spans: Spans) -> Stage:
    tracer = spans.provider.get_tracer("test")
    return Stage(tracer.start_span("stage"), tracer)


async def late() -> str:
    await anyio.sleep_forever()
    return SECRET


async def timely() -> str:
    await anyio.lowlevel.checkpoint()
    return trace.get_current_span().to_json()  # type: ignore[attr-defined,no-any-return]


async def raises() -> None:
    await anyio.lowlevel.checkpoint()
    raise RuntimeError(SECRET)


def raises_at_once() -> None:
    raise LookupError(SECRET)


async def passes() -> None:
    raise Passing(SECRET)


@pytest.mark.anyio
async def test_an_answer_that_is_awaited(calls: Calls, spans: Spans) -> None:
    with staged(spans):
        outside = trace.get_current_span()
        assert "authorize mine" in str(await calls(impl(timely)))
        assert trace.get_current_span() is outside
    assert only(spans).status.status_code is StatusCode.UNSET


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("function", "error", "kind"),
    [
        (late, PluginError, "cancelled"),
        (raises, PluginError, "RuntimeError"),
        (raises_at_once, PluginError, "LookupError"),
        (passes, Passing, "Passing"),
    ],
)
async def test_what_goes_wrong_is_told_by_its_type(
    calls: Calls, spans: Spans, function: Callable[..., Any], error: type[Exception], kind: str
) -> None:
    with staged(spans), pytest.raises(error):
        await calls(impl(function))
    span = only(spans)
    assert said(span) == {"narrows.plugin": "mine", "narrows.hook": "authorize", "error.type": kind}
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


@pytest.mark.anyio
async def test_outside_a_request_there_is_no_span(calls: Calls, spans: Spans) -> None:
    """A start, a stop, and what a host does in a span of its own."""
    with spans.provider.get_tracer("host").start_as_current_span("host"):
        assert await calls(impl(lambda: "at once")) == "at once"
    assert [span.name for span in spans.all()] == ["host"]
