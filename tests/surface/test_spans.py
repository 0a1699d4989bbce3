"""Spans as INTERFACES has them: names, kinds, attributes, events, parents, and what travels upstream of a trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from narrows import Block, Decision, FailureClass, Gateway, hookimpl, transport
from narrows.server import attach
from narrows.telemetry import names
from narrows.testing import Hold, RecordingProvider, Refuse, Stream, failure_answer, stream_events
from tests.surface.spans import Spans, done, ident, said, traceparent
from tests.surface.support import CHAT, JSON, MODELS, PROMPT, SOCKETS, Headers, Site, Way, chat, opened
from tests.surface.world import KINDS, WORLD

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
INCOMING = ("traceparent", f"00-{TRACE}-{PARENT}-01")
ABROAD = [INCOMING, ("tracestate", "vendor=1"), ("baggage", "user=alice"), ("cookie", "session=1")]
PRICED = WORLD.replace(
    'region = "eu"\ntier = "gold"', 'region = "eu"\ntier = "gold"\nprice = { input = 1.0, output = 2.0 }'
)


@pytest.fixture(scope="module")
def spans() -> Spans:
    return Spans()


@pytest.fixture(scope="module")
def traced(way: Way, spans: Spans) -> Iterator[Site]:
    with opened(way, PRICED, kinds=KINDS, tracer_provider=spans.provider) as site:
        yield site


@pytest.fixture(name="site")
def _site(traced: Site, spans: Spans) -> Site:
    traced.clear()
    spans.clear()
    return traced


# ---- shape -------------------------------------------------------------------------------------------------------


def test_a_served_request(site: Site, spans: Spans, way: Way) -> None:
    response = site.ask(saying=[("x-region", "eu")])
    done(site, response)
    attempt, request = spans.all()
    assert (request.name, attempt.name) == ("chat chat", "chat eu-1")
    assert request.kind is (SpanKind.SERVER if way in SOCKETS else SpanKind.INTERNAL)
    assert attempt.kind is SpanKind.CLIENT
    assert said(request) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "chat",
        "narrows.decision.id": response.headers["x-narrows-decision"],
        "narrows.policy": site.gateway.policy,
        "narrows.route": "chat",
        "narrows.outcome": "answered",
        "narrows.code": "ok",
        "narrows.targets.offered": ("eu", "us"),
        "narrows.targets.eligible": ("eu",),
        "narrows.order": ("eu",),
    }
    assert said(attempt) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "eu-1",
        "gen_ai.response.model": "eu-1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 5,
        "narrows.target": "eu",
        "narrows.attempt": 1,
        "narrows.cost_micro_usd": 17,
    }
    assert request.parent is None
    assert attempt.parent is not None
    assert f"{attempt.parent.span_id:016x}" == ident(request)[1]
    assert ident(attempt)[0] == ident(request)[0]
    (event,) = request.events
    assert (event.name, dict(event.attributes or {})) == (
        "narrows.exclusion",
        {"narrows.constraint": "residency", "narrows.code": "attribute_mismatch", "narrows.targets": ("us",)},
    )
    assert request.status.status_code is attempt.status.status_code is StatusCode.UNSET
    assert request.instrumentation_scope is not None
    assert request.instrumentation_scope.name == "narrows"
    assert attempt.events == ()


def test_the_attributes_are_in_the_module_of_names(site: Site, spans: Spans) -> None:
    done(site, site.ask())
    known = {value for key, value in vars(names).items() if key.isupper()}
    assert {key for span in spans.all() for key in said(span)} <= known


def test_one_event_per_excluding_constraint(site: Site, spans: Spans) -> None:
    done(site, site.ask("search", saying=[("x-region", "us")], tools=[{"type": "web_search"}]))
    (request,) = spans.all()
    events = [dict(event.attributes or {}) for event in request.events]
    assert [(event["narrows.constraint"], event["narrows.targets"]) for event in events] == [
        ("residency", ("eu", "searcher"))
    ]
    done(site, site.ask("search", tools=[{"type": "web_search"}]))
    last = spans.of(request.kind)[-1]
    assert [dict(event.attributes or {}) for event in last.events] == [
        {
            "narrows.constraint": "capability",
            "narrows.code": "capability.server_tool.web_search",
            "narrows.targets": ("eu",),
        }
    ]


def test_a_refused_request(site: Site, spans: Spans) -> None:
    response = site.ask("american", saying=[("x-region", "eu")])
    done(site, response)
    (request,) = spans.all()
    assert request.name == "chat american"
    attributes = said(request)
    assert attributes["narrows.outcome"] == "refused"
    assert attributes["narrows.code"] == "no_eligible_target"
    assert (attributes["narrows.targets.offered"], attributes["narrows.targets.eligible"]) == (("us",), ())
    assert attributes["narrows.order"] == ()
    assert request.status.status_code is StatusCode.UNSET  # a rule that held is no error of anybody
    assert len(request.events) == 1


def test_a_request_that_names_no_route(site: Site, spans: Spans) -> None:
    done(site, site.ask(PROMPT))
    (request,) = spans.all()
    assert request.name == "chat"
    assert not {"narrows.route", "gen_ai.request.model"} & said(request).keys()
    assert PROMPT not in request.to_json()


@pytest.mark.parametrize("kind", FailureClass)
def test_a_failure_is_an_error_of_the_attempt(site: Site, spans: Spans, kind: FailureClass) -> None:
    for model in ("eu-1", "us-1"):
        site.provider.script(model, failure_answer(kind, message=PROMPT))
    response = site.ask()
    done(site, response)
    attempts = spans.of(SpanKind.CLIENT)
    assert len(attempts) == site.provider.count()
    assert [said(span)["error.type"] for span in attempts] == [kind] * len(attempts)
    assert [said(span)["narrows.attempt"] for span in attempts] == [*range(1, len(attempts) + 1)]
    assert {span.status.status_code for span in attempts} == {StatusCode.ERROR}
    (request,) = [span for span in spans.all() if span not in attempts]
    assert said(request)["narrows.outcome"] == "upstream_error"
    assert said(request)["error.type"] == said(request)["narrows.code"] == "upstream_error"
    assert request.status.status_code is StatusCode.ERROR
    assert not any(PROMPT in span.to_json() for span in spans.all())


def test_a_failed_attempt_and_the_one_that_answered(site: Site, spans: Spans) -> None:
    site.provider.script("eu-1", Refuse())
    done(site, site.ask())
    first, second = spans.of(SpanKind.CLIENT)
    assert (said(first)["narrows.target"], said(second)["narrows.target"]) == ("eu", "us")
    assert said(first)["error.type"] == "server_error"
    assert "error.type" not in said(second)
    (request,) = [span for span in spans.all() if span not in (first, second)]
    assert request.status.status_code is StatusCode.UNSET
    assert said(request)["narrows.outcome"] == "answered"


def test_only_requests_for_a_model_have_spans(site: Site, spans: Spans) -> None:
    for path in ("/health/live", "/health/ready", MODELS, "/v1/nothing", CHAT):
        site.get(path)
    site.get(MODELS, method="HEAD")
    site.explain("american", saying=[("x-region", "eu")])
    site.control()
    assert len(spans.all()) == 2  # the control's


# ---- parents and what travels ------------------------------------------------------------------------------------


def travelled(site: Site) -> list[dict[str, str]]:
    """What of a trace reached the provider, call by call."""
    kept = ("traceparent", "tracestate", "baggage", "cookie", "b3")
    return [{name: value for name, value in call.headers if name in kept} for call in site.provider.calls]


def test_the_incoming_trace_is_the_parent_and_the_attempts_goes_on(site: Site, spans: Spans) -> None:
    done(site, site.ask(saying=ABROAD))
    attempt, request = spans.all()
    assert request.parent is not None
    assert (f"{request.parent.trace_id:032x}", f"{request.parent.span_id:016x}") == (TRACE, PARENT)
    assert request.parent.is_remote
    assert travelled(site) == [{"traceparent": traceparent(attempt), "tracestate": "vendor=1"}]
    assert ident(attempt)[0] == TRACE


def test_each_attempt_sends_its_own(site: Site, spans: Spans) -> None:
    site.provider.script("eu-1", failure_answer(FailureClass.SERVER_ERROR))
    done(site, site.ask())
    attempts = spans.of(SpanKind.CLIENT)
    assert [sent["traceparent"] for sent in travelled(site)] == [traceparent(span) for span in attempts]
    assert len({ident(span) for span in attempts}) == 2


BROKEN = ["", "nonsense", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01",
          f"00-{TRACE}-{PARENT}-01-more", f"00-{TRACE.upper()}-{PARENT}-01", "00-" + "1" * 600]  # fmt: skip


@pytest.mark.parametrize("value", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_trace_begins_a_new_one(site: Site, spans: Spans, value: str) -> None:
    done(site, site.ask(saying=[("traceparent", value), ("tracestate", "vendor=1")]))
    attempt, request = spans.all()
    assert request.parent is None
    assert travelled(site) == [{"traceparent": traceparent(attempt)}]


def test_the_span_is_open_to_the_last_byte(site: Site, spans: Spans) -> None:
    """The provider's last piece waits until we have looked: nothing was exported yet."""
    pieces = stream_events("eu-1")
    seen: list[int] = []

    def look(call: object) -> Stream:
        return Stream((pieces[0], Hold("last"), *pieces[1:]))

    site.provider.script("eu-1", look)
    events = Streamed(site)
    with events:
        events.wait_first()
        seen.append(len(spans.all()))
        site.provider.release("last")
        events.wait_end()
    site.log.wait(" outcome=answered ")
    assert seen == [0]
    attempt, request = spans.all()
    assert attempt.end_time is not None
    assert request.start_time is not None
    assert request.end_time is not None
    assert request.end_time >= attempt.end_time
    assert said(request)["narrows.outcome"] == "answered"


