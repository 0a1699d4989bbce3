"""A gateway that stops, on the ways in that have no process of their own: what is in flight is cut and recorded once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager

import anyio
import anyio.to_thread
import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from narrows import Attempt, Body, Gateway, NarrowsMiddleware, Provider, Reply, attach, hookimpl, transport
from narrows.server import Application
from narrows.testing import Answer, Hold, RecordingProvider, Stream, event
from tests.core.server.channel import Channel, http_scope
from tests.e2e.support import CHAT, Caller, Probe, Serve, chat
from tests.support.config import basic_config
from tests.support.servers import ASGIApp, Server, serve_asyncio, serve_trio

FIRST = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello there"}}]})
DONE = b"data: [DONE]\n\n"
HELD = Stream((FIRST, Hold(), DONE))
PROBE = '\n[plugins.probe]\nkind = "probe"\n'
RULE = """
[attributes.data-region]
values = ["eu", "us"]
header = "x-region"
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
always = true
"""


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def gateway(provider: RecordingProvider, probe: Probe) -> Gateway:
    names = {"us": provider.base_url, "eu": provider.base_url}
    labels = {"us": {"region": "us"}, "eu": {"region": "eu"}}
    text = basic_config(names, labels=labels, more=RULE + PROBE)
    return Gateway.from_text(text, kinds={"plugins.probe": probe.kind()}, open_access=True)


def client(gateway: Gateway) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows")


def body(*, stream: bool = True) -> dict[str, object]:
    return chat("chat", stream=stream)


def code(answer: httpx.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.headers.get("x-narrows-code")


# ---- in the same process ---------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_what_is_in_flight_is_cut_when_the_gateway_is_left(
    gateway: Gateway, provider: RecordingProvider, probe: Probe
) -> None:
    provider.script("us", HELD, Answer(before=Hold("never")))
    got: dict[str, httpx.Response] = {}
    begun = anyio.Event()

    async def read(name: str, *, stream: bool) -> None:
        async with asking.stream("POST", CHAT, json=body(stream=stream)) as answer:
            parts = []
            async for chunk in answer.aiter_raw():
                parts.append(chunk)
                begun.set()
            got[name] = httpx.Response(answer.status_code, headers=answer.headers, content=b"".join(parts))

    async with client(gateway) as asking, anyio.create_task_group() as tasks:
        before = len(anyio.get_running_tasks())
        async with gateway:
            tasks.start_soon(lambda: read("stream", stream=True))
            await begun.wait()
            tasks.start_soon(lambda: read("plain", stream=False))
            await anyio.to_thread.run_sync(provider.wait_calls, 2)
            service = gateway.engine.stopping
            assert gateway.in_flight == 2
        assert service.in_flight == ()
        assert code(await asking.post(CHAT, json=body())) == (503, "not_started")
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert len(anyio.get_running_tasks()) <= before
    cut = got["stream"]
    assert cut.content.startswith(FIRST)
    assert b'"code":"stopping"' in cut.content
    assert b"[DONE]" not in cut.content
    assert code(got["plain"]) == (503, "stopping")
    assert provider.count() == 2
    await anyio.to_thread.run_sync(provider.wait_open, 0)
    ends = {(one.outcome, one.status, one.code) for one in probe.wait(2)}
    assert ends == {("upstream_incomplete", 200, "stopping"), ("refused", 503, "stopping")}
    assert all(len(one.attempts) == 1 for one in probe.wait(2))


@pytest.mark.anyio
async def test_an_answer_that_nobody_reads_or_closes_is_left_for_its_reader(
    gateway: Gateway, provider: RecordingProvider, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narrows.gateway.CUT_SECS", 0.05)
    provider.script("us", HELD)
    async with client(gateway) as asking:
        async with gateway:
            answer = await asking.send(asking.build_request("POST", CHAT, json=body()), stream=True)
        assert len(probe.decided()) == 1  # already: its plugins have stopped since
        await anyio.to_thread.run_sync(provider.wait_open, 0)
        content = b"".join([chunk async for chunk in answer.aiter_raw()])  # late, and told all the same
        await answer.aclose()
    assert content.startswith(FIRST)
    assert b'"code":"stopping"' in content
    (decision,) = probe.wait(1)
    assert (decision.outcome, decision.code) == ("upstream_incomplete", "stopping")


@pytest.mark.anyio
async def test_draining_refuses_what_is_new_and_lets_the_rest_finish(
    gateway: Gateway, provider: RecordingProvider, probe: Probe
) -> None:
    provider.script("us", HELD)
    async with gateway, client(gateway) as asking, asking.stream("POST", CHAT, json=body()) as answer:
        assert (await asking.get("/health/ready")).status_code == 200
        gateway.drain()
        for refused in (
            await asking.post(CHAT, json=body()),
            await asking.post("/v1/explain", json=body()),
            await asking.get("/health/ready"),
        ):
            assert code(refused) == (503, "stopping")
            assert refused.headers["retry-after"] == "1"
        assert (await asking.get("/health/live")).status_code == 200
        assert (await asking.get("/v1/models")).status_code == 200
        assert (gateway.in_flight, provider.count()) == (1, 1)
        provider.release()
        assert (await answer.aread()).endswith(DONE)
    async with gateway, client(gateway) as asking:  # a host may start again
        provider.script("us", Answer())
        assert (await asking.post(CHAT, json=body(stream=False))).status_code == 200
    assert [one.outcome for one in probe.wait(2)] == ["answered", "answered"]


@pytest.mark.anyio
@pytest.mark.parametrize("stops", [True, False], ids=["stopped", "control"])
async def test_a_stop_between_two_attempts_is_no_blocked_fallback(
    gateway: Gateway, provider: RecordingProvider, probe: Probe, stops: bool
) -> None:
    """The rule took the other target away, but it is the stop that ended the request."""
    wait = "9" if stops else "0"
    provider.script("eu", Answer(status=503, headers={"retry-after": wait}))
    answers: list[httpx.Response] = []

    async def ask() -> None:
        answers.append(await asking.post(CHAT, json=body(), headers={"x-region": "eu"}))

    async with gateway, client(gateway) as asking, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(probe.wait_failures, 1)
        if stops:
            gateway.cut()
    (decision,) = probe.wait(1)
    assert [row.failure_class for row in decision.attempts] == ["server_error"] * (1 if stops else 2)
    assert decision.blocked_fallback is not stops
    assert code(answers[0]) == (503, "stopping" if stops else "upstream_error")
    assert provider.count("us") == 0


class Endless(Provider):
    """Never waits. It would end one day, so that a gateway that does not cut it fails a test and does not hang."""

    base_url: str = "http://127.0.0.1:1/v1"

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(10_000):
                yield FIRST

        return Reply(200, (("content-type", "text/event-stream"),), Body(chunks()))


@pytest.mark.anyio
async def test_an_upstream_that_is_always_ready_is_cut_too() -> None:
    text = '[providers.p]\nkind = "endless"\n[targets.t]\nprovider = "p"\nmodel = "m"\n[routes.chat]\ntargets = ["t"]\n'
    gateway = Gateway.from_text(text, kinds={"providers.endless": Endless}, open_access=True)
    with anyio.fail_after(10):
        async with gateway, client(gateway) as asking, asking.stream("POST", CHAT, json=body()) as answer:
            chunks = answer.aiter_raw()
            for _ in range(100):
                assert await anext(chunks) == FIRST
            gateway.cut()
            rest = [chunk async for chunk in chunks]
    assert len(rest) == 1
    assert b'"code":"stopping"' in rest[0]


# ---- in a host -------------------------------------------------------------------------------------------------------


def attached(gateway: Gateway) -> ASGIApp:
    host = Starlette()
    attach(host, "/llm", gateway)
    return host


def around(gateway: Gateway) -> ASGIApp:
    return NarrowsMiddleware(Starlette(), gateway, path="/llm")


HOSTS = pytest.mark.parametrize("hosted", [attached, around])


@pytest.mark.anyio
@HOSTS
async def test_the_end_of_the_hosts_lifespan_cuts_what_its_server_left(
    hosted: Callable[[Gateway], ASGIApp], gateway: Gateway, provider: RecordingProvider, probe: Probe
) -> None:
    provider.script("us", HELD)
    app = hosted(gateway)
    started, stop, stopped, flowing = anyio.Event(), anyio.Event(), anyio.Event(), anyio.Event()
    script = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        step = next(script)
        if step == "lifespan.shutdown":
            await stop.wait()
        return {"type": step}

    async def send(message: Message) -> None:
        {"lifespan.startup.complete": started, "lifespan.shutdown.complete": stopped}[message["type"]].set()

    async def seen(message: Message) -> None:
        if b"Hello there" in message.get("body", b""):
            flowing.set()

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    channel = Channel(httpx.Request("POST", "http://x", json=body()).read(), on_send=seen)
    scope = http_scope(path=f"/llm{CHAT}", headers=[(b"content-type", b"application/json")])
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served, {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
            await started.wait()
            tasks.start_soon(served, scope, channel.receive, channel.send)
            await flowing.wait()
            stop.set()
    assert stopped.is_set()
    assert channel.ended
    assert b'"code":"stopping"' in channel.body
    assert b"[DONE]" not in channel.body
    assert [(one.outcome, one.code) for one in probe.wait(1)] == [("upstream_incomplete", "stopping")]
    await anyio.to_thread.run_sync(provider.wait_open, 0)


@HOSTS
@pytest.mark.parametrize("serve", [serve_asyncio, serve_trio])
def test_a_host_that_stops_under_a_stream_leaves_nothing(
    serve: Serve, hosted: Callable[[Gateway], ASGIApp], gateway: Gateway, provider: RecordingProvider, probe: Probe
) -> None:
    """The host's server has its own grace and its own way to end: here a second, then it cancels."""
    provider.script("us", HELD)
    running: AbstractContextManager[Server] = serve(hosted(gateway))
    service = gateway.engine.stopping
    with running as server:
        caller = Caller(server, body(), {}, path=f"/llm{CHAT}")
        caller.read_until(b"Hello there")
    with caller:
        assert b"[DONE]" not in caller.read_all()
    provider.wait_open(0)
    assert service.in_flight == ()
    (decision,) = probe.wait(1)
    assert (decision.status, len(decision.attempts)) == (200, 1)
    assert decision.outcome in ("client_disconnected", "upstream_incomplete")


def test_an_application_of_its_own_too(gateway: Gateway, provider: RecordingProvider) -> None:
    """The control of the last one: without a stop the same stream ends as it should."""
    provider.script("us", HELD)
    with serve_asyncio(Application(gateway)) as server, Caller(server, body(), {}) as caller:
        caller.read_until(b"Hello there")
        provider.release()
        caller.read_until(b"0\r\n\r\n")
        assert DONE in caller.received
