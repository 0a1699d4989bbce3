"""`[telemetry] detail`: spans of stages, of plugins' calls and of HTTP calls, what is above each, and what is on none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Literal, cast

import anyio
import httpx
import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from narrows import Attempt, Block, Decision, Gateway, Inbound, Provider, Reply, Request, hookimpl, transport
from narrows.telemetry import names
from narrows.testing import Answer, Hold, RecordingProvider, Refuse, Stream, stream_events
from narrows.types import ClientGone
from tests.surface.spans import Spans, done, ident, parent, said, traceparent, tree
from tests.surface.support import CHAT, JSON, PROMPT, Inside, Site, Way, chat, opened
from tests.surface.world import KINDS, RAISED, WORLD

Detail = Literal["request", "stages", "plugins"]
STAGES = ("authenticate", "read", "resolve", "oblige", "authorize", "budget", "narrow", "hold", "rank")
EU = [("x-region", "eu")]
SECRET = "SECRET-canary-77aa"


class Asks(Block):
    """Waits, and traces what it does itself, as a plugin with a database of its own would."""

    @hookimpl
    async def authorize(self, request: Request) -> None:
        await anyio.lowlevel.checkpoint()
        with ASKED.provider.get_tracer("mine").start_as_current_span("query"):
            await anyio.lowlevel.checkpoint()

    @hookimpl
    async def record(self, decision: Decision) -> None:
        await anyio.lowlevel.checkpoint()


ASKED = Spans()


def detailed(detail: Detail, text: str = WORLD) -> str:
    return f'{text}\n[telemetry]\ndetail = "{detail}"\n[plugins.asks]\nkind = "asks"\n'


@contextmanager
def site_of(way: Way, detail: Detail, spans: Spans, text: str = WORLD, **kinds: type[Block]) -> Iterator[Site]:
    """A gateway with that detail. Every span that it begins it also ends."""
    more = {name.replace("__", "."): kind for name, kind in kinds.items()}
    with opened(
        way, detailed(detail, text), kinds={**KINDS, "plugins.asks": Asks, **more}, tracer_provider=spans.provider
    ) as site:
        yield site
    assert spans.running.names == []


@pytest.fixture(scope="module", params=["uvicorn", "trio"])
def on(request: pytest.FixtureRequest) -> Way:
    """A server on asyncio, and the transport on trio."""
    return cast(Way, request.param)


@pytest.fixture(scope="module")
def staged(on: Way) -> Iterator[tuple[Site, Spans]]:
    spans = Spans()
    with site_of(on, "stages", spans) as site:
        yield site, spans


@pytest.fixture(scope="module")
def watched(on: Way) -> Iterator[tuple[Site, Spans]]:
    with site_of(on, "plugins", ASKED) as site:
        yield site, ASKED


def fresh(pair: tuple[Site, Spans]) -> tuple[Site, Spans]:
    pair[0].clear()
    pair[1].clear()
    return pair


def named(spans: Spans, name: str) -> ReadableSpan:
    """The one span of that name."""
    (span,) = [span for span in spans.all() if span.name == name]
    return span


def quiet(span: ReadableSpan) -> bool:
    """No error, no event, no words."""
    return span.status.status_code is StatusCode.UNSET and not span.events and span.status.description is None


# ---- which spans there are ---------------------------------------------------------------------------------------


def test_stages_and_http_calls(staged: tuple[Site, Spans]) -> None:
    site, spans = fresh(staged)
    done(site, site.ask(saying=EU))
    below = {span for span in spans.all() if span.name != "query"}  # what the plugin traces itself
    assert tree(list(below)) == {
        "chat chat": None, **dict.fromkeys(STAGES, "chat chat"), "chat eu-1": "chat chat", "POST": "chat eu-1",
    }  # fmt: skip
    assert [span.name for span in spans.all()[:9]] == [*STAGES]
    for name in STAGES:
        span = named(spans, name)
        assert (span.kind, said(span), quiet(span)) == (SpanKind.INTERNAL, {}, True)
    call = named(spans, "POST")
    port = int(site.provider.base_url.rsplit(":", 1)[1].split("/")[0])
    assert (call.kind, quiet(call)) == (SpanKind.CLIENT, True)
    assert said(call) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.full": f"http://127.0.0.1:{port}",
        "server.address": "127.0.0.1",
        "server.port": port,
    }


def test_plugins_calls(watched: tuple[Site, Spans]) -> None:
    site, spans = fresh(watched)
    done(site, site.ask(saying=EU))
    assert tree(spans.all()) == {
        "chat chat": None,
        **dict.fromkeys(STAGES, "chat chat"),
        "authorize acts": "authorize", "authorize asks": "authorize", "query": "authorize asks",
        "budget purse": "budget",
        **dict.fromkeys((f"narrow {rule}" for rule in ("residency", "acts", "capability", "context_window")), "narrow"),
        "rank ordered": "rank",
        "chat eu-1": "chat chat", "dispatch vendor": "chat eu-1", "POST": "chat eu-1",
        **dict.fromkeys(("classify_error probe", "classify_error error_classes"), "chat eu-1"),
        "record probe": "chat chat", "record asks": "chat chat",
    }  # fmt: skip
    span = named(spans, "narrow residency")
    assert (span.kind, said(span), quiet(span)) == (
        SpanKind.INTERNAL, {"narrows.plugin": "residency", "narrows.hook": "narrow"}, True,
    )  # fmt: skip
    known = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
    assert {key for span in spans.all() for key in said(span)} <= known


def test_the_table_of_spans_holds_all_that_is_recorded(watched: tuple[Site, Spans]) -> None:
    """The reference is made of it."""
    site, spans = fresh(watched)
    site.provider.script("eu-1", Refuse())
    done(site, site.ask())
    done(site, site.ask("american", saying=EU))
    done(site, site.ask(saying=[("x-act", "budget_raises")]))
    rows = {row.name: row for row in names.SPANS}
    forms = {"chat chat": "chat {route}", "chat american": "chat {route}", "POST": "{method}", **dict.fromkeys(STAGES, "{stage}"),
             **dict.fromkeys(("chat eu-1", "chat us-1"), "chat {model}")}  # fmt: skip
    seen = [span for span in spans.all() if span.name != "query"]
    for span in seen:
        row = rows[forms.get(span.name, "{hook} {plugin}")]
        assert said(span).keys() <= {*row.attributes}, span.name
        assert {event.name for event in span.events} <= {*row.events}
        assert span.kind.name in row.kind
    events = dict(names.EVENTS)
    assert [dict(event.attributes or {}).keys() for span in seen for event in span.events] == [
        {*events["narrows.exclusion"]}
    ]
    assert {forms.get(span.name, "{hook} {plugin}") for span in seen} == rows.keys()


def test_at_request_there_are_two() -> None:
    """And what would be paid for more is not even there."""
    spans = Spans()
    with site_of("asyncio", "request", spans) as site:
        done(site, site.ask())
        assert {span.name for span in spans.all()} == {"chat chat", "chat eu-1"}
        engine = site.gateway.engine
        assert (engine.tracing.wrap, engine.tracing.watch, engine.calls._watch) == (None, None, None)


def test_explain_and_lists_have_none(watched: tuple[Site, Spans]) -> None:
    site, spans = fresh(watched)
    site.explain("american", saying=EU)
    site.get("/v1/models")
    assert [span.name for span in spans.all() if span.name != "query"] == []
    site.control()
    assert named(spans, "chat chat").end_time


def test_what_is_not_sampled_has_no_more() -> None:
    spans = Spans(sampler=ALWAYS_OFF)
    with site_of("trio", "plugins", spans) as site:
        done(site, site.ask())
        (sent,) = [value for key, value in site.provider.calls[0].headers if key == "traceparent"]
    assert int(sent.rsplit("-", 1)[1], 16) & 1 == 0
    assert spans.all() == ()


# ---- what went wrong ---------------------------------------------------------------------------------------------

ENDS = {
    "forbidden": ("authorize", "forbidden", False),
    "kill_switch": ("authorize", "kill_switch", True),
    "rate_limited": ("budget", "rate_limited", False),
    "spent": ("hold", "budget_exhausted", False),
    "authorize_raises": ("authorize", "forbidden", False),
    "budget_raises": ("budget", "budget_unverifiable", True),
    "narrow_raises": ("narrow", "constraint_failed", True),
    "adds": ("narrow", "contract_violation", True),
}


@pytest.mark.parametrize("act", ENDS)
def test_the_stage_that_ends_a_request_says_so(watched: tuple[Site, Spans], act: str) -> None:
    site, spans = fresh(watched)
    stage, code, wrong = ENDS[act]
    response = site.ask("american" if act == "spent" else "chat", saying=[("x-act", act)])
    done(site, response)
    assert (response.headers["x-narrows-code"], site.provider.count()) == (code, 0)
    ran = [span for span in spans.all() if span.name in STAGES]
    assert [span.name for span in ran] == [*STAGES[: STAGES.index(stage) + 1]]
    assert all(quiet(span) and not said(span) for span in ran[:-1])
    assert said(ran[-1]) == {"narrows.code": code, **({"error.type": code} if wrong else {})}
    assert ran[-1].status.status_code is (StatusCode.ERROR if wrong else StatusCode.UNSET)
    failed = [span.name for span in spans.all() if said(span).get("error.type") == "RuntimeError"]
    assert failed == {"authorize_raises": ["authorize acts"], "budget_raises": ["budget purse"],
                      "narrow_raises": ["narrow acts"]}.get(act, [])  # fmt: skip
    assert not any(word in span.to_json() for span in spans.all() for word in (RAISED, PROMPT, "not today"))
    assert all(not span.events for span in spans.all() if span.name != "chat american")


def test_a_vendor_that_fails(staged: tuple[Site, Spans]) -> None:
    site, spans = fresh(staged)
    site.provider.script("eu-1", Answer(503, headers=(("x-quoted", SECRET),)))
    site.provider.script("us-1", Refuse())
    done(site, site.ask())
    calls = [span for span in spans.all() if span.name == "POST"]
    attempts = [span for span in spans.all() if span.name in ("chat eu-1", "chat us-1")]
    assert [said(span).get("http.response.status_code") for span in calls] == [503, None]
    assert said(calls[0])["error.type"] == "503"
    assert issubclass(getattr(httpx, said(calls[1])["error.type"]), httpx.TransportError)
    assert {span.status.status_code for span in calls} == {StatusCode.ERROR}
    assert {span.status.description for span in calls} == {None}
    assert [span.events for span in calls] == [(), ()]
    assert [parent(span) for span in calls] == [ident(span)[1] for span in attempts]


def test_a_caller_that_leaves_while_it_sends() -> None:
    """In-process, where the body is the caller's own iterator."""
    spans = Spans()

    async def leaving() -> AsyncIterator[bytes]:
        yield b'{"model": '
        raise ClientGone

    with site_of("trio", "stages", spans) as site:
        assert isinstance(site, Inside)

        async def ask() -> None:
            with pytest.raises(ClientGone):
                async with site.gateway.answer(Inbound("POST", CHAT, (JSON,)), leaving):
                    pass

        site.portal.call(ask)
        assert [span.name for span in spans.all()] == ["authenticate", "read", "chat"]
        assert (said(named(spans, "read")), quiet(named(spans, "read"))) == ({}, True)


