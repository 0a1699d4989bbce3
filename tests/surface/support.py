"""A gateway behind each way in, and how a test speaks to it: over a socket, or through the in-process transport."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Any, Final, Literal, TypeAlias, get_args

import anyio.from_thread
import httpx

from narrows import Block, Decision, Gateway, Inbound, transport
from narrows.errors import STATUS, TEMPORARY
from narrows.server import Application
from narrows.testing import Answer, RecordingProvider
from tests.e2e.support import Probe
from tests.support.servers import HOST, ASGIApp, Server, serve_asyncio, serve_trio

Way: TypeAlias = Literal["uvicorn", "hypercorn", "asyncio", "trio"]
"""Two servers on sockets, and the in-process transport on two backends."""

WAYS: Final[tuple[Way, ...]] = get_args(Way)
SOCKETS: Final[tuple[Way, ...]] = ("uvicorn", "hypercorn")
SERVERS: Final[Mapping[Way, Callable[[ASGIApp], AbstractContextManager[Server]]]] = {
    "uvicorn": serve_asyncio,
    "hypercorn": serve_trio,
}
CHAT: Final = "/v1/chat/completions"
EXPLAIN: Final = "/v1/explain"
MODELS: Final = "/v1/models"
JSON: Final = ("content-type", "application/json")
PROMPT: Final = "PROMPT-canary-5e1d"
"""Stands in every body that is sent here: no log line may hold it."""

PATIENCE: Final = 5.0
ERROR_KEYS: Final = {"message", "type", "param", "code", "decision", "policy", "exclusions"}

Headers: TypeAlias = Sequence[tuple[str, str]]
Content: TypeAlias = bytes | Sequence[bytes]
"""A body; a sequence is sent chunk by chunk, without a declared length."""


class Log(logging.Handler):
    """Keeps every line of a logger, and lets a test wait for them: a line is written behind the caller's back."""

    def __init__(self, name: str, level: int) -> None:
        super().__init__(level)
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._name, self._before = name, logging.NOTSET

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.name} {record.levelname} {self.format(record)}"
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    @property
    def lines(self) -> list[str]:
        """All lines so far."""
        with self._changed:
            return list(self._lines)

    def wait(self, *words: str) -> str:
        """The first line with all these words, as soon as it is there. Raises TimeoutError."""
        with self._changed:
            found = self._changed.wait_for(lambda: next(iter(self._with(words)), None), PATIENCE)
            if found is None:
                raise TimeoutError(f"waited {PATIENCE:g} s for a log line with {words}; there are {self._lines}")
            return found

    def count(self, *words: str) -> int:
        """How many lines have all these words."""
        with self._changed:
            return len(self._with(words))

    def _with(self, words: Iterable[str]) -> list[str]:
        return [line for line in self._lines if all(word in line for word in words)]

    def clear(self) -> None:
        with self._changed:
            self._lines.clear()

    def __enter__(self) -> Log:
        logger = logging.getLogger(self._name)
        self._before = logger.level
        logger.addHandler(self)
        logger.setLevel(self.level)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger(self._name)
        logger.removeHandler(self)
        logger.setLevel(self._before)


class Site:
    """One gateway, its provider, its log of requests, and a client. Subclasses say how it is reached."""

    def __init__(self, gateway: Gateway, provider: RecordingProvider, probe: Probe, log: Log) -> None:
        self.gateway, self.provider, self.probe, self.log = gateway, provider, probe, log

    def clear(self) -> None:
        """As it was: no calls, no decisions, no log lines, and every model answers."""
        for target in self.gateway.snapshot.targets.values():
            self.provider.script(target.model, Answer())
        self.provider.clear()
        self.probe.clear()
        self.log.clear()

    def send(
        self, content: Content, headers: Iterable[tuple[str, str]] = (JSON,), *, method: str = "POST", path: str = CHAT
    ) -> httpx.Response:
        """One request, its answer read to the end."""
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        return self._request(method, path, raw, content)

    def ask(self, model: str = "chat", /, *, saying: Headers = (), path: str = CHAT, **more: object) -> httpx.Response:
        """A chat request. `saying`: its headers. `more`: further members of the body."""
        return self.send(chat(model, **more), (JSON, *saying), path=path)

    def explain(self, model: str = "chat", /, *, saying: Headers = (), **more: object) -> dict[str, Any]:
        """The document of the same request. Asserts its status."""
        response = self.ask(model, saying=saying, path=EXPLAIN, **more)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def get(self, path: str, headers: Headers = (), *, method: str = "GET") -> httpx.Response:
        """A request without a body."""
        return self.send(b"", headers, method=method, path=path)

    def at(self, path: str) -> tuple[int, Mapping[str, str]]:
        """Status and headers of the answer to a chat request to exactly this path: nothing on its way makes it tidy."""
        raise NotImplementedError

    def stream(self, content: bytes, first: Callable[[], None], *, leave: bool = False) -> None:
        """A streamed request, to its end, or left at its first chunk. `first` is called with the first chunk."""
        raise NotImplementedError

    def decision(self, response: httpx.Response) -> Decision:
        """What was recorded of this answer."""
        return self.probe.of(response.headers["x-narrows-decision"])

    def control(self) -> None:
        """The positive control: the same gateway serves what is in order, with one upstream call more."""
        before = self.provider.count()
        response = self.ask()
        assert (response.status_code, self.provider.count() - before) == (200, 1), response.text
        self.log.wait(response.headers["x-narrows-decision"], " outcome=answered ")

    def _request(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], content: Content
    ) -> httpx.Response:
        raise NotImplementedError


