"""The same suite for every way in: four ways, two frameworks, two servers on real sockets."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from itertools import product

import httpx
import pytest
from websockets.sync.client import connect

from tests.core.server.fake import JSON, FakeGateway, Gate, after, failing, fails, forever, stream, whole
from tests.core.server.hosts import FRAMEWORKS, WAYS, Site, host
from tests.support.servers import serve_asyncio, serve_trio

SECRET = "sk-prompt-and-key"
SERVERS = {"uvicorn": serve_asyncio, "hypercorn": serve_trio}
MATRIX = list(product(SERVERS, FRAMEWORKS, WAYS))
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module", params=MATRIX, ids=["-".join(row) for row in MATRIX])
def running(request: pytest.FixtureRequest) -> Iterator[Site]:
    server, framework, way = request.param
    gateway = FakeGateway()
    with SERVERS[server](host(framework, way, gateway)) as listening:
        yield Site(listening, gateway, way)
    assert gateway.events[-1] == "gateway stops" or way == "app"


@pytest.fixture
def site(running: Site, caplog: pytest.LogCaptureFixture) -> Site:
    running.gateway.clear()
    caplog.set_level(logging.WARNING)
    return running


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """Without certificates and proxies: loading them takes longer than a test."""
    with httpx.Client(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False) as made:
        yield made


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_answer(site: Site, client: httpx.Client) -> None:
    site.gateway.script = whole(
        b'{"n": 1}', 200, ("x-narrows-target", "us"), ("set-cookie", "a=1"), ("x-odd", "caf\xe9")
    )
    answer = client.post(f"{site.url}{CHAT}?stream=no", json={"q": 1}, headers={"X-Region": "eu"})
    assert (answer.status_code, answer.json()) == (200, {"n": 1})
    assert answer.headers["x-narrows-target"] == "us"
    assert answer.headers["content-length"] == "8"
    assert answer.headers.get_list("set-cookie") == ["a=1"]
    assert answer.headers["x-odd"] == "caf\xe9"
    site.gateway.wait_left(1)
    (seen,) = site.gateway.seen
    assert (seen.inbound.method, seen.inbound.path, seen.body, seen.end) == ("POST", CHAT, b'{"q":1}', "normal")
    assert seen.inbound.client == "127.0.0.1"
    said = seen.outer if site.way == "transport" else seen.inbound
    assert said is not None
    assert said.header("x-region") == "eu"
    assert (seen.outer is not None) == (site.way == "transport")


def test_what_has_no_body(site: Site, client: httpx.Client) -> None:
    site.gateway.script = whole(b"[1, 2]")
    head = client.head(f"{site.url}/v1/models")
    get = client.get(f"{site.url}/v1/models")  # on the same connection: a body after HEAD would garble it
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "6")
    assert (get.status_code, get.content) == (200, b"[1, 2]")
    assert [(seen.inbound.method, seen.inbound.path) for seen in site.gateway.seen] == [
        ("HEAD", "/v1/models"),
        ("GET", "/v1/models"),
    ]


def test_a_refusal_is_an_answer(site: Site, client: httpx.Client) -> None:
    site.gateway.script = whole(b'{"error": {}}', 403, ("x-narrows-code", "no_eligible_target"))
    answer = client.post(f"{site.url}{CHAT}", json={})
    assert (answer.status_code, answer.headers["x-narrows-code"]) == (403, "no_eligible_target")


def test_every_chunk_is_there_before_the_next_is_made(site: Site, client: httpx.Client) -> None:
    gate = Gate()
    sent = [b"data: 1\n\n", b"data: 22\n\n", b"data: [DONE]\n\n"]
    site.gateway.script = stream(*sent, gate=gate)
    with client.stream("POST", f"{site.url}{CHAT}", json={}) as answer:
        chunks = answer.iter_raw()
        for number, expected in enumerate(sent, 1):
            assert next(chunks) == expected
            assert site.gateway.seen[0].chunks == number
            gate.release()
        assert list(chunks) == []
    site.gateway.wait_left(1)
    assert site.gateway.ends == ["normal"]


def test_a_caller_that_leaves_before_the_headers(
    site: Site, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    site.gateway.script = after(gate, stream(b"1", then=forever))
    with pytest.raises(httpx.ReadTimeout):
        client.post(f"{site.url}{CHAT}", json={}, timeout=httpx.Timeout(5, read=0.05))
    if site.way == "transport":
        gate.release()  # no framework cancels a host's handler; its streaming response sees that the caller has gone
    site.gateway.wait_left(1)
    assert site.gateway.ends != ["normal"]
    assert errors(caplog) == []


def test_a_caller_that_leaves_after_the_headers(
    site: Site, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    site.gateway.script = stream(b"1", then=forever)
    with client.stream("POST", f"{site.url}{CHAT}", json={}) as answer:
        chunks = answer.iter_raw()
        assert next(chunks) == b"1"
        assert site.gateway.ends == [None]
    site.gateway.wait_left(1)
    assert site.gateway.ends != ["normal"]
    assert errors(caplog) == []


def test_two_hundred_abandoned_streams_leave_nothing(
    site: Site, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.post(f"{site.url}{CHAT}", json={}).status_code == 200
    site.gateway.wait_left(1)
    baseline = site.gateway.tasks()
    site.gateway.clear()
    site.gateway.script = stream(b"1", then=forever)
    for _ in range(200):
        with client.stream("POST", f"{site.url}{CHAT}", json={}) as answer:
            next(answer.iter_raw())
    site.gateway.wait_left(200, timeout=5)
    site.gateway.wait_tasks(baseline)
    assert "normal" not in site.gateway.ends
    assert errors(caplog) == []


def test_a_fault_before_the_answer_is_a_500_without_details(
    site: Site, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    site.gateway.script = failing(KeyError(SECRET))
    answer = client.post(f"{site.url}{CHAT}", json={})
    assert (answer.status_code, answer.headers["content-type"]) == (500, JSON[1])
    assert answer.json()["error"]["code"] == answer.headers["x-narrows-code"] == "internal_error"
    assert answer.headers["x-should-retry"] == "false"
    assert SECRET not in answer.text
    assert SECRET not in caplog.text
    assert any("KeyError at fake.py:" in message for message in errors(caplog))


def test_a_fault_in_a_stream_cuts_the_connection(
    site: Site, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    site.gateway.script = stream(b"1", then=fails(KeyError(SECRET)))
    with client.stream("POST", f"{site.url}{CHAT}", json={}) as answer:
        chunks = answer.iter_raw()
        assert next(chunks) == b"1"
        with pytest.raises(httpx.RemoteProtocolError):
            next(chunks)
    site.gateway.wait_left(1)
    assert site.gateway.ends == ["KeyError"]
    assert SECRET not in caplog.text


def test_the_hosts_own_routes_keep_working(site: Site, client: httpx.Client) -> None:
    answer = client.get(f"{site.server.url}/hello")
    handle = "NoneType" if site.way == "app" else "Handle"
    assert (answer.status_code, answer.json()) == (200, {"db": "open", "handle": handle})
    assert client.get(f"{site.server.url}/llmx").status_code == 404
    assert site.gateway.seen == []


def test_the_hosts_websockets_keep_working(site: Site) -> None:
    with connect(f"{site.server.url.replace('http', 'ws')}/echo") as websocket:
        websocket.send("hi")
        assert websocket.recv() == "open: hi"


def test_the_lifespans_are_one_inside_the_other(site: Site) -> None:
    inside = ["host starts", "gateway starts"]
    assert site.gateway.events == (inside if site.way == "app" else inside[::-1])