class Streamed:
    """A streamed request in a thread of its own, its chunks told one by one."""

    def __init__(self, site: Site) -> None:
        import threading

        self._site = site
        self._first, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> Streamed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(5)
        if self.error is not None:
            raise self.error

    def wait_first(self) -> None:
        assert self._first.wait(5)

    def wait_end(self) -> None:
        assert self._end.wait(5)

    def _run(self) -> None:
        try:
            self._site.stream(chat(stream=True), self._first.set)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self.error = error
        finally:
            self._first.set()
            self._end.set()


# ---- without an SDK, and unsampled -------------------------------------------------------------------------------


@pytest.mark.parametrize("provider_of", [lambda: None, NoOpTracerProvider], ids=["nobody's", "no-op"])
def test_without_an_sdk_the_incoming_trace_is_passed_on(provider_of: Callable[[], Any]) -> None:
    with opened("asyncio", WORLD, kinds=KINDS, tracer_provider=provider_of()) as site:
        cases: list[tuple[Headers, dict[str, str]]] = [
            ((), {}),
            (ABROAD, {"traceparent": INCOMING[1], "tracestate": "vendor=1"}),
            ([INCOMING], {"traceparent": INCOMING[1]}),
            ([("traceparent", f"00-{TRACE}-{PARENT}-00")], {"traceparent": f"00-{TRACE}-{PARENT}-00"}),
            ([("tracestate", "vendor=1")], {}),
            *(([("traceparent", value), ("tracestate", "vendor=1")], {}) for value in BROKEN),
            ([("traceparent", PROMPT), ("baggage", "a=1"), ("b3", "1")], {}),
        ]
        for saying, expected in cases:
            site.provider.clear()
            assert site.ask(saying=saying).status_code == 200
            assert travelled(site) == [expected], saying


