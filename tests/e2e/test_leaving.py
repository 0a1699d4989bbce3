"""The caller goes: the upstream is closed within a second, the record says so, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import anyio.to_thread
import httpx
import pytest

from narrows import FailureClass, Gateway, transport
from narrows.testing import Answer, Hold, RecordingProvider, Stall, Stream, event, failure_answer
from tests.e2e.support import CHAT, SOON, Serve, Stage, chat, nothing_left
from tests.support.config import basic_config
from tests.support.servers import ASGIApp, Server, serve_asyncio, serve_trio

FIRST = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello there"}}]})
DONE = b"data: [DONE]\n\n"
FLOWING = Stream((FIRST,), end=False)


@contextmanager
def serve_bare(app: ASGIApp) -> Iterator[Server]:
    """uvicorn without the extra `fast`: httpx's own connections instead of aiohttp's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("narrows.upstream.clients.find_spec", lambda name: None)
        with serve_asyncio(app) as server:
            yield server


@pytest.fixture(scope="module", params=[serve_asyncio, serve_bare, serve_trio], ids=["uvicorn", "bare", "hypercorn"])
def serve_once(request: pytest.FixtureRequest) -> Serve:
    """Each way in which a connection can be left open."""
    chosen: Serve = request.param
    return chosen


# ---- closed within a second ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "stream", "status"),
    [
        (Answer(before=Hold("never")), False, None),
        (Answer(before=Hold("never")), True, None),
        (Stall(after_headers=True, headers={"content-type": "application/json"}, body=b'{"choices":['), False, 200),
        (Stall(after_headers=True), True, 200),
        (Stall(after_headers=True, body=b": thinking\n\n"), True, 200),
        (Stall(after_headers=True, body=FIRST[:9]), True, 200),
        (Stream((b'{"error":',), status=500, end=False), False, 500),
    ],
    ids=["plain", "stream", "half-a-body", "headers-only", "comment", "half-an-event", "half-an-error"],
)
def test_leaving_before_the_answer_began_closes_the_upstream(
    stage: Stage, answer: Answer | Stall | Stream, stream: bool, status: int | None
) -> None:
    stage.provider.script("a", answer)
    with stage.caller(stream=stream) as caller:
        stage.provider.wait_calls(1)
        if not isinstance(answer, Answer):
            stage.provider.wait_open(1)
        caller.leave()
        stage.provider.wait_closed(1, SOON)
    decision = stage.probe.only()
    assert (decision.outcome, decision.blocked_fallback) == ("client_disconnected", False)
    (row,) = decision.attempts
    assert row.target == "a"
    assert row.status in (None, status), "the head may still have been on its way"
    if row.status == 500:  # it had failed before
        assert (row.failure_class, row.input_tokens) == ("server_error", 0)
    else:  # nobody timed out: the prompt is charged, by our estimate
        assert (row.failure_class, row.usage, row.output_tokens) == ("ok", "estimated", 0)
        assert row.input_tokens > 0
    assert stage.counts("a", "b", "c") == (1, 0, 0)


def test_leaving_in_the_middle_of_a_stream_closes_the_upstream_and_is_settled(stage: Stage) -> None:
    stage.provider.script("a", FLOWING)
    with stage.caller() as caller:
        caller.read_until(b"Hello there")
        caller.leave()
        stage.provider.wait_closed(1, SOON)
    decision = stage.probe.only()
    assert (decision.outcome, decision.status) == ("client_disconnected", 200)
    (row,) = decision.attempts
    assert (row.failure_class, row.usage) == ("ok", "estimated")
    assert row.input_tokens > 0
    assert row.output_tokens >= len("Hello there") // 4
    assert stage.counts("a", "b", "c") == (1, 0, 0)


def test_leaving_while_a_repeat_is_waited_for_ends_it(stage: Stage) -> None:
    """Half a second, the first wait of the official clients: nobody is called for a caller that is gone."""
    stage.provider.script("a", failure_answer(FailureClass.SERVER_ERROR))
    with stage.caller() as caller:
        stage.probe.wait_failures(1)
        caller.leave()
        decision = stage.probe.only()
    assert decision.outcome == "client_disconnected"
    assert [row.failure_class for row in decision.attempts] == ["server_error"]
    assert stage.counts("a", "b", "c") == (1, 0, 0)


def test_a_repeat_waits_and_then_moves_on(stage: Stage) -> None:
    """The control: the same caller, had it stayed."""
    stage.provider.script("a", failure_answer(FailureClass.SERVER_ERROR))
    assert stage.ask().headers["x-narrows-target"] == "b"
    first, second, _ = stage.provider.calls
    assert second.at - first.at >= 0.5


@pytest.mark.anyio
async def test_a_host_that_closes_an_answer_half_way_closes_the_upstream(provider: RecordingProvider) -> None:
    """In-process nobody is cancelled: closing the response is all that tells."""
    provider.default(FLOWING)
    gateway = Gateway.from_text(basic_config({"p": provider.base_url}), open_access=True)
    async with gateway, httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        async with client.stream("POST", CHAT, json=chat("chat", stream=True)) as response:
            assert await anext(response.aiter_raw()) == FIRST
        await anyio.to_thread.run_sync(provider.wait_closed, 1, SOON)


# ---- nothing is left -----------------------------------------------------------------------------------------------


def test_200_abandoned_streams_leave_nothing(stage: Stage) -> None:
    with nothing_left(stage, "chat"):
        stage.provider.script("a", FLOWING)
        for _ in range(4):
            with ExitStack() as callers:
                opened = [callers.enter_context(stage.caller()) for _ in range(50)]
                for caller in opened:
                    caller.read_until(b"Hello there")
        stage.provider.wait_closed(200)
        decisions = stage.probe.wait(200)
        assert {decision.outcome for decision in decisions} == {"client_disconnected"}
        stage.provider.script("a", Answer())
        assert stage.ask().status_code == 200
        assert stage.counts("a", "b", "c") == (201, 0, 0)


def test_50_requests_abandoned_before_the_headers_leave_nothing(stage: Stage) -> None:
    with nothing_left(stage, "chat"):
        stage.provider.script("a", Stall())
        with ExitStack() as callers:
            for number in range(50):
                callers.enter_context(stage.caller(stream=number % 2 == 0))
            stage.provider.wait_calls(50)
        stage.provider.wait_closed(50, SOON + 1)
        assert len(stage.probe.wait(50)) == 50


def test_callers_that_wait_for_a_place_may_leave_too(stage: Stage) -> None:
    with nothing_left(stage, "small"):
        stage.provider.script("small", FLOWING)
        with ExitStack() as callers:
            served = [callers.enter_context(stage.caller("small")) for _ in range(4)]
            for caller in served:
                caller.read_until(b"Hello there")
            for _ in range(20):
                callers.enter_context(stage.caller("small", stream=False))
            assert stage.counts("small") == (4,)
        stage.provider.wait_closed(4, SOON)
        stage.probe.wait(24)
        stage.provider.script("small", Answer())
        assert stage.ask("small").status_code == 200
        assert stage.counts("small") == (5,)
