"""What a recording provider writes down, and how scripts are chosen."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
from anyio import to_thread

from narrows.testing import Answer, Call, RecordingProvider, Redirect, Refuse, Scripted, Stall
from tests.support.http import http_client

pytestmark = pytest.mark.anyio
PATH = "/chat/completions"


def chat(model: str = "m", **more: object) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}


async def test_a_call_is_recorded_whole(provider: RecordingProvider) -> None:
    before = time.monotonic()
    headers = [("X-Region", "eu"), ("X-Region", "us")]
    async with http_client(provider.base_url) as client:
        reply = await client.post(f"{PATH}?q=1", json=chat("small-1"), headers=headers)

    (call,) = provider.calls
    assert (call.number, call.method, call.path) == (1, "POST", "/v1/chat/completions?q=1")
    assert call.json == chat("small-1")
    assert call.fields == chat("small-1")
    assert (call.model, call.complete, call.wants_stream) == ("small-1", True, False)
    assert [value for name, value in call.headers if name == "x-region"] == ["eu", "us"]
    assert (call.header("x-region"), call.header("x-none")) == ("eu, us", None)
    assert all(name == name.lower() for name, _ in call.headers)
    assert before <= call.at <= time.monotonic()
    assert reply.status_code == 200
    assert reply.json()["choices"][0]["message"]["content"] == "Answered by small-1."
    assert sum(write.size for write in provider.sent(1)) == len(reply.content)
    assert provider.sent(1)[0].at >= call.at


async def test_a_chunked_request_body_is_recorded_without_its_framing(provider: RecordingProvider) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b'{"model":', b'"chunky"', b"}"):
            yield piece

    async with http_client(provider.base_url) as client:
        await client.post(PATH, content=pieces())

    assert [(call.body, call.model) for call in provider.calls] == [(b'{"model":"chunky"}', "chunky")]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"model"', b'{"model": 7}', b"\xff", b"[" * 100_000])
async def test_a_body_without_a_model_is_recorded_too(provider: RecordingProvider, body: bytes) -> None:
    async with http_client(provider.base_url) as client:
        reply = await client.post(PATH, content=body)

    assert reply.status_code == 200
    assert [(call.body, call.model) for call in provider.calls] == [(body, None)]


async def test_scripts_go_step_by_step_per_model_and_the_last_answer_repeats(provider: RecordingProvider) -> None:
    provider.script("a", Answer(500), Answer(429), Answer(201))
    provider.script("b", Answer(503))
    provider.default(Answer(418), Answer())

    async def status(model: str) -> int:
        return (await client.post(PATH, json=chat(model))).status_code

    async with http_client(provider.base_url) as client:
        assert [await status("a") for _ in range(4)] == [500, 429, 201, 201]
        assert [await status("b") for _ in range(2)] == [503, 503]
        assert [await status("c"), await status("d")] == [418, 200]
        provider.script("a", Answer(502))
        assert await status("a") == 502

    assert [call.model for call in provider.calls] == ["a", "a", "a", "a", "b", "b", "c", "d", "a"]
    assert (provider.count(), provider.count("a"), provider.count("b"), provider.count("z")) == (9, 5, 2, 0)
    assert [call.number for call in provider.calls_for("b")] == [5, 6]


async def test_a_step_may_be_a_function_of_the_call(provider: RecordingProvider) -> None:
    def echo(call: Call) -> Scripted:
        return Answer(200, call.body, {"content-type": "text/plain"})

    provider.default(echo)
    async with http_client(provider.base_url) as client:
        assert (await client.post(PATH, content=b"back")).text == "back"


async def test_clear_forgets_calls_and_counts_but_not_scripts(provider: RecordingProvider) -> None:
    provider.default(Answer(500), Answer(200))
    async with http_client(provider.base_url) as client:
        await client.post(PATH, json=chat())
        provider.clear()
        assert (provider.count(), provider.closed, provider.connections, provider.sent(1)) == (0, 0, 0, ())
        assert (await client.post(PATH, json=chat())).status_code == 200
    assert [call.number for call in provider.calls] == [2]


async def test_a_peer_that_leaves_early_is_counted_once(provider: RecordingProvider) -> None:
    provider.script("slow", Stall())
    async with http_client(provider.base_url) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post(PATH, json=chat("slow"), timeout=httpx.Timeout(5, read=0.05))
    await to_thread.run_sync(provider.wait_closed, 1)
    await to_thread.run_sync(provider.wait_open, 0)
    assert provider.closed == 1


async def test_a_peer_that_leaves_after_the_answer_is_not_counted(provider: RecordingProvider) -> None:
    for _ in range(20):
        async with http_client(provider.base_url) as client:
            await client.post(PATH, json=chat())
    await to_thread.run_sync(provider.wait_open, 0)
    assert (provider.closed, provider.connections, provider.count()) == (0, 20, 20)


async def test_kept_alive_connections_are_used_again(provider: RecordingProvider) -> None:
    async with http_client(provider.base_url) as client:
        for _ in range(3):
            await client.post(PATH, json=chat())
            await client.post(PATH, json=chat(stream=True))
        assert (provider.connections, provider.open_connections, provider.count()) == (1, 1, 6)


def test_a_request_that_breaks_off_counts_as_a_call(provider: RecordingProvider) -> None:
    with socket.create_connection(("127.0.0.1", provider.port)) as peer:
        peer.sendall(b'POST /v1/x HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"model": "secret"')
    (call,) = provider.wait_calls(1)
    assert (call.complete, call.path, call.body) == (False, "/v1/x", b'{"model": "secret"')
    assert provider.closed == 0  # nothing was being answered


def test_what_is_no_http_is_answered_400_and_recorded(provider: RecordingProvider) -> None:
    with socket.create_connection(("127.0.0.1", provider.port)) as peer:
        peer.sendall(b"SSH-2.0-x\r\n\r\n")
        assert peer.makefile("rb").read().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert [(call.method, call.complete) for call in provider.calls] == [("", False)]


def test_a_connection_without_a_request_is_seen(provider: RecordingProvider) -> None:
    with socket.create_connection(("127.0.0.1", provider.port)):
        provider.wait_open(1)
    provider.wait_open(0)
    assert (provider.connections, provider.count()) == (1, 0)


def test_pipelined_requests_are_recorded_at_once_and_answered_in_order(provider: RecordingProvider) -> None:
    provider.default(lambda call: Answer(200, call.path.encode()))
    ask = b"GET /%d HTTP/1.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", provider.port)) as peer:
        peer.sendall(ask % 1 + ask % 2 + b"GET /3 HTTP/1.1\r\nConnection: close\r\n\r\n")
        replies = peer.makefile("rb").read()
    assert [part[-2:] for part in replies.split(b"HTTP/1.1 200 OK")[1:]] == [b"/1", b"/2", b"/3"]
    assert replies.count(b"connection: close") == 1


def test_continue_is_promised_before_the_body_comes(provider: RecordingProvider) -> None:
    with socket.create_connection(("127.0.0.1", provider.port)) as peer, peer.makefile("rb") as lines:
        peer.sendall(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
        assert lines.readline() == b"HTTP/1.1 100 Continue\r\n"
        peer.sendall(b"{}")
        assert lines.read().startswith(b"\r\nHTTP/1.1 200 OK\r\n")


async def test_waiting_for_what_does_not_come_says_what_was_seen(provider: RecordingProvider) -> None:
    async with http_client(provider.base_url) as client:
        await client.post(PATH, json=chat("small-1"))
        with pytest.raises(TimeoutError, match=r"2 calls for big; saw 1 calls.*POST /v1/chat/completions small-1"):
            provider.wait_calls(2, 0.01, "big")
    with pytest.raises(TimeoutError, match="3 connections closed"):
        provider.wait_closed(3, 0.01)
    with pytest.raises(TimeoutError, match="7 open connections"):
        provider.wait_open(7, 0.01)
    with pytest.raises(TimeoutError, match="'gate'"):
        provider.wait_held(1, 0.01, "gate")


async def test_waiting_for_calls_returns_them(provider: RecordingProvider) -> None:
    async with http_client(provider.base_url) as client:
        await client.post(PATH, json=chat("a"))
        await client.post(PATH, json=chat("b"))
    found = await to_thread.run_sync(partial(provider.wait_calls, 1, model="b"))
    assert [call.model for call in found] == ["b"]


def test_a_script_needs_an_answer(provider: RecordingProvider) -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        provider.script("a")
    with pytest.raises(ValueError, match="at least one answer"):
        provider.default()


def test_a_script_that_raises_is_raised_where_the_provider_is_left() -> None:
    def broken(call: Call) -> Scripted:
        raise LookupError(call.path)

    def use() -> None:
        with RecordingProvider(broken) as provider:
            with pytest.raises(httpx.TransportError):
                httpx.post(provider.base_url, json=chat())
            with pytest.raises(RuntimeError, match="script of the recording provider failed"):
                provider.wait_closed(1)  # it does not wait in vain

    with pytest.raises(RuntimeError, match="script of the recording provider failed") as caught:
        use()
    assert isinstance(caught.value.__cause__, LookupError)


async def test_redirects_are_answered_and_the_other_provider_sees_nothing(provider: RecordingProvider) -> None:
    with RecordingProvider() as other:
        provider.script("moved", Redirect(307, f"{other.base_url}{PATH}"))
        async with http_client(provider.base_url) as client:
            reply = await client.post(PATH, json=chat("moved"))
            assert (reply.status_code, reply.headers["location"]) == (307, f"{other.base_url}{PATH}")
            assert (provider.count(), other.count(), other.connections) == (1, 0, 0)
            followed = await client.post(PATH, json=chat("moved"), follow_redirects=True)  # positive control
            assert (followed.status_code, other.count("moved")) == (200, 1)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_refusal_to_answer_sends_no_byte(provider: RecordingProvider, reset: bool) -> None:
    provider.default(Refuse(reset=reset), Answer())
    async with http_client(provider.base_url) as client:
        with pytest.raises(httpx.ReadError if reset else httpx.RemoteProtocolError):
            await client.post(PATH, json=chat())
        assert (await client.post(PATH, json=chat())).status_code == 200
    assert (provider.count(), provider.closed, provider.sent(1)) == (2, 0, ())
