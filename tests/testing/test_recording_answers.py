"""Every kind of answer on the wire, read by a real client on asyncio and on trio."""

from __future__ import annotations

import hashlib
import socket
import tracemalloc
from functools import partial

import httpx
import pytest
from anyio import to_thread

from narrows.testing import Answer, Big, Hold, Raw, RecordingProvider, Stall, Stream, event, stream_events
from tests.support.http import http_client
from tests.support.sse import sse_events

pytestmark = pytest.mark.anyio
PATH = "/chat/completions"
ASK = {"model": "m", "messages": []}


def client_of(provider: RecordingProvider) -> httpx.AsyncClient:
    return http_client(provider.base_url)


async def test_plain_answers(provider: RecordingProvider) -> None:
    provider.default(
        Answer(201, b"<html>", {"Content-Type": "text/html", "x-a": "1"}),
        Answer(200, {"a": [1]}),
        Answer(204),
        Answer(599, b"", [("x-b", "1"), ("x-b", "2")]),
    )
    async with client_of(provider) as client:
        html, json, empty, odd = [await client.post(PATH, json=ASK) for _ in range(4)]
    assert (html.status_code, html.content, html.headers["content-type"], html.headers["x-a"]) == (
        201,
        b"<html>",
        "text/html",
        "1",
    )
    assert (json.json(), json.headers["content-type"]) == ({"a": [1]}, "application/json")
    assert (empty.status_code, empty.content) == (204, b"")
    assert (odd.status_code, odd.headers.get_list("x-b")) == (599, ["1", "2"])
    assert provider.connections == 1


async def test_head_has_no_body(provider: RecordingProvider) -> None:
    async with client_of(provider) as client:
        head = await client.head("/models")
        again = await client.get("/models")
    assert head.headers["content-length"] == str(len(again.content))
    assert (head.content, provider.connections) == (b"", 1)


async def test_an_untrue_content_length_is_sent_as_told(provider: RecordingProvider) -> None:
    provider.default(Answer(200, b"long", {"content-length": "2"}))
    async with client_of(provider) as client:
        assert (await client.post(PATH, json=ASK)).text == "lo"


