"""A gateway on a real socket in front of a recording provider, and what it recorded of each request."""

from __future__ import annotations

import gc
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import httpx
from anyio.lowlevel import EventLoopToken, current_token

from narrows import Block, Decision, Failure, Gateway, Services, Target, hookimpl
from narrows.server import Application
from narrows.testing import Answer, RecordingProvider
from tests.support.servers import ASGIApp, Server

Serve = Callable[[ASGIApp], AbstractContextManager[Server]]

PATIENCE = 5.0
SOON = 1.0
"""Seconds within which a caller's leaving must have reached the upstream."""

PROMPT = "PROMPT-canary-5e1d"
"""What every request of these tests asks: it may be found at the provider, and nowhere else."""

CHAT = "/v1/chat/completions"


class Probe:
    """What a gateway tells a plugin of ours: where it runs, and each decision. May be asked from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._decisions: list[Decision] = []
        self._failures: list[Failure] = []
        self._token: EventLoopToken | None = None

    def kind(self) -> type[Block]:
        """The plugin's class, for `kinds={"plugins.probe": …}`."""
        probe = self

        class ProbeBlock(Block):
            """Hands every decision to the test."""

            @hookimpl
            def start(self, services: Services) -> None:
                probe._token = current_token()

            @hookimpl
            def classify_error(self, failure: Failure, target: Target) -> None:
                with probe._changed:
                    probe._failures.append(failure)
                    probe._changed.notify_all()

            @hookimpl
            def record(self, decision: Decision) -> None:
                with probe._changed:
                    probe._decisions.append(decision)
                    probe._changed.notify_all()

        return ProbeBlock

    def clear(self) -> None:
        with self._changed:
            self._decisions.clear()
            self._failures.clear()

    def wait(self, n: int) -> list[Decision]:
        """The decisions so far, as soon as there are `n`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._decisions) >= n, PATIENCE):
                raise TimeoutError(f"waited {PATIENCE:g} s for {n} decisions; there are {len(self._decisions)}")
            return list(self._decisions)

    def wait_failures(self, n: int) -> list[Failure]:
        """What classifiers were asked about so far, as soon as there are `n`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._failures) >= n, PATIENCE):
                raise TimeoutError(f"waited {PATIENCE:g} s for {n} failures; there are {len(self._failures)}")
            return list(self._failures)

    def decided(self) -> list[Decision]:
        """The decisions so far."""
        with self._changed:
            return list(self._decisions)

    def only(self) -> Decision:
        """The decision of the one request that was made."""
        (decision,) = self.wait(1)
        return decision

    def of(self, decision: str) -> Decision:
        """The decision with that id."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: next((known for known in self._decisions if known.id == decision), None), PATIENCE
            )
        if found is None:
            raise TimeoutError(f"{decision} was not recorded within {PATIENCE:g} s")
        return found

    def tasks(self) -> int:
        """How many tasks there are in the gateway's loop."""
        return anyio.from_thread.run_sync(lambda: len(anyio.get_running_tasks()), token=self._token)


class LogLines(logging.Handler):
    """What the gateway logs. A line is written behind the caller's back, so it must be waited for."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._changed = threading.Condition()
        self._lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self._lines.append((record.name, self.format(record)))
            self._changed.notify_all()

    def wait(self, decision: str) -> list[str]:
        """Every line so far, as soon as there is the request's own."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: any(f"decision={decision} " in line for line in self._all()), PATIENCE
            ):
                raise TimeoutError(f"no line for {decision}; there are {self._all()}")
            return self._all()

    def of(self, logger: str) -> list[str]:
        with self._changed:
            return [line for name, line in self._lines if name == logger]

    def _all(self) -> list[str]:
        return [line for _, line in self._lines]


@contextmanager
def logged() -> Iterator[LogLines]:
    """Everything that is logged meanwhile, by anybody, from DEBUG on."""
    lines, root = LogLines(), logging.getLogger()
    before = root.level
    root.addHandler(lines)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.setLevel(before)
        root.removeHandler(lines)


