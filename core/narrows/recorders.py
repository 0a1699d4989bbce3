"""Where a decision goes when its request is left: into the queue of each sink, never into a sink.

Each sink has a queue and a thread of its own, so that a slow one harms neither a request nor another sink. Source: DESIGN
section 10, ADR 0007.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

import anyio
import anyio.to_thread

from narrows.calls import Calls, Impl
from narrows.constraints import Sink
from narrows.decision import Decision
from narrows.errors import ConfigError, NarrowsError, Problem
from narrows.ledger import Memory, Reader
from narrows.ledger.writer import Late, Writer

log = logging.getLogger("narrows.ledger")
OPEN_SECS: Final = 5.0
"""How long the start waits for the sinks to open. One that takes longer goes on opening behind a gateway that serves."""
FLUSH_SECS: Final = 5.0
"""How long the stop waits for what is still to be written."""
GRACE_SECS: Final = 0.5
"""How much longer a sink has to come back from what it was doing when that time was over."""


class Recorders:
    """Takes decisions without waiting, and says where they can be read. One per gateway; it survives a reload.

    Constructing one opens nothing. Without a sink that can be read, the last decisions are kept in memory.
    """

    def __init__(self) -> None:
        self._memory = Memory()
        self._reader: Reader = self._memory
        self._writers: dict[str, Writer] = {}  # by the sink's name; after a stop those that have ended
        self._dropped_before = 0

    def offer(self, decision: Decision, policy: str) -> None:
        """Take it. Never waits, never raises. `policy`: the canonical text of the policy it was made under."""
        if self._reader is self._memory:
            self._memory.add(decision, policy)
        for writer in self._writers.values():
            writer.queue.offer(decision, policy)

    @property
    def dropped(self) -> int:
        """How many decisions a sink did not get, since this gateway was made; a decision counts once for each sink."""
        return self._dropped_before + sum(writer.queue.dropped for writer in self._writers.values())

    @property
    def queued(self) -> int:
        """How many decisions wait to be written, over all sinks."""
        return sum(writer.queue.pending for writer in self._writers.values())

    @property
    def reader(self) -> Reader:
        """Where decisions are read: the first sink that can be, else the memory."""
        return self._reader

    async def start(self, implementations: Iterable[Impl], calls: Calls) -> None:
        """Open the sinks among these implementations of `record`, each in its own thread. Raises ConfigError where one
        cannot be opened; one that is only unavailable for now is tried again while the gateway serves."""
        self._dropped_before = self.dropped
        self._writers, self._reader, impls = {}, self._memory, {}
        opened: dict[str, Writer] = {}
        backend: Final = "asyncio" if anyio.get_cancelled_exc_class().__module__.startswith("asyncio") else "trio"
        readers: list[Reader] = []
        for impl in implementations:
            if isinstance(impl.owner, Sink):
                impls[impl.plugin] = impl
                opened[impl.plugin] = _writer(impl, impl.owner, calls)
                readers += [reader for reader in [_reader(impl, impl.owner)] if reader is not None]
        self._writers = opened
        self._reader = readers[0] if readers else self._memory
        for writer in self._writers.values():
            writer.start(backend)
        await _waited(self._wait_opened)
        problems = [
            Problem("start_failed", _told(writer.refusal), path=impls[name].path)
            for name, writer in self._writers.items()
            if writer.refusal is not None
        ]
        if problems:
            await self.stop()
            raise ConfigError(problems)

    async def stop(self) -> None:
        """Write what there is, within a bound, whatever the sinks do. What could not be written is counted and logged."""
        await _waited(self._stop)

    def _wait_opened(self) -> None:
        end = time.monotonic() + OPEN_SECS
        for writer in self._writers.values():
            writer.wait_tried(max(0.0, end - time.monotonic()))

    def _stop(self) -> None:
        before = {name: writer.queue.dropped for name, writer in self._writers.items()}
        for writer in self._writers.values():
            writer.stop(FLUSH_SECS)
        end = time.monotonic() + FLUSH_SECS + GRACE_SECS
        for name, writer in self._writers.items():
            writer.wait_ended(max(0.0, end - time.monotonic()))
            lost = writer.queue.dropped - before[name]
            if lost:
                log.error("sink %s: %d decisions could not be written before the stop and are lost", name, lost)


def _writer(impl: Impl, sink: Sink, calls: Calls) -> Writer:
    def record(decision: Decision) -> object:
        arguments = {"decision": decision}
        return impl.function(*[arguments[name] for name in impl.arguments])

    def failed(error: BaseException, loud: bool) -> None:
        if not loud:
            calls.errors[impl.plugin, impl.hook] += 1  # only this sink's thread counts under this name
        elif isinstance(error, Exception):
            calls.failed(impl, None if isinstance(error, Late) else error)
        else:
            log.error("sink %s ended its thread with %s; nothing is written any more", impl.path, type(error).__name__)

    return Writer(impl.plugin, sink, record, sink.queue, failed, calls.deadline_secs)


def _reader(impl: Impl, sink: Sink) -> Reader | None:
    """Where that sink is read, if anywhere. Raises ConfigError, before any thread is there, whatever it raises."""
    try:
        return sink.reader()
    except Exception as error:  # noqa: BLE001 - a third party's code; its text may hold a password
        raise ConfigError([Problem("start_failed", _told(error, "asked for its reader"), path=impl.path)]) from None


async def _waited(function: Callable[[], None]) -> None:
    """Call what blocks for a bounded time, in a thread: shielded, and not behind the reads of the ledger."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(function, limiter=anyio.CapacityLimiter(1))


def _told(refusal: Exception, when: str = "opened") -> str:
    # Only texts of our own kind are shown: a foreign exception may quote a password.
    return (
        str(refusal) if isinstance(refusal, NarrowsError) else f"it raises {type(refusal).__name__} when it is {when}"
    )