class Socket(Site):
    """Over a connection."""

    def __init__(self, server: Server, *parts: Any) -> None:
        super().__init__(*parts)
        self.server = server
        no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.client = httpx.Client(base_url=server.url, timeout=PATIENCE, verify=no_certificates, trust_env=False)

    def at(self, path: str) -> tuple[int, Mapping[str, str]]:
        connection = self.connection()
        try:
            connection.request("POST", path, body=chat(), headers=dict((JSON,)))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def stream(self, content: bytes, first: Callable[[], None], *, leave: bool = False) -> None:
        with self.client.stream("POST", CHAT, content=content, headers=dict((JSON,))) as response:
            for _ in response.iter_raw():
                first()
                if leave:
                    return

    def connection(self) -> http.client.HTTPConnection:
        """A connection of the test's own."""
        return http.client.HTTPConnection(HOST, self.server.port, timeout=PATIENCE)

    def _request(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], content: Content
    ) -> httpx.Response:
        body = content if isinstance(content, bytes) else iter(content)
        return self.client.request(method, path, headers=headers, content=body)


class Inside(Site):
    """Through the in-process transport."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, *parts: Any) -> None:
        super().__init__(*parts)
        self.portal = portal

    def at(self, path: str) -> tuple[int, Mapping[str, str]]:
        return self.answer(Inbound("POST", path, (JSON,)), chat())[:2]

    def stream(self, content: bytes, first: Callable[[], None], *, leave: bool = False) -> None:
        async def whole() -> None:
            async with (
                httpx.AsyncClient(transport=transport(self.gateway), base_url="http://narrows") as client,
                client.stream("POST", CHAT, content=content, headers=dict((JSON,))) as response,
            ):
                async for _ in response.aiter_raw():
                    first()
                    if leave:
                        return

        self.portal.call(whole)

    def answer(self, inbound: Inbound, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """What `Gateway.answer` gives for this request, with no client between."""

        async def read() -> AsyncIterator[bytes]:
            yield body

        async def whole() -> tuple[int, Mapping[str, str], bytes]:
            async with self.gateway.answer(inbound, read) as reply:
                chunks = [chunk async for chunk in reply.chunks]
            return reply.status, dict(reply.headers), b"".join(chunks)

        return self.portal.call(whole)

    def _request(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], content: Content
    ) -> httpx.Response:
        async def chunks() -> AsyncGenerator[bytes, None]:
            for chunk in content:
                assert isinstance(chunk, bytes)
                yield chunk

        async def whole() -> httpx.Response:
            async with (
                httpx.AsyncClient(transport=transport(self.gateway), base_url="http://narrows") as client,
                aclosing(chunks()) as streamed,
            ):
                body = content if isinstance(content, bytes) else streamed
                return await client.request(method, path, headers=headers, content=body)

        return self.portal.call(whole)


@contextmanager
def opened(
    way: Way,
    text: str,
    *,
    kinds: Mapping[str, type[Block]] | None = None,
    open_access: bool = True,
    tracer_provider: Any = None,
) -> Iterator[Site]:
    """Run a gateway of this configuration. `{url}` in it becomes its provider's."""
    probe = Probe()
    with RecordingProvider() as provider, Log("narrows.requests", logging.INFO) as log:
        text = text.replace("{url}", provider.base_url) + '\n[plugins.probe]\nkind = "probe"\n'
        gateway = Gateway.from_text(
            text,
            kinds={"plugins.probe": probe.kind(), **(kinds or {})},
            open_access=open_access,
            standalone=way in SOCKETS,
            tracer_provider=tracer_provider,
        )
        parts = (gateway, provider, probe, log)
        if way in SERVERS:
            with SERVERS[way](Application(gateway)) as server:
                site = Socket(server, *parts)
                with site.client:
                    yield site
        else:
            with (
                anyio.from_thread.start_blocking_portal(way) as portal,
                portal.wrap_async_context_manager(gateway),
            ):
                yield Inside(portal, *parts)


def chat(model: object = "chat", /, **more: object) -> bytes:
    """A chat body. A member given as bytes stands in it as it is."""
    fields: dict[str, object] = {"model": model, "messages": [{"role": "user", "content": PROMPT}], **more}
    return b"{" + b",".join(json.dumps(key).encode() + b":" + _raw(value) for key, value in fields.items()) + b"}"


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def error(response: httpx.Response) -> dict[str, Any]:
    """The error object of a refusal of ours."""
    document = response.json()
    assert document.keys() == {"error"}
    found: dict[str, Any] = document["error"]
    return found


def assert_refused(response: httpx.Response, code: str) -> dict[str, Any]:
    """A refusal of ours with that code, in the whole shape of INTERFACES. Returns its error object."""
    headers = response.headers
    assert (response.status_code, headers.get("x-narrows-code")) == (STATUS[code], code), response.text
    found = error(response)
    assert found.keys() == ERROR_KEYS
    assert found["code"] == code
    assert isinstance(found["message"], str)
    assert found["message"]
    assert headers["x-narrows-decision"] == found["decision"]
    assert found["decision"].startswith("dec_")
    assert headers["x-narrows-policy"] == found["policy"]
    assert headers["content-type"] == "application/json"
    if code in TEMPORARY:
        assert int(headers["retry-after"]) >= 1
        assert "x-should-retry" not in headers
    else:
        assert headers["x-should-retry"] == "false"
        assert "retry-after" not in headers
    return found
