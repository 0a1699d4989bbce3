"""The head of a request is bounded, and what stands behind a body is no header."""

from __future__ import annotations

import socket
from pathlib import Path

from narrows.cli.protocol import HEAD_BYTES
from tests.support.config import write_config
from tests.support.process import narrows_process

ECHO = """
[providers.p]
kind = "echo"
[targets.t]
provider = "p"
model = "m"
[routes.chat]
targets = ["t"]
[keys.k]
sha256 = "a9360d07d1de1bee4079635c807b9a98f20ec7d99a178c6046deba00bc2ad2c7"
"""
BODY = b'{"model": "chat", "messages": [{"role": "user", "content": "hi"}]}'
KEY = b"authorization: Bearer nrw_example_ci\r\n"


def answered(port: int, *pieces: bytes) -> bytes:
    """The first bytes of what the server says to these."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError:
            pass  # it has hung up already
        return connection.recv(4096)


def chunked(headers: bytes, trailers: bytes) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" + headers
    return head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n%s\r\n" % (len(BODY), BODY, trailers)


def test_trailers_are_no_headers_and_a_head_is_bounded(tmp_path: Path) -> None:
    with narrows_process(write_config(tmp_path, ECHO)) as running:
        assert answered(running.port, chunked(KEY, b"")).startswith(b"HTTP/1.1 200")  # the control
        assert answered(running.port, chunked(b"", KEY)).startswith(b"HTTP/1.1 401")
        large = b"GET /health/live HTTP/1.1\r\nhost: x\r\nx-large: " + b"x" * (HEAD_BYTES // 2)
        assert answered(running.port, large + b"\r\n\r\n").startswith(b"HTTP/1.1 200")  # the control
        assert answered(running.port, *[large] * 8).startswith(b"HTTP/1.1 400")