def test_what_is_not_sampled_costs_no_attributes_and_still_travels() -> None:
    spans = Spans(sampler=ALWAYS_OFF)
    with opened("asyncio", WORLD, kinds=KINDS, tracer_provider=spans.provider) as site:
        done(site, site.ask(saying=[INCOMING]))
        (sent,) = travelled(site)
        version, trace_id, span_id, flags = sent["traceparent"].split("-")
        assert (version, trace_id, flags) == ("00", TRACE, "00")
        assert span_id != PARENT
    assert spans.all() == ()


# ---- below a host's span -----------------------------------------------------------------------------------------


class HostSpan:
    """A host's tracing middleware: a current span around every request. Keeps the spans for the test to look at."""

    def __init__(self, app: ASGIApp, tracer: trace.Tracer, kept: list[trace.Span]) -> None:
        self.app, self._tracer, self._kept = app, tracer, kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with self._tracer.start_as_current_span("host") as span:
            await self.app(scope, receive, send)
            self._kept.append(span)
            assert span.is_recording()


@asynccontextmanager
async def hosted(provider: RecordingProvider, spans: Spans, kept: list[trace.Span]) -> AsyncIterator[httpx.AsyncClient]:
    gateway = Gateway.from_text(
        WORLD.replace("{url}", provider.base_url), kinds=KINDS, open_access=True, tracer_provider=spans.provider
    )
    tracer = spans.provider.get_tracer("host")
    app = Starlette(middleware=[Middleware(HostSpan, tracer=tracer, kept=kept)])
    attach(app, "/llm", gateway)
    async with gateway, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://host") as client:
        yield client


