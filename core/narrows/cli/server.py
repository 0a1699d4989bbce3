"""uvicorn around a gateway, with the signals of a service: TERM and INT drain, HUP never kills.

Readiness turns with the first signal, and the socket stays open until nothing is in flight: who asks is told. Then the
gateway stops (its plugins, its clients, its record), then the process.
"""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from narrows.cli.draining import Draining
from narrows.cli.output import INTERRUPTED, OK, USAGE
from narrows.server import Application

if TYPE_CHECKING:
    from narrows.gateway import Gateway

_HUP: Final = getattr(signal, "SIGHUP", None)
_CLOSE: Final = (b"connection", b"close")
_LAST_SECS: Final = 2
"""Seconds that uvicorn waits, behind our own draining, for requests that came after the signal: refusals, a scrape."""

log = logging.getLogger("narrows.serve")


class Server(uvicorn.Server):
    """One run. `ready` is called once the gateway has started and answers."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, ready: Callable[[], None]) -> None:
        super().__init__(config)
        grace = gateway.loaded.settings.server.shutdown_grace_secs
        self.draining = Draining(gateway, grace, lambda: self.server_state.connections, time.monotonic)
        self.interrupted = False
        self._ready = ready
        self._hung_up = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the gateway, accept connections, say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second. What a signal asked for is done here: a handler may have interrupted anything."""
        if self._hung_up:
            self._hung_up = False
            log.warning("HUP: reload is not built yet. Still serving the same configuration; restart to change it.")
        ends = await super().on_tick(counter)
        if not self.draining.began:
            return ends
        self._close_after_answers()  # uvicorn makes these headers anew each second
        return self.draining.over()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for the server's life. uvicorn's own raises them again at the end, and the exit code of a
        clean stop would be that of a killed process."""
        handlers = {signal.SIGINT: self.handle_exit, signal.SIGTERM: self.handle_exit}
        if _HUP is not None:
            handlers[_HUP] = self._hang_up
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; a second signal does not wait for the grace, a third for nothing."""
        self.interrupted = self.interrupted or sig == signal.SIGINT
        self.should_exit = True
        self.force_exit = not self.draining.signal()
        self._close_after_answers()

    def _close_after_answers(self) -> None:
        """A caller that is told to come back should not come to this process. Only binds a name: a signal's handler may
        call it."""
        headers = self.server_state.default_headers
        if _CLOSE not in headers:
            self.server_state.default_headers = [*headers, _CLOSE]

    def _hang_up(self, sig: int, frame: FrameType | None) -> None:
        self._hung_up = True


def _protocol() -> Any:
    """uvicorn's own choice, where its fast protocol is not installed: the plain one needs no closing."""
    if find_spec("httptools") is None:
        return "auto"
    from narrows.cli.protocol import BoundedHead

    return BoundedHead


def run(gateway: Gateway, sockets: Sequence[socket.socket], ready: Callable[[], None]) -> int:
    """Serve until a signal, and return the exit code: 0 after TERM, 130 after INT, 2 where the gateway cannot start."""
    config = uvicorn.Config(
        Application(gateway),
        http=_protocol(),
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whoever connects is the peer, whatever it says of itself
        timeout_graceful_shutdown=_LAST_SECS,
    )
    server = Server(config, gateway, ready)
    try:
        server.run(list(sockets))
    except SystemExit:  # uvicorn's way to say that the lifespan failed; it has logged why
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return INTERRUPTED if server.interrupted else OK
