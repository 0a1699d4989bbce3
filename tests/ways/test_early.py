"""An answer that needs no body comes before the caller has sent it, and the connection stays good for the next request."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest
from starlette.applications import Starlette

from narrows import Gateway, NarrowsMiddleware, attach
from narrows.server import Application
from narrows.testing import RecordingProvider
from tests.conftest import Serve
from tests.support.config import basic_config
from tests.ways.config import EVERYBODY, key

BODY = b'{"model": "chat", "messages": [{"role": "user", "content": "hello"}]}'
HEAD = "POST {path} HTTP/1.1\r\nhost: narrows\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n"


def answered(connection: socket.socket) -> int:
    """The status of the next answer, read to its last byte. Raises EOFError where the server has closed."""
    with connection.makefile("rb", buffering=0) as file:
        head = b""
        while b"\r\n\r\n" not in head:
            got = file.read(1)
            if not got:
                raise EOFError(f"the server closed; it sent {head!r}")
            head += got
        (size,) = map(int, re.findall(rb"content-length: (\d+)", head.lower()))
        while size:
            size -= len(file.read(size))
    return int(head.split()[1])


@pytest.mark.parametrize("way", ["alone", "attached", "around"])
def test_a_connection_outlives_an_answer_that_did_not_wait_for_the_body(
    way: str, serve: Serve, provider: RecordingProvider
) -> None:
    gateway = Gateway.from_text(basic_config({"a": provider.base_url}, more=key(EVERYBODY)))
    app: Any = Application(gateway) if way == "alone" else Starlette()
    if way == "attached":
        attach(app, "/llm", gateway)
    elif way == "around":
        app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/llm")
    path = "/v1" if way == "alone" else "/llm/v1"
    with serve(app) as server, socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        for name, status in (
            ("chat/completions", 401),
            ("embeddings", 404),
            ("models", 405),
            ("chat/completions", 401),
        ):
            connection.sendall(HEAD.format(path=f"{path}/{name}", size=len(BODY)).encode())
            assert answered(connection) == status  # all of it, though nothing of the body has been sent
            connection.sendall(BODY)
    assert provider.connections == 0
