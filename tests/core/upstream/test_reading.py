"""Whole bodies, bounded."""

from __future__ import annotations

import gzip
import zlib

import anyio
import pytest

from narrows.testing import Answer, Big, Hold, Raw, RecordingProvider, Stall, Stream
from narrows.upstream import Clients, Origin, TooLarge, UpstreamFault, read_all, read_some
from tests.core.upstream.tools import post, waiting

pytestmark = pytest.mark.anyio

HUNDRED_MB = 100_000_000
BUFFERS = 16 * 1024 * 1024
"""What the system's socket buffers may take of a body that we do not read. A few megabytes, on loopback."""


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_huge_error_body_is_read_to_its_bound(
    chunked: bool, clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Big(HUNDRED_MB, chunked=chunked))
    upstream = await post(clients, origin)
    body, complete = await read_some(upstream)
    assert (upstream.status, len(body), complete) == (500, 64 * 1024, False)
    assert body.startswith(b'{"error":{"message":"x')
    await waiting(provider.wait_open, 0, 1.0)
    assert sum(sent.size for sent in provider.sent(1)) < BUFFERS


async def test_a_small_error_body_is_read_whole_and_its_connection_kept(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Answer(500, b"x" * 100))
    assert await read_some(await post(clients, origin), 100) == (b"x" * 100, True)
    assert await read_some(await post(clients, origin), 99) == (b"x" * 99, False)
    assert await read_some(await post(clients, origin)) == (b"x" * 100, True)
    assert provider.connections <= 2


async def test_an_error_body_that_breaks_off_or_stalls_is_what_came_of_it(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Stream((b'{"error"',), status=429, cut_at=8), Stream((b'{"error"',), status=429, end=False))
    assert await read_some(await post(clients, origin)) == (b'{"error"', False)
    with anyio.fail_after(0.9):
        assert await read_some(await post(clients, origin), seconds=0.1) == (b'{"error"', False)
    await waiting(provider.wait_open, 0, 1.0)


async def test_an_answer_above_the_limit_is_given_up(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Stream((b"x" * 500, b"x" * 501), end=False))
    with pytest.raises(TooLarge, match="1000 bytes"):
        await read_all(await post(clients, origin), 1000)
    await waiting(provider.wait_open, 0, 1.0)
    provider.default(Answer(200, b"x" * 1000))
    assert await read_all(await post(clients, origin), 1000) == b"x" * 1000


async def test_a_length_above_the_limit_is_enough(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n", close=False))
    with pytest.raises(TooLarge), anyio.fail_after(0.9):
        await read_all(await post(clients, origin), 1000)
    await waiting(provider.wait_open, 0, 1.0)


async def test_a_stall_in_an_answer_is_a_fault(clients: Clients, provider: RecordingProvider) -> None:
    provider.default(Stall(after_headers=True, body=b"{"))
    with pytest.raises(UpstreamFault, match="read_timeout"):
        await read_all(await post(clients, Origin(provider.base_url, timeout_secs=0.2)))
    await waiting(provider.wait_open, 0, 1.0)


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "GZIP"])
async def test_what_comes_compressed_is_read(
    coding: str, clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    text = b'{"a": 1}' * 1000
    packed = zlib.compress(text) if coding == "deflate" else gzip.compress(text)
    provider.default(Answer(200, packed, {"content-encoding": coding}))
    upstream = await post(clients, origin)
    assert (upstream.header("content-encoding"), upstream.header("content-length")) == (None, None)
    assert await read_all(upstream) == text
    await read_all(await post(clients, origin))
    assert provider.connections == 1


async def test_a_compressed_stream_is_not_held_back(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    events = [b"data: %d\n\n" % number for number in range(3)]
    parts: list[bytes | Hold] = []
    for event in events:
        parts += [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH), Hold()]
    parts.append(packer.flush())
    provider.default(Stream(tuple(parts), headers={"content-encoding": "gzip"}))
    upstream = await post(clients, origin)
    for event in events:
        assert await anext(upstream.chunks) == event
        provider.release()
    assert await read_all(upstream) == b""


async def test_a_bomb_stops_at_the_limit(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    provider.default(Answer(200, gzip.compress(bytes(50_000_000)), {"content-encoding": "gzip"}))
    with pytest.raises(TooLarge):
        await read_all(await post(clients, origin), 1_000_000)


async def test_what_cannot_be_read_is_no_answer_but_an_error_keeps_its_status(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Answer(200, b"\x0b\x02\x80", {"content-encoding": "br"}))
    with pytest.raises(UpstreamFault, match="protocol_error"):
        await post(clients, origin)
    provider.default(Answer(401, b"\x0b\x02\x80", {"content-encoding": "br"}))
    upstream = await post(clients, origin)
    assert (upstream.status, upstream.header("content-encoding")) == (401, None)
    assert await read_some(upstream) == (b"", True)


async def test_an_answer_that_ends_with_its_connection(
    clients: Clients, origin: Origin, provider: RecordingProvider
) -> None:
    provider.default(Raw(b"HTTP/1.0 200 OK\r\ncontent-type: text/html\r\n\r\n<html>"))
    upstream = await post(clients, origin)
    assert await read_all(upstream) == b"<html>"
    assert upstream.header("content-type") == "text/html"