class Stage:
    """Everything between a caller and the provider, in one process. `gateway` runs in the server's thread."""

    def __init__(self, provider: RecordingProvider, probe: Probe, gateway: Gateway, server: Server) -> None:
        self.provider, self.probe, self.gateway, self.server = provider, probe, gateway, server
        self.client = plain_client(server.url)
        self._made = 0

    def reset(self) -> None:
        """As it was: no calls, no decisions, and every model answers. Each request so far has left its decision."""
        made, self._made = self._made, 0
        self.probe.wait(made)
        for model in {target.model for target in self.gateway.snapshot.targets.values()}:
            self.provider.script(model, Answer())
        self.provider.default(Answer())
        self.provider.clear()
        self.probe.clear()

    def ask(
        self, route: str = "chat", headers: Mapping[str, str] | None = None, *, stream: bool = False, **body: object
    ) -> httpx.Response:
        """One request, its answer read to the end. `body`: members beside the usual ones."""
        response = self.client.post(CHAT, json=chat(route, stream=stream, **body), headers=headers)
        self._made += 1
        return response

    def open(
        self, route: str = "chat", headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[httpx.Response]:
        """A streamed answer, to be read chunk by chunk. Leaving it early closes the connection."""
        self._made += 1
        return self.client.stream("POST", CHAT, json=chat(route, stream=True), headers=headers)

    def counts(self, *models: str) -> tuple[int, ...]:
        """How often each model was called."""
        return tuple(self.provider.count(model) for model in models)

    def decision(self, response: httpx.Response) -> Decision:
        """What was recorded of this answer."""
        return self.probe.of(response.headers["x-narrows-decision"])

    def caller(self, route: str = "chat", *, stream: bool = True, headers: Mapping[str, str] | None = None) -> Caller:
        """A caller that has sent its request, and may leave at any moment."""
        self._made += 1
        return Caller(self.server, chat(route, stream=stream), headers or {})


class Caller:
    """A client that speaks HTTP by hand over a connection of its own, so that nothing but the test decides when it goes."""

    def __init__(self, server: Server, body: Mapping[str, Any], headers: Mapping[str, str], path: str = CHAT) -> None:
        request = httpx.Request("POST", server.url + path, json=body, headers=headers)
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in request.headers.items())]
        self._socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        self._socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + request.read())
        self.received = b""

    def read_until(self, mark: bytes) -> bytes:
        """Everything received, as soon as it holds `mark`. Raises EOFError where the server closes before."""
        while mark not in self.received:
            got = self._socket.recv(65536)
            if not got:
                raise EOFError(f"the server closed before {mark!r}; it sent {self.received!r}")
            self.received += got
        return self.received

    def read_all(self) -> bytes:
        """Everything until the server closes."""
        while got := self._socket.recv(65536):
            self.received += got
        return self.received

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def leave(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


@contextmanager
def staged(serve: Serve, text: str, env: Mapping[str, str]) -> Iterator[Stage]:
    """Run a gateway of this configuration. `{url}` in it becomes the provider's; `env` is set meanwhile."""
    import pytest

    probe = Probe()
    with pytest.MonkeyPatch.context() as patch, RecordingProvider() as provider:
        for name, value in env.items():
            patch.setenv(name, value)
        text = text.replace("{url}", provider.base_url) + '\n[plugins.probe]\nkind = "probe"\n'
        gateway = Gateway.from_text(text, kinds={"plugins.probe": probe.kind()}, open_access=True)
        with serve(Application(gateway)) as server:
            stage = Stage(provider, probe, gateway, server)
            with stage.client:
                yield stage


def chat(route: str, *, stream: bool = False, **body: object) -> dict[str, object]:
    """The body of a request. `stream` left out where it is False: that is what callers do."""
    streaming = {"stream": True} if stream else {}
    return {"model": route, "messages": [{"role": "user", "content": PROMPT}], **streaming, **body}


def plain_client(url: str) -> httpx.Client:
    """A client without certificates and proxies."""
    no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.Client(base_url=url, timeout=PATIENCE, verify=no_certificates, trust_env=False)


# ---- nothing is left behind ------------------------------------------------------------------------------------------


@contextmanager
def nothing_left(stage: Stage, *routes: str) -> Iterator[None]:
    """Tasks, descriptors and upstream connections are afterwards what they were before, when there was one of everything.

    `routes`: those that are used in between.
    """
    for route in routes:
        stage.decision(stage.ask(route))
    stage.reset()
    gc.collect()
    before = stage.probe.tasks(), stage.provider.open_connections, descriptors()
    yield
    until(lambda: stage.probe.tasks() <= before[0], "tasks", stage.probe.tasks)
    until(lambda: stage.provider.open_connections <= before[1], "connections", lambda: stage.provider.open_connections)
    until(lambda: descriptors() <= before[2], "descriptors", descriptors)


def descriptors() -> int:
    """How many files and sockets this process (callers, gateway and provider) has open. None to see outside of Linux."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


def until(reached: Callable[[], bool], what: str, now: Callable[[], int]) -> None:
    """Each look is a turn of the gateway's loop or a system call: nothing tells when the last of them has ended."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise AssertionError(f"there are still {now()} {what}")
        time.sleep(0.01)


def next_served(callers: Sequence[Caller], mark: bytes) -> Caller:
    """The first of them whose answer has begun, read up to `mark`."""
    ready, _, _ = select.select(callers, [], [], PATIENCE)
    if not ready:
        raise TimeoutError(f"none of {len(callers)} callers was answered")
    served: Caller = ready[0]
    served.read_until(mark)
    return served
