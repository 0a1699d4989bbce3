"""A gateway that answers by script, and writes down what it saw, and when and how it was left."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio
import anyio.from_thread
import anyio.lowlevel

from narrows.types import Body, ClientGone, Inbound, Reply

PATIENCE = 5.0
SOON = 1.0
"""Seconds within which a caller's leaving must have reached the gateway."""


@dataclass(slots=True)
class Seen:
    """One request. `end`: how the gateway was left ("normal", "gone", "cancelled", an exception's name), or None yet.
    `chunks`: how many it has given out. `read`: for scripts that read the body themselves."""

    inbound: Inbound
    read: Callable[[], AsyncIterator[bytes]]
    outer: Inbound | None
    principal: str | None
    body: bytes = b""
    chunks: int = 0
    end: str | None = None


Script: TypeAlias = Callable[[Seen], Awaitable[Reply]]


class Gate:
    """Lets a script pass one step at a time. May be released from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._permits = 0
        self._waiting: deque[tuple[int, Any, anyio.Event]] = deque()

    async def wait(self) -> None:
        with self._lock:
            if self._permits:
                self._permits -= 1
                return
            event = anyio.Event()
            self._waiting.append((threading.get_ident(), anyio.lowlevel.current_token(), event))
        await event.wait()

    def release(self) -> None:
        with self._lock:
            if not self._waiting:
                self._permits += 1
                return
            thread, token, event = self._waiting.popleft()
        if thread == threading.get_ident():
            event.set()
        else:
            anyio.from_thread.run_sync(event.set, token=token)


class FakeGateway:
    """Set `script` before each request. Everything else may be read from any thread."""

    def __init__(self, events: list[str] | None = None) -> None:
        self.script: Script = whole()
        self.events: list[str] = [] if events is None else events
        self.reads = True  # a refusal by headers alone does not
        self.fails_to_leave: Exception | None = None
        self.fails_to_start: Exception | None = None
        self.fails_to_stop: Exception | None = None
        self.seen: list[Seen] = []
        self._changed = threading.Condition()
        self._started = False
        self._token: Any = None

    # ---- Answers ----

    @property
    def started(self) -> bool:
        return self._started

    async def __aenter__(self) -> Self:
        if self._started:
            raise RuntimeError("started twice")
        if self.fails_to_start is not None:
            raise self.fails_to_start
        self.events.append("gateway starts")
        self._started = True
        self._token = anyio.lowlevel.current_token()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.events.append("gateway stops")
        self._started = False
        if self.fails_to_stop is not None:
            raise self.fails_to_stop

    @asynccontextmanager
    async def answer(
        self,
        inbound: Inbound,
        read: Callable[[], AsyncIterator[bytes]],
        *,
        outer: Inbound | None = None,
        principal: str | None = None,
    ) -> AsyncIterator[Reply]:
        seen = Seen(inbound, read, outer, principal)
        reply: Reply | None = None
        end = "normal"
        with self._changed:
            self.seen.append(seen)
            self._changed.notify_all()
        try:
            if self.reads and inbound.method not in ("GET", "HEAD"):
                async for chunk in read():
                    seen.body += chunk
            reply = await self.script(seen)
            yield reply
        except BaseException as error:
            end = _name(error)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                if reply is not None:
                    await reply.chunks.aclose()
                await anyio.lowlevel.checkpoint()
            with self._changed:
                seen.end = end
                self._changed.notify_all()
            if self.fails_to_leave is not None:
                raise self.fails_to_leave

    # ---- for tests ----

    def clear(self) -> None:
        with self._changed:
            self.seen.clear()
        self.script = whole()

    @property
    def ends(self) -> list[str | None]:
        return [seen.end for seen in self.seen]

    def wait_seen(self, n: int) -> None:
        """Wait until `n` requests have come."""
        self._wait(lambda: len(self.seen) >= n, PATIENCE, f"{n} requests")

    def wait_left(self, n: int, timeout: float = SOON) -> None:
        """Wait until `n` requests have been left."""
        self._wait(lambda: sum(seen.end is not None for seen in self.seen) >= n, timeout, f"{n} requests to be left")

    def tasks(self) -> int:
        """How many tasks there are in the server's loop."""
        return anyio.from_thread.run_sync(lambda: len(anyio.get_running_tasks()), token=self._token)

    def wait_tasks(self, most: int) -> None:
        """Wait until there are no more than that many tasks in the server's loop. Each look is a turn of that loop:
        nothing tells when the last task of a closed connection has ended. Raises TimeoutError."""
        deadline = time.monotonic() + PATIENCE
        while (count := self.tasks()) > most:
            if time.monotonic() > deadline:
                raise TimeoutError(f"there are still {count} tasks, not {most}")

    def _wait(self, reached: Callable[[], bool], timeout: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(reached, timeout):
                raise TimeoutError(f"waited {timeout:g} s for {what}; saw {self.ends}")


def _name(error: BaseException) -> str:
    if isinstance(error, (anyio.get_cancelled_exc_class(), GeneratorExit)):
        return "cancelled"
    return "gone" if isinstance(error, ClientGone) else type(error).__name__


# ---- scripts -----------------------------------------------------------------------------------------------------

JSON = ("content-type", "application/json")
SSE = ("content-type", "text/event-stream")


def whole(body: bytes = b'{"ok": true}', status: int = 200, *headers: tuple[str, str]) -> Script:
    """A plain answer."""

    async def script(seen: Seen) -> Reply:
        return Reply.whole(status, body, (JSON, *headers))

    return script


def stream(*chunks: bytes, gate: Gate | None = None, then: Callable[[], Awaitable[None]] | None = None) -> Script:
    """These chunks, each after the first behind the gate; then whatever `then` does, before the end."""

    async def script(seen: Seen) -> Reply:
        async def give() -> AsyncIterator[bytes]:
            for chunk in chunks:
                if seen.chunks and gate is not None:
                    await gate.wait()
                seen.chunks += 1
                yield chunk
            if then is not None:
                await then()

        return Reply(200, (SSE,), Body(give()))

    return script


def after(gate: Gate, script: Script) -> Script:
    """The same, but nothing comes before the gate is released."""

    async def held(seen: Seen) -> Reply:
        await gate.wait()
        return await script(seen)

    return held


def failing(error: Exception) -> Script:
    """The gateway itself fails before its answer."""

    async def script(seen: Seen) -> Reply:
        raise error

    return script


async def forever() -> None:
    """What a stalled upstream does."""
    await anyio.sleep_forever()


def fails(error: Exception) -> Callable[[], Awaitable[None]]:
    """What a gateway with a bug does in the middle of a stream."""

    async def then() -> None:
        raise error

    return then
