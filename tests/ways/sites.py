"""The ways in, and a gateway behind each: whatever asks it is the official client, on the way that users take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

import anyio.to_thread
import httpx
import httpx2
import pytest
from fastapi import FastAPI
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from narrows import Gateway, NarrowsMiddleware, attach, transport
from narrows.server import Application
from narrows.testing import Answer, RecordingProvider
from tests.support.http import http_client
from tests.support.servers import serve_asyncio, serve_trio
from tests.ways.config import EVERYBODY, KEYS, configuration
from tests.ways.kept import Kept

Scenario: TypeAlias = Callable[[AsyncOpenAI], Awaitable[None]]
"""What a test does with a client. It runs where a user's code would run, so also in a handler on the server's side."""

Headers: TypeAlias = Mapping[str, str]
NOBODYS = "nrw_nobody_has_this_key"


class Way(StrEnum):
    """Every way into a gateway. A new one fails the type check until `opened` knows it."""

    ALONE = "alone"
    ATTACHED_TO_STARLETTE = "attached-to-starlette"
    ATTACHED_TO_FASTAPI = "attached-to-fastapi"
    AROUND_STARLETTE = "around-starlette"
    AROUND_FASTAPI = "around-fastapi"
    INSIDE_STARLETTE = "inside-starlette"
    INSIDE_FASTAPI = "inside-fastapi"
    OUTSIDE_HTTPX = "outside-httpx"
    OUTSIDE_HTTPX2 = "outside-httpx2"


@dataclass
class Site(ABC):
    """One gateway, reached in one way. `provider`: every upstream that it knows; `kept`: what it decided; `asked`: the
    decisions of the answers that the last scenario got."""

    way: Way
    gateway: Gateway
    provider: RecordingProvider
    kept: Kept
    asked: list[str] = field(default_factory=list, kw_only=True)

    async def run(self, scenario: Scenario, headers: Headers | None = None, *, key: str = EVERYBODY) -> None:
        """Run the scenario for that caller, whose requests (or whose one request around them) carry these headers.

        Raises what the scenario raises. What was answered is also recorded when this returns.
        """
        self.asked.clear()
        try:
            await self.enter(scenario, headers or {}, KEYS.get(key, key))
        finally:
            for decision in self.asked:  # a decision is recorded behind the last byte
                await anyio.to_thread.run_sync(self.kept.of, decision)

    @abstractmethod
    async def enter(self, scenario: Scenario, headers: Headers, key: str) -> None:
        """The same, in this way."""

    def client(self, http: Any, base_url: str, key: str, headers: Headers) -> AsyncOpenAI:
        """The official client over that HTTP client, which it closes. It does not repeat by itself unless told to."""
        http.event_hooks = {"response": [self._answered]}
        return AsyncOpenAI(base_url=base_url, api_key=key, default_headers=headers, http_client=http, max_retries=0)

    async def _answered(self, response: Any) -> None:
        if response.request.url.path.endswith("/v1/chat/completions"):
            self.asked.append(response.headers["x-narrows-decision"])

    def reset(self) -> None:
        """As it was: no calls, no decisions, and every model answers."""
        for target in self.gateway.snapshot.targets.values():
            self.provider.script(target.model, Answer())
        self.provider.clear()
        self.kept.clear()

    def counts(self, *models: str) -> tuple[int, ...]:
        """How often each upstream model was called."""
        return tuple(self.provider.count(model) for model in models)


@dataclass
class OverSocket(Site):
    """A server listens, the client connects."""

    url: str

    async def enter(self, scenario: Scenario, headers: Headers, key: str) -> None:
        async with self.client(http_client(), f"{self.url}/v1", key, headers) as client:
            await scenario(client)


@dataclass
class InsideAHandler(Site):
    """A server listens, and the scenario runs in a handler of the host, over `request.state.narrows.transport`.

    The caller's key and headers are those of the request to the host. The client in the handler sends a key that nobody
    has: it must not count.
    """

    url: str
    host: Host

    async def enter(self, scenario: Scenario, headers: Headers, key: str) -> None:
        async def work(request: Request) -> Response:
            handle = request.state.narrows
            http: Any
            if self.way is Way.INSIDE_STARLETTE:
                http = httpx.AsyncClient(transport=handle.transport)
            else:
                http = httpx2.AsyncClient(transport=handle.transport_for("httpx2"))
            async with self.client(http, "http://narrows/v1", NOBODYS, {}) as client:
                await scenario(client)
            return Response()

        async with http_client(self.url, timeout=30) as outer:
            await self.host.ask(outer, work, {"authorization": f"Bearer {key}", **headers})


@dataclass
class OutsideARequest(Site):
    """`transport(gateway, principal=…)`, in the test's own task. The client's key does not count here either."""

    async def enter(self, scenario: Scenario, headers: Headers, key: str) -> None:
        principal = next((name for name, known in KEYS.items() if known == key), key)
        http: Any
        if self.way is Way.OUTSIDE_HTTPX:
            http = httpx.AsyncClient(transport=transport(self.gateway, principal=principal))
        else:
            http = httpx2.AsyncClient(transport=transport(self.gateway, principal=principal, lib="httpx2"))
        async with self.client(http, "http://narrows/v1", NOBODYS, headers) as client:
            await scenario(client)


Work: TypeAlias = Callable[[Request], Awaitable[Response]]


class Host:
    """A host with a route, `/work`, that does whatever a test has set."""

    def __init__(self) -> None:
        self._work: Work | None = None
        self._error: BaseException | None = None

    async def ask(self, outer: httpx.AsyncClient, work: Work, headers: Headers) -> httpx.Response:
        """Have the handler do this work for one request. Raises what the work raises."""
        self._work, self._error = work, None
        response = await outer.post("/work", headers=headers)
        if self._error is not None:
            raise self._error
        return response

    async def work(self, request: Request) -> Response:
        """The route."""
        assert self._work is not None
        try:
            return await self._work(request)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the test's own: raised where it can be seen
            self._error = error
            return Response(status_code=500)


@asynccontextmanager
async def opened(way: Way, backend: str) -> AsyncIterator[Site]:
    """A gateway that runs, reached in this way. `backend`: the async library, on both sides of a socket."""
    kept, host = Kept(), Host()
    serve = serve_asyncio if backend == "asyncio" else serve_trio
    with RecordingProvider() as provider:
        gateway = Gateway.from_text(configuration(provider.base_url), kinds={"plugins.kept": kept.kind()})
        behind = (way, gateway, provider, kept)
        match way:
            case Way.ALONE:
                with serve(Application(gateway)) as server:
                    yield OverSocket(*behind, server.url)
            case Way.ATTACHED_TO_STARLETTE | Way.ATTACHED_TO_FASTAPI | Way.AROUND_STARLETTE | Way.AROUND_FASTAPI:
                with serve(built(way, gateway, host)) as server:
                    yield OverSocket(*behind, f"{server.url}/llm")
            case Way.INSIDE_STARLETTE | Way.INSIDE_FASTAPI:
                with serve(built(way, gateway, host)) as server:
                    yield InsideAHandler(*behind, server.url, host)
            case Way.OUTSIDE_HTTPX | Way.OUTSIDE_HTTPX2:
                async with gateway:
                    yield OutsideARequest(*behind)
            case _:
                assert_never(way)


def built(way: Way, gateway: Gateway, host: Host) -> Starlette:
    """The host application with the gateway in it. Inside Starlette the handle is the middleware's, inside FastAPI that
    of `attach`."""
    app = FastAPI() if way.endswith("fastapi") else Starlette()
    app.router.routes.append(Route("/work", host.work, methods=["POST"]))
    if way in (Way.AROUND_STARLETTE, Way.AROUND_FASTAPI):
        app.add_middleware(NarrowsMiddleware, gateway=gateway, path="/llm")
    elif way is Way.INSIDE_STARLETTE:
        app.add_middleware(NarrowsMiddleware, gateway=gateway)
    else:
        attach(app, "/llm", gateway)
    return app