@pytest.mark.anyio
async def test_the_hosts_span_is_the_parent_even_where_a_trace_comes_in(provider: RecordingProvider) -> None:
    spans, kept = Spans(), list[trace.Span]()
    async with hosted(provider, spans, kept) as client:
        response = await client.post(f"/llm{CHAT}", content=chat(), headers=[JSON, *ABROAD])
        assert response.status_code == 200
    (host,) = kept
    attempt, request = (span for span in spans.all() if span.name != "host")
    assert request.kind is SpanKind.INTERNAL
    assert request.parent == host.get_span_context()
    assert ident(attempt)[0] == ident(request)[0] == f"{host.get_span_context().trace_id:032x}"
    assert dict(provider.calls[0].headers)["traceparent"] == traceparent(attempt)


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True])
async def test_the_hosts_span_is_still_its_own_afterwards(provider: RecordingProvider, stream: bool) -> None:
    """In-process: the host asks in the middle of its own span, and reads the answer in another task."""
    spans = Spans()
    tracer = spans.provider.get_tracer("host")
    gateway = Gateway.from_text(
        WORLD.replace("{url}", provider.base_url), kinds=KINDS, open_access=True, tracer_provider=spans.provider
    )
    async with gateway, httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        with tracer.start_as_current_span("host") as host:
            request = client.build_request("POST", CHAT, content=chat(stream=stream), headers=[JSON])
            response = await client.send(request, stream=True)
            assert trace.get_current_span() is host

            async def read() -> None:
                await response.aread()
                await response.aclose()

            async with anyio.create_task_group() as group:
                group.start_soon(read)
            assert trace.get_current_span() is host
            assert host.is_recording()
            host.set_attribute("after", True)
    attempt, ours, last = spans.all()
    assert last.name == "host"
    assert said(last) == {"after": True}
    assert ours.parent == host.get_span_context()
    assert attempt.parent is not None
    assert f"{attempt.parent.span_id:016x}" == ident(ours)[1]


# ---- the end -----------------------------------------------------------------------------------------------------


def test_a_slow_sink_does_not_make_the_span_longer() -> None:
    spans, seen = Spans(), list[int]()

    class Slow(Block):
        """Looks, while it records, whether the span has ended."""

        @hookimpl
        async def record(self, decision: Decision) -> None:
            seen.append(len(spans.all()))

    text = WORLD + '\n[plugins.slow]\nkind = "slow"\n'
    with opened("trio", text, kinds={**KINDS, "plugins.slow": Slow}, tracer_provider=spans.provider) as site:
        done(site, site.ask())
    assert seen == [2]


def test_a_caller_that_leaves_ends_both_spans(spans: Spans, site: Site) -> None:
    site.provider.script("eu-1", Stream((stream_events("eu-1")[0],), end=False))
    site.stream(chat(stream=True), lambda: None, leave=True)
    site.log.wait(" outcome=client_disconnected ")
    attempt, request = spans.all()
    assert said(request)["narrows.outcome"] == "client_disconnected"
    assert request.status.status_code is StatusCode.UNSET
    assert ident(attempt)[0] == ident(request)[0]
