"""What the seam's tests share: short ways to call, and servers that misbehave below HTTP."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio.to_thread

from narrows.upstream import Clients, Origin, Upstream

HOST = "127.0.0.1"
PATH = "/chat/completions"
BODY = b'{"model":"small-1","messages":[]}'

# Made up for these tests, valid for 127.0.0.1 from 2020 to 2120. Nothing else trusts it.
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgDpiNWk0Fmdlem/57
qMpFhSl9rB/3bYxJwuco2GUzzkOhRANCAATnttvw/H/RRO/2yWfPJwPF7d/21UUU
fXeWyiTssq/jmaUgZGrZGFGhe0WMyoONBaNhgfhstSN8dcENAbqb3rq1
-----END PRIVATE KEY-----
"""
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBhzCCAS2gAwIBAgIUXcEg3TPMav1R9OrROQVczpERX1QwCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNdGVzdCB1cHN0cmVhbTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIw
MDEwMTAwMDAwMFowGDEWMBQGA1UEAwwNdGVzdCB1cHN0cmVhbTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABOe22/D8f9FE7/bJZ88nA8Xt3/bVRRR9d5bKJOyyr+OZ
pSBkatkYUaF7RYzKg40Fo2GB+Gy1I3x1wQ0BupveurWjUzBRMA8GA1UdEQQIMAaH
BH8AAAEwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUprmndtU4dZL7albeCTvB
9Pl9DbgwDgYDVR0PAQH/BAQDAgKEMAoGCCqGSM49BAMCA0gAMEUCIQDP7dXw1UVJ
lPZugopttyTwNotjLUUjiQ0f0qNpoEeQHQIgBqYl7juJUYYUrMAkoIHqnbVedLST
oY3HMfKtoppaq7k=
-----END CERTIFICATE-----
"""


async def post(clients: Clients, origin: Origin, body: bytes = BODY) -> Upstream:
    """A call without headers of its own."""
    return await clients.send(origin, "POST", PATH, {}, body)


async def first_chunk(upstream: Upstream) -> bytes:
    return await anext(upstream.chunks)


async def waiting(wait: Callable[..., object], *arguments: object) -> None:
    """One of the provider's wait helpers, which block their thread."""
    await anyio.to_thread.run_sync(partial(wait, *arguments))


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where each connection is handed to `serve`, in a thread of its own, and closed after it."""
    listener = socket.create_server((HOST, 0))
    threads: list[threading.Thread] = []
    open_now: list[socket.socket] = []

    def handle(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_now.append(connection)
                threads.append(threading.Thread(target=handle, args=(connection,), daemon=True))
                threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for each in (listener, *open_now):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (acceptor, *threads):
            thread.join(5)


@contextmanager
def tls_before(port: int, folder: Path) -> Iterator[Origin]:
    """TLS in front of a plain port. The origin trusts its certificate."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_text(CERTIFICATE)
    key.write_text(KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    opened: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with (
            context.wrap_socket(connection, server_side=True) as outer,
            socket.create_connection((HOST, port)) as inner,
        ):
            opened.append(outer)
            back = threading.Thread(target=_pump, args=(inner, outer), daemon=True)
            back.start()
            _pump(outer, inner)
            back.join(5)

    with raw_server(serve) as front:
        yield Origin(f"https://{HOST}:{front}/v1", timeout_secs=2.0, ca_file=str(certificate))
        for each in opened:
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # below TLS: another thread may be reading


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