async def test_the_default_stream_is_valid(provider: RecordingProvider) -> None:
    async with client_of(provider) as client:
        reply = await client.post(PATH, json={**ASK, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["transfer-encoding"] == "chunked"
    assert reply.content == b"".join(stream_events("m", number=1))
    events = sse_events(reply.content)
    assert events[-1].data == "[DONE]"
    assert len(provider.sent(1)) == len(events)


async def test_chunks_arrive_one_by_one_as_they_are_released(provider: RecordingProvider) -> None:
    chunks = (event({"n": 1}), event({"n": 2}), event({"n": 3}))
    provider.default(Stream((chunks[0], Hold(), chunks[1], Hold("last"), chunks[2])))
    async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
        arriving = reply.aiter_raw()
        assert await anext(arriving) == chunks[0]
        await to_thread.run_sync(provider.wait_held, 1)
        assert len(provider.sent(1)) == 1
        provider.release()
        assert await anext(arriving) == chunks[1]
        await to_thread.run_sync(partial(provider.wait_held, 1, name="last"))
        assert len(provider.sent(1)) == 2
        provider.release("last")
        assert [chunk async for chunk in arriving] == [chunks[2]]
    assert provider.closed == 0


async def test_an_open_gate_and_passes_given_in_advance(provider: RecordingProvider) -> None:
    provider.default(Answer(before=Hold()))
    provider.release(times=2)
    async with client_of(provider) as client:
        assert [(await client.post(PATH, json=ASK)).status_code for _ in range(2)] == [200, 200]
        with pytest.raises(httpx.ReadTimeout):
            await client.post(PATH, json=ASK, timeout=httpx.Timeout(5, read=0.1))
        provider.open()
        assert [(await client.post(PATH, json=ASK)).status_code for _ in range(3)] == [200, 200, 200]


async def test_opening_a_gate_lets_those_pass_that_wait(provider: RecordingProvider) -> None:
    provider.default(Stream((b"a", Hold(), b"b")))
    async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
        await to_thread.run_sync(provider.wait_held, 1)
        provider.open()
        assert await reply.aread() == b"ab"


async def test_delays_are_between_chunks_and_before_the_head(provider: RecordingProvider) -> None:
    provider.default(Stream((b"a", b"b", b"c"), delay=0.05, before=0.05))
    async with client_of(provider) as client:
        await client.post(PATH, json=ASK)
    first, second, third = provider.sent(1)
    assert first.at - provider.calls[0].at >= 0.045
    assert second.at - first.at >= 0.045
    assert third.at - second.at >= 0.045


async def test_a_stream_is_cut_at_the_told_byte(provider: RecordingProvider) -> None:
    size = len(b"".join(stream_events("m")))  # of any of the first nine calls: their ids have one length
    async with client_of(provider) as client:
        for cut in (0, 1, 200, size - 1, size, size + 9):
            provider.default(Stream(cut_at=cut))
            seen: list[bytes] = []
            with pytest.raises(httpx.RemoteProtocolError):
                await read_into(seen, client)
            events = b"".join(stream_events("m", number=provider.calls[-1].number))
            assert b"".join(seen) == events[:cut]
    assert provider.closed == 0


async def read_into(seen: list[bytes], client: httpx.AsyncClient) -> None:
    """What arrives is kept also where reading ends with an exception."""
    async with client.stream("POST", PATH, json={**ASK, "stream": True}) as reply:
        async for chunk in reply.aiter_raw():
            seen.append(chunk)  # noqa: PERF401 - a comprehension would lose it


async def test_a_cut_by_reset(provider: RecordingProvider) -> None:
    provider.default(Stream((b"a", Hold()), cut_at=5, reset=True))
    async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
        arriving = reply.aiter_raw()
        assert await anext(arriving) == b"a"
        provider.release()
        with pytest.raises(httpx.ReadError):
            await anext(arriving)


async def test_a_stream_without_end_stays_open_until_the_peer_leaves(provider: RecordingProvider) -> None:
    provider.default(Stream((b"a",), end=False))
    async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
        assert await anext(reply.aiter_raw()) == b"a"
        assert (provider.closed, provider.open_connections) == (0, 1)
    await to_thread.run_sync(provider.wait_closed, 1)


async def test_a_stall_after_the_head(provider: RecordingProvider) -> None:
    provider.default(Stall(after_headers=True, body=b"some"))
    async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
        assert (reply.status_code, await anext(reply.aiter_raw())) == (200, b"some")
        assert (len(provider.sent(1)), provider.closed, provider.open_connections) == (1, 0, 1)
    await to_thread.run_sync(provider.wait_closed, 1)


@pytest.mark.parametrize("answer", [Stall(), Stall(after_headers=True), Answer(before=Hold()), Answer(before=60.0)])
def test_a_provider_that_closes_ends_what_it_holds(answer: Stall | Answer) -> None:
    with RecordingProvider(answer) as provider:
        peer = socket.create_connection(("127.0.0.1", provider.port))
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        provider.wait_calls(1)
    with peer, peer.makefile("rb") as reply:
        head = reply.read()
    assert bool(head) is (isinstance(answer, Stall) and answer.after_headers)
    assert provider.closed == 0


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_big_body_has_its_size_and_is_valid(provider: RecordingProvider, chunked: bool) -> None:
    provider.default(Big(300_000, 503, chunked=chunked), Big(128, 400, chunked=chunked))
    async with client_of(provider) as client:
        for size, status in ((300_000, 503), (128, 400)):
            reply = await client.post(PATH, json=ASK)
            assert (reply.status_code, len(reply.content)) == (status, size)
            assert reply.json()["error"]["type"] == "server_error"
            assert ("content-length" in reply.headers) is not chunked
    assert (provider.connections, provider.closed) == (1, 0)


async def test_a_hundred_megabytes_are_never_in_memory_and_end_when_the_peer_leaves(
    provider: RecordingProvider,
) -> None:
    size = 100_000_000
    provider.default(Big(size))
    tracemalloc.start()
    try:
        async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
            assert reply.headers["content-length"] == str(size)
            await anext(reply.aiter_raw())
        await to_thread.run_sync(provider.wait_closed, 1)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert sum(write.size for write in provider.sent(1)) < size


def test_a_big_body_smaller_than_its_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="128 bytes"):
        Big(127)


async def test_a_whole_big_body_can_be_read(provider: RecordingProvider) -> None:
    provider.default(Big(8_000_000))
    async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
        assert sum([len(chunk) async for chunk in reply.aiter_raw()]) == 8_000_000
    assert (provider.closed, sum(write.size for write in provider.sent(1))) == (0, 8_000_000)


async def test_raw_bytes_go_out_verbatim(provider: RecordingProvider) -> None:
    reply = b"HTTP/1.1 200 OK\r\nX-Odd:  1\r\ncontent-length: 2\r\n\r\n"
    provider.default(Raw(reply + b"ok", close=False), Raw(b"garbage\r\n\r\n"))
    async with client_of(provider) as client:
        assert (await client.post(PATH, json=ASK)).text == "ok"
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(PATH, json=ASK)
    assert provider.connections == 1


async def test_a_long_stream_arrives_byte_for_byte(provider: RecordingProvider) -> None:
    chunks = tuple(bytes([n % 256]) * (n * 37 % 5000 + 1) for n in range(400))
    provider.default(Stream(chunks))
    digest = hashlib.sha256()
    async with client_of(provider) as client, client.stream("POST", PATH, json=ASK) as reply:
        async for chunk in reply.aiter_raw():
            digest.update(chunk)
    assert digest.digest() == hashlib.sha256(b"".join(chunks)).digest()
    assert [write.size for write in provider.sent(1)] == [len(chunk) for chunk in chunks]


def test_an_old_peer_gets_no_chunks_and_the_end_of_the_connection(provider: RecordingProvider) -> None:
    provider.default(Stream((b"a", b"b")))
    with socket.create_connection(("127.0.0.1", provider.port)) as peer:
        peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
        reply = peer.makefile("rb").read()
    assert reply.endswith(b"\r\n\r\nab")
    assert b"chunked" not in reply
