"""Every way in which there is no answer, by its kind, and without anything secret in it."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from narrows.testing import Answer, Raw, RecordingProvider, Refuse, Stall, Stream
from narrows.testing.answers import Scripted
from narrows.upstream import Clients, Origin, TransportKind, UpstreamFault, read_all
from tests.core.upstream.tools import BODY, HOST, PATH, post, raw_server, tls_before
from tests.support.servers import closed_port

pytestmark = pytest.mark.anyio

EVENT = b'data: {"n": 1}\n\n'
OK = b"HTTP/1.1 200 OK\r\n"


async def fault(clients: Clients, origin: Origin) -> UpstreamFault:
    """The fault of a call, whether its headers came or not."""
    with pytest.raises(UpstreamFault) as caught:
        await read_all(await post(clients, origin))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Refuse(), "protocol_error"),
        (Refuse(reset=True), "protocol_error"),
        (Raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "protocol_error"),
        (Raw(OK + b"content-length: nonsense\r\n\r\n"), "protocol_error"),
        (Raw(OK + b"x-cut: of"), "protocol_error"),
        (Stall(), "read_timeout"),
        (Raw(OK, close=False), "read_timeout"),
        (Stall(after_headers=True), "read_timeout"),
        (Stall(after_headers=True, body=EVENT), "read_timeout"),
        (Stream((EVENT, EVENT), cut_at=0), "stream_cut"),
        (Stream((EVENT, EVENT), cut_at=20), "stream_cut"),
        (Stream((EVENT, EVENT), cut_at=20, reset=True), "stream_cut"),
        (Stream((EVENT, EVENT), cut_at=len(EVENT) * 2), "stream_cut"),
        (Raw(OK + b"content-length: 100\r\n\r\n{}"), "stream_cut"),
        (Answer(200, b"nothing compressed", {"content-encoding": "gzip"}), "stream_cut"),
    ],
    ids=str,
)
async def test_what_it_was(
    answer: Scripted, kind: TransportKind, clients: Clients, provider: RecordingProvider
) -> None:
    provider.default(answer)
    origin = Origin(provider.base_url, timeout_secs=0.2)
    assert (await fault(clients, origin)).transport == kind
    provider.default(Answer())  # and the next call is none the worse
    await read_all(await post(clients, origin))
    assert provider.count() == 2


async def test_chunks_that_are_none(clients: Clients, provider: RecordingProvider) -> None:
    provider.default(Raw(OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n"))
    kind = (await fault(clients, Origin(provider.base_url))).transport
    assert kind in {"protocol_error", "stream_cut"}  # aiohttp reads on before it hands over the headers


async def test_nobody_listens(clients: Clients) -> None:
    with closed_port() as port:
        found = await fault(clients, Origin(f"http://{HOST}:{port}"))
    assert (found.transport, found.local) == ("connect_error", False)
    assert "ECONNREFUSED" in found.detail


async def test_no_such_host(clients: Clients) -> None:
    assert (await fault(clients, Origin("http://upstream.invalid", connect_secs=5))).transport == "connect_error"


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full: the next one waits for an answer to its first packet."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for each in waiting:
            each.close()


async def test_a_connection_that_is_not_answered(clients: Clients) -> None:
    with deaf_port() as port:
        found = await fault(clients, Origin(f"http://{HOST}:{port}", connect_secs=0.2))
    assert (found.transport, found.local) == ("connect_timeout", False)


async def test_headers_a_byte_at_a_time_are_bounded_too(clients: Clients) -> None:
    def drip(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.settimeout(0.02)
        for byte in OK + b"x: " + b"x" * 10_000:
            try:
                if not connection.recv(65536):
                    return
            except TimeoutError:
                connection.sendall(bytes([byte]))

    with raw_server(drip) as port, anyio.fail_after(5):
        found = await fault(clients, Origin(f"http://{HOST}:{port}", timeout_secs=0.2, connect_secs=0.2))
    assert (found.transport, found.detail) == ("read_timeout", "headers")


async def test_the_timeout_of_one_call(clients: Clients, origin: Origin, provider: RecordingProvider) -> None:
    provider.default(Stall())
    with anyio.fail_after(0.9), pytest.raises(UpstreamFault, match="read_timeout"):
        await clients.send(origin, "POST", PATH, {}, BODY, timeout=0.1)


async def test_a_pause_shorter_than_the_timeout_is_none(clients: Clients, provider: RecordingProvider) -> None:
    provider.default(Stream((EVENT,) * 4, delay=0.2))  # longer than the timeout in all
    assert await read_all(await post(clients, Origin(provider.base_url, timeout_secs=0.5))) == EVENT * 4


async def test_a_certificate_that_nobody_knows(clients: Clients, provider: RecordingProvider, tmp_path: Path) -> None:
    with tls_before(provider.port, tmp_path) as trusted:
        found = await fault(clients, Origin(trusted.base_url))
        assert found.transport == "connect_error"
        assert provider.count() == 0
        await read_all(await post(clients, trusted))
        assert provider.count() == 1


async def test_a_server_without_tls(clients: Clients) -> None:
    def plain(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with raw_server(plain) as port:
        assert (await fault(clients, Origin(f"https://{HOST}:{port}"))).transport == "connect_error"


async def test_a_secret_is_in_no_text(
    clients: Clients, provider: RecordingProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="narrows")
    provider.default(Refuse(), Stream((EVENT,), cut_at=3))
    origin = Origin(provider.base_url)
    secret = "sk-canary"
    headers = {"authorization": f"Bearer {secret}"}
    texts = []
    for _ in range(2):
        with pytest.raises(UpstreamFault) as caught:
            await read_all(await clients.send(origin, "POST", f"/chat?key={secret}", headers, secret.encode()))
        texts += traceback.format_exception(caught.value)
        texts.append(repr(caught.value))
    for end in ("\n", "\u2028"):
        with pytest.raises(ValueError) as refused:
            await clients.send(origin, "POST", PATH, {"authorization": secret + end}, BODY)
        texts.append(repr(refused.value))
    assert [text for text in (*texts, caplog.text) if secret in text] == []
    assert provider.count() == 2