# ---- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_that_its_caller_leaves(watched: tuple[Site, Spans]) -> None:
    """The HTTP call's span ends with the headers, the attempt's with the last byte, and nothing is left open."""
    site, spans = fresh(watched)
    site.provider.script(
        "eu-1", Stream((stream_events("eu-1")[0], Hold("rest"), *stream_events("eu-1")[1:]), end=False)
    )
    seen: list[list[str]] = []
    site.stream(chat(stream=True), lambda: seen.append(spans.running.names), leave=True)
    site.log.wait(" outcome=client_disconnected ")
    site.provider.release("rest")
    assert seen[0] == ["chat", "chat eu-1"]
    assert {"POST", "dispatch vendor", "chat eu-1", "chat chat"} <= {span.name for span in spans.all()}
    assert named(spans, "record asks").end_time


def test_a_stream_that_breaks_off(watched: tuple[Site, Spans]) -> None:
    site, spans = fresh(watched)
    site.provider.script("eu-1", Stream(cut_at=len(stream_events("eu-1")[0]) + 5))
    site.stream(chat(stream=True), lambda: None)
    site.log.wait(" outcome=upstream_incomplete ")
    assert said(named(spans, "chat eu-1"))["error.type"] == "server_error"
    assert quiet(named(spans, "POST"))  # it had its headers
    judged = [span for span in spans.all() if span.name.startswith("classify_error ")]
    assert {parent(span) for span in judged} == {ident(named(spans, "chat eu-1"))[1]}


