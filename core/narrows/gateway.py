"""The gateway: one configuration in force, and what outlives it. Constructing one opens nothing (it is fork-safe)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from narrows import answering
from narrows.calls import Calls
from narrows.compiling import compiled
from narrows.config import Loaded, load, loads
from narrows.constraints import Block, Services
from narrows.errors import ConfigError, NarrowsError, PluginError, Problem
from narrows.ranking import Tickets
from narrows.recorders import Recorders
from narrows.recording import leave
from narrows.registry import Registry
from narrows.run import Engine, Run
from narrows.scraping import known
from narrows.snapshot import Snapshot
from narrows.stopping import Stopping
from narrows.telemetry import Metrics, Tracing
from narrows.types import Inbound, Reply
from narrows.upstream import Clients

log = logging.getLogger("narrows.telemetry")

CUT_SECS = 1.0
"""Seconds in which callers may take the end of what was cut."""


class Gateway:
    """A gateway over one snapshot. Enter it (`async with gateway`), or let `attach`, the middleware or the server do so.

    `open_access`: without keys, everybody is `anonymous`; only a server on loopback says so by itself. `standalone`: no
    host is around it, so its spans are servers'. `tracer_provider`: an OpenTelemetry `TracerProvider`, or None for the
    process-wide one; untyped, so that only `telemetry` knows OpenTelemetry.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        open_access: bool = False,
        standalone: bool = False,
        tracer_provider: Any = None,
    ) -> None:
        self.loaded = loaded
        self.snapshot: Snapshot = compiled(loaded)
        hooks = loaded.settings.hooks
        tracing = Tracing(tracer_provider, loaded.settings.telemetry.detail)
        self.engine = Engine(
            calls=Calls(hooks.deadline_secs, hooks.slow_secs, tracing.watch),
            clients=Clients(wrap=tracing.wrap),
            tracing=tracing,
            metrics=Metrics(known(self.snapshot)),
            recorders=Recorders(),
            stopping=Stopping(),
            current=lambda: self.snapshot,
            clock=time.monotonic,
            tickets=Tickets(),
            open_access=open_access,
            standalone=standalone,
        )
        self._started = False

    @classmethod
    def from_file(
        cls,
        *paths: str | Path,
        kinds: Mapping[str, type[Block]] | None = None,
        open_access: bool = False,
        standalone: bool = False,
        tracer_provider: Any = None,
    ) -> Self:
        """A gateway from one or several TOML files; a later one may add, never change. `kinds`: the host's own
        ("constraints.mine": Mine). Raises ConfigError with every problem at once."""
        loaded = load(paths, Registry(kinds), os.environ)
        return cls(loaded, open_access=open_access, standalone=standalone, tracer_provider=tracer_provider)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        kinds: Mapping[str, type[Block]] | None = None,
        open_access: bool = False,
        standalone: bool = False,
        tracer_provider: Any = None,
    ) -> Self:
        """The same from a string."""
        loaded = loads(text, Registry(kinds), os.environ)
        return cls(loaded, open_access=open_access, standalone=standalone, tracer_provider=tracer_provider)

    @property
    def started(self) -> bool:
        """Has its lifespan begun? Until then it answers 503 `not_started`."""
        return self._started

    @property
    def policy(self) -> str:
        """The digest of the configuration in force: 64 hex digits."""
        return self.snapshot.policy

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What `check` would warn of."""
        return self.snapshot.warnings

    @property
    def in_flight(self) -> int:
        """How many requests there are that came before `drain` and have not ended."""
        return len(self.engine.stopping.in_flight)

    def drain(self) -> None:
        """Take no new request for a model: it is refused with 503 `stopping`, and so is readiness. What is in flight goes
        on. Leaving the gateway does this too. May be called from a signal's handler."""
        self.engine.stopping.begin()

    def cut(self) -> None:
        """End what is in flight: a stream by an error event, what has no answer yet by 503 `stopping`. Call it in the
        gateway's own event loop. Leaving the gateway does this too."""
        self.engine.stopping.cut()

    def answer(
        self,
        inbound: Inbound,
        read: Callable[[], AsyncIterator[bytes]],
        *,
        outer: Inbound | None = None,
        principal: str | None = None,
    ) -> AbstractAsyncContextManager[Reply]:
        """Answer one request, whatever its path (relative to the mount). Entering does everything up to the first byte;
        leaving, in any way, settles and records. `outer`: the host's request around this one. `principal`: a key's
        name, for in-process use outside any request."""
        return answering.answer(Run(self.engine, inbound, read, outer, principal), lambda: self._started)

    async def __aenter__(self) -> Self:
        if self._started:
            raise RuntimeError("this gateway is started already; enter it once")
        if self.loaded.settings.telemetry.exporter != "none" and not self.engine.standalone:
            log.warning(
                "[telemetry] exporter is for `narrows serve`; here spans go where the host's OpenTelemetry sends them"
            )
        origins = (vendor.origin for vendor in self.snapshot.vendors.values())
        self.engine.clients.warm(origin for origin in origins if origin is not None)
        await self._life_cycle("start")
        try:
            await self.engine.recorders.start(self.snapshot.implementations.of("record"), self.engine.calls)
        except ConfigError:
            await self._life_cycle("stop")
            raise
        self._started = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                await self._end_service()
            finally:
                await self.engine.recorders.stop()  # before the plugins stop: a sink may be one of them
            await self._life_cycle("stop")
        finally:
            self._started = False
            used = self.engine.clients
            self.engine = replace(self.engine, clients=Clients(wrap=self.engine.tracing.wrap), stopping=Stopping())
            await used.aclose()  # new ones stand ready: a host may start again (its tests do, once for each client)

    async def _end_service(self) -> None:
        """Nothing new, and an end to what is in flight. Who neither reads on nor closes is left by us."""
        stopping = self.engine.stopping
        stopping.cut()
        with anyio.move_on_after(CUT_SECS):
            await stopping.empty()
        for run in stopping.in_flight:
            await leave(run)

    async def _life_cycle(self, hook: str) -> None:
        """Ask every plugin; a start that fails refuses the start, a stop that fails lets the others stop."""
        implementations = self.snapshot.implementations.of(hook)
        services = Services(clock=self.engine.clock)
        for impl in implementations if hook == "start" else reversed(implementations):
            try:
                await self.engine.calls(impl, services=services)
            except PluginError as failure:
                if hook == "start":
                    # Only texts of our own kind are shown: a foreign exception may quote a key.
                    told = failure.__cause__ if isinstance(failure.__cause__, NarrowsError) else failure
                    problem = Problem("start_failed", str(told), path=impl.path)
                    raise ConfigError([problem]) from failure
