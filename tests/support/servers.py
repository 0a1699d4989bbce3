"""Real servers for tests: an ASGI application under uvicorn (asyncio) or hypercorn (trio), each in a thread."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import hypercorn.trio
import trio
import uvicorn
from hypercorn.config import Config as HypercornConfig
from hypercorn.typing import ASGIFramework

HOST = "127.0.0.1"
PATIENCE = 10.0
GRACE = 1
"""Seconds that requests in flight may still take when a server stops."""

Message = MutableMapping[str, Any]
ASGIApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
"""An ASGI application, spelt as starlette does."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `url` has no slash at its end. `backend`: the async library its application runs on."""

    port: int
    backend: Literal["asyncio", "trio"]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


class _Background:
    """A server's thread: it says when it is ready, and what went wrong is raised in the test, not lost in the thread."""

    def __init__(self, name: str, run: Callable[[Callable[[], None]], None]) -> None:
        """`run`: the server's whole life; it calls its argument when the server is ready."""
        self._run = run
        self._error: BaseException | None = None
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._target, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()
        if not self._settled.wait(PATIENCE):
            raise TimeoutError(f"{self._thread.name} was not ready within {PATIENCE:g} s")
        self._raise()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not stop within {PATIENCE:g} s")
        self._raise()

    def _target(self) -> None:
        try:
            self._run(self._settled.set)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread; SystemExit is uvicorn's "no"
            self._error = error
        finally:
            self._settled.set()

    def _raise(self) -> None:
        if self._error is not None:
            raise RuntimeError(f"{self._thread.name} failed") from self._error


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it is ready, and that stops at once: its own loop looks every 0.1 s only."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready: Callable[[], None] = lambda: None
        self._leave = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.on_tick(0)  # the default headers
        self.ready()
        await self._leave.wait()

    def stop(self) -> None:
        """From any thread, also after the server ended by itself."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._leave.set)


@contextmanager
def serve_asyncio(app: ASGIApp) -> Iterator[Server]:
    """Run the application under uvicorn, its lifespan included; uvloop and httptools where they are installed.

    Raises RuntimeError where the lifespan's startup fails or the server ends with an exception.
    """
    config = uvicorn.Config(app, lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=GRACE)
    listener = socket.create_server((HOST, 0), backlog=1024)
    port: int = listener.getsockname()[1]
    server = _Uvicorn(config)

    def run(ready: Callable[[], None]) -> None:
        server.ready = ready
        server.run([listener])

    thread = _Background("uvicorn", run)
    with closing(listener):
        thread.start()
        try:
            yield Server(port, "asyncio")
        finally:
            server.stop()
            thread.join()


@contextmanager
def serve_trio(app: ASGIApp) -> Iterator[Server]:
    """Run the application under hypercorn's trio worker, its lifespan included.

    Raises RuntimeError where the lifespan's startup fails or the server ends with an exception.
    """
    config = HypercornConfig()
    config.bind = [f"{HOST}:0"]
    config.graceful_timeout = GRACE
    config.errorlog = logging.getLogger("hypercorn.error")  # as it is: hypercorn would put a handler on stderr
    running: list[tuple[int, trio.lowlevel.TrioToken, trio.Event]] = []

    async def main(ready: Callable[[], None]) -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            start = partial(hypercorn.trio.serve, cast(ASGIFramework, app), config, shutdown_trigger=stop.wait)
            binds: list[str] = await nursery.start(start)
            running.append((int(binds[0].rpartition(":")[2]), trio.lowlevel.current_trio_token(), stop))
            ready()

    thread = _Background("hypercorn", lambda ready: trio.run(main, ready))
    thread.start()
    port, token, stop = running[0]
    try:
        yield Server(port, "trio")
    finally:
        with suppress(trio.RunFinishedError):  # it ended by itself; join says why
            token.run_sync_soon(stop.set)
        thread.join()


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on now. For a port that must stay dead use `closed_port`."""
    with socket.create_server((HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that is taken but not listened on: connecting to it is refused, and nobody else can get it meanwhile."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        yield taken.getsockname()[1]
