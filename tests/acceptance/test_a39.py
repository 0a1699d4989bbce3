"""A39 (BerriAI/litellm#16779): a gateway ended the host application's span.

Mounted under a host's span, in each way there is: the host's span still records after the call, and ours are its
children.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from narrows import Gateway, NarrowsMiddleware, attach
from narrows.testing import Answer, RecordingProvider, Refuse
from tests.e2e.support import plain_client
from tests.support.servers import serve_asyncio, serve_trio
from tests.surface.spans import Spans, ident, said
from tests.surface.support import CHAT, JSON, chat
from tests.surface.test_spans import INCOMING
from tests.surface.world import KINDS, WORLD

Way: TypeAlias = Literal["attach", "middleware", "transport"]


class Traced:
    """A host's tracing middleware. It looks at its own span after the answer, and writes down what it finds."""

    def __init__(self, app: ASGIApp, tracer: trace.Tracer, found: Found) -> None:
        self.app, self._tracer, self._found = app, tracer, found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with self._tracer.start_as_current_span("host") as span:
            try:
                await self.app(scope, receive, send)
            finally:
                span.set_attribute("host.after", span.is_recording())
                self._found.current = trace.get_current_span() is span
        self._found.done.set()


class Found:
    """What the host saw of its own span."""

    def __init__(self) -> None:
        self.current = False
        self.done = threading.Event()


async def forward(request: Request) -> Response:
    """The host's own handler asks the gateway in-process."""
    async with httpx.AsyncClient(transport=request.state.narrows.transport, base_url="http://narrows") as inner:
        answer = await inner.post(CHAT, content=await request.body(), headers=[JSON])
    return Response(answer.content, answer.status_code)


@dataclass
class Host:
    """A host that runs."""

    client: httpx.Client
    path: str
    provider: RecordingProvider
    spans: Spans
    found: Found


SERVERS = {"uvicorn": serve_asyncio, "hypercorn": serve_trio}
RUNS = [(server, way) for server in SERVERS for way in get_args(Way)]


@pytest.fixture(scope="module", params=RUNS, ids=["-".join(run) for run in RUNS])
def running(request: pytest.FixtureRequest) -> Iterator[Host]:
    server, way = request.param
    spans, found = Spans(), Found()
    with RecordingProvider() as provider:
        text = WORLD.replace("{url}", provider.base_url)
        gateway = Gateway.from_text(text, kinds=KINDS, open_access=True, tracer_provider=spans.provider)
        tracing = Middleware(Traced, tracer=spans.provider.get_tracer("host"), found=found)
        inside = [Middleware(NarrowsMiddleware, gateway=gateway, path="/llm")] if way != "attach" else []
        app = Starlette(routes=[Route("/ask", forward, methods=["POST"])], middleware=[tracing, *inside])
        if way == "attach":
            attach(app, "/llm", gateway)
        path = "/ask" if way == "transport" else f"/llm{CHAT}"
        with SERVERS[server](app) as at, plain_client(at.url) as client:
            yield Host(client, path, provider, spans, found)


@pytest.fixture
def host(running: Host) -> Host:
    for model in ("eu-1", "us-1"):
        running.provider.script(model, Answer())
    running.provider.clear()
    running.spans.clear()
    running.found.done.clear()
    return running


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("outcome", ["answered", "refused", "failed"])
def test_a39_the_hosts_span_outlives_the_call(host: Host, outcome: str, stream: bool) -> None:
    saying = [JSON, INCOMING] + ([("x-region", "eu")] if outcome == "refused" else [])
    if outcome == "failed":
        for model in ("us-1", "eu-1"):
            host.provider.script(model, Refuse())
    model = "american" if outcome == "refused" else "chat"
    with host.client.stream("POST", host.path, content=chat(model, stream=stream), headers=saying) as response:
        response.read()
    assert host.found.done.wait(5)
    *ours, last = host.spans.all()
    assert last.name == "host"
    assert said(last) == {"host.after": True}
    assert host.found.current
    assert not last.events
    assert last.status.is_unset
    requests = [span for span in ours if span.kind is SpanKind.INTERNAL]
    attempts = [span for span in ours if span.kind is SpanKind.CLIENT]
    assert len(requests) == 1
    assert len(attempts) == host.provider.count() == {"answered": 1, "refused": 0, "failed": 2}[outcome]
    assert said(requests[0])["narrows.outcome"] == {"failed": "upstream_error"}.get(outcome, outcome)
    assert requests[0].parent is not None
    assert f"{requests[0].parent.span_id:016x}" == ident(last)[1]
    assert {ident(span)[0] for span in ours} == {ident(last)[0]}
    for attempt in attempts:
        assert attempt.parent is not None
        assert f"{attempt.parent.span_id:016x}" == ident(requests[0])[1]