# ---- what travels, and what is recorded of it --------------------------------------------------------------------


class Quoting(Provider):
    """A vendor that takes its key in the URL."""

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        return await attempt.send(
            f"/chat/{SECRET}?key={SECRET}", {**attempt.headers, "x-goog-api-key": SECRET}, attempt.body
        )


def test_no_secret_is_recorded_of_an_http_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment tells the instrumentation to record."""
    for way in ("REQUEST", "RESPONSE"):
        monkeypatch.setenv(f"OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_CLIENT_{way}", ".*")
    text = WORLD + '[providers.quoting]\nkind = "quoting"\nbase_url = "{url}"\n'
    text += '[targets.quoted]\nprovider = "quoting"\nmodel = "quoted-1"\n[routes.quoting]\ntargets = ["quoted"]\n'
    spans = Spans()
    with site_of("asyncio", "plugins", spans, text, providers__quoting=Quoting) as site:
        site.provider.script("quoted-1", Answer(headers=(("x-echo", SECRET),)))
        done(site, site.ask("quoting", saying=[("user-agent", PROMPT)]))
        (call,) = site.provider.calls
        assert SECRET in call.path
        assert (call.header("x-goog-api-key"), call.header("user-agent")) == (SECRET, PROMPT)
    assert named(spans, "POST").end_time
    assert not any(word in span.to_json() for span in spans.all() for word in (SECRET, PROMPT))


@pytest.mark.anyio
@pytest.mark.parametrize("detail", ["request", "stages"])
async def test_one_trace_travels_and_nothing_else(provider: RecordingProvider, detail: Detail) -> None:
    """In a host with baggage, that traces every HTTP client of its process."""
    spans = Spans()
    text = f'{WORLD}\n[telemetry]\ndetail = "{detail}"\n'.replace("{url}", provider.base_url)
    gateway = Gateway.from_text(text, kinds=KINDS, open_access=True, tracer_provider=spans.provider)
    HTTPXClientInstrumentor().instrument(tracer_provider=spans.provider)
    token = attach(baggage.set_baggage("user", PROMPT))
    try:
        async with gateway, httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
            with spans.provider.get_tracer("host").start_as_current_span("host") as host:
                response = await client.post(CHAT, content=chat(), headers=[JSON])
                assert trace.get_current_span() is host
                assert baggage.get_baggage("user") == PROMPT
    finally:
        detach(token)
        HTTPXClientInstrumentor().uninstrument()
    assert response.status_code == 200
    calls = [span for span in spans.all() if span.name == "POST"]
    (sender,) = calls if detail == "stages" else [named(spans, "chat eu-1")]
    assert len(calls) == (detail == "stages")
    sent = [pair for pair in provider.calls[0].headers if pair[0] in ("traceparent", "tracestate", "baggage")]
    assert sent == [("traceparent", traceparent(sender))]
    assert tree([span for span in spans.all() if span.name in ("host", "chat chat", "chat eu-1")]) == {
        "host": None, "chat chat": "host", "chat eu-1": "chat chat",
    }  # fmt: skip
    assert spans.running.names == []


def test_a_url_that_the_environment_excludes_still_has_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PYTHON_HTTPX_EXCLUDED_URLS", ".*")
    spans = Spans()
    with site_of("trio", "stages", spans) as site:
        done(site, site.ask())
        assert dict(site.provider.calls[0].headers)["traceparent"] == traceparent(named(spans, "chat eu-1"))


def test_a_mounted_gateway_says_that_it_exports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    text = WORLD + '\n[telemetry]\nexporter = "otlp"\n'
    with opened("trio", text, kinds=KINDS):
        assert "where the host's OpenTelemetry sends them" in caplog.text
    caplog.clear()
    with opened("uvicorn", text, kinds=KINDS):
        assert "OpenTelemetry" not in caplog.text
