"""The thread of one sink: it takes batches from a queue and has the sink write them. The request path never meets it.

A sink that raises is asked again, with a back-off, for the same batch. The queue fills meanwhile, then drops. Source:
DESIGN section 10, ADR 0007.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, Literal, Protocol

import anyio

from narrows.decision import Decision
from narrows.ledger.queue import Entry, Queue
from narrows.ledger.reading import Gap, LedgerUnavailable
from narrows.types import Maybe

log = logging.getLogger("narrows.ledger")
BATCH: Final = 2_000
BATCH_SECS: Final = 0.1
"""How long a batch is gathered. A row is readable this much, and the time of one commit, after its answer."""
FIRST_RETRY_SECS: Final = 0.1
LONGEST_RETRY_SECS: Final = 1.0
TOLD_EVERY_SECS: Final = 60.0
"""A sink that goes on failing is counted each time, and logged once a minute."""
STRIKES: Final = 3
"""How often one decision may fail while others are kept. It is the decision then, not the store, and it is given up."""
PACE: Final = 8
PACE_SECS: Final = 0.00005
"""A breath after so many decisions: turning thousands into rows at once would keep the interpreter from the event loop,
and after each one the switching of threads would cost more than the rows."""


class Keeps(Protocol):
    """What is written to, as `Sink` has it. `record` is given apart: a hook may take fewer arguments."""

    def open(self) -> Maybe[None]: ...
    def policy(self, digest: str, text: str) -> Maybe[None]: ...
    def gap(self, gap: Gap) -> Maybe[None]: ...
    def flush(self) -> Maybe[None]: ...
    def close(self) -> Maybe[None]: ...


class Late(Exception):
    """An asynchronous method did not answer within the deadline."""


Failed = Callable[[BaseException, bool], None]
"""What is told of each failure: the exception, and whether it is worth a line in the log."""


class Writer:
    """One sink's thread and queue. Constructing one starts nothing."""

    def __init__(
        self,
        name: str,
        sink: Keeps,
        record: Callable[[Decision], object],
        limit: int,
        failed: Failed,
        deadline_secs: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name`: for the log. `record`: the sink's hook. `limit`: of the queue. `deadline_secs`: of each asynchronous method."""
        self.name = name
        self.queue = Queue(limit, clock)
        self.refusal: Exception | None = None
        """Why the sink could not be opened, for good. What is only locked or full for now is tried again instead."""
        self._sink, self._record, self._failed = sink, record, failed
        self._deadline_secs, self._clock = deadline_secs, clock
        self._tried = threading.Event()  # opening was tried
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._end_by = 0.0
        self._open = False
        self._batch: deque[Entry] = deque()  # taken, not recorded
        self._recorded = 0  # by the sink, which has yet to flush them
        self._gaps: deque[Gap] = deque()
        self._unflushed = False
        self._kept = 0  # by the last try
        self._policies: set[str] = set()
        self._strikes: Counter[str] = Counter()
        self._told: float | None = None  # when a failure was last logged, None where the last try went well

    # ---- from outside ------------------------------------------------------------------------------------------

    def start(self, backend: Literal["asyncio", "trio"]) -> None:
        """Start the thread, a daemon: a sink that hangs cannot keep the process alive. `backend`: what asynchronous
        methods run on."""
        run = threading.Thread(target=self._run, args=(backend,), name=f"narrows-{self.name}", daemon=True)
        run.start()

    def wait_tried(self, secs: float) -> None:
        """Wait until the sink was opened, refused or found unavailable for now; at most so long."""
        self._tried.wait(secs)

    def stop(self, secs: float) -> None:
        """Take nothing more in, and write what there is for at most so long. Does not wait; `wait_ended` does."""
        self._end_by = self._clock() + secs
        self._stopping.set()
        self.queue.close()

    def wait_ended(self, secs: float) -> None:
        """Wait for the end, at most so long. What a sink that does not come back has in hand counts as dropped."""
        if not self._ended.wait(secs):
            self.queue.abandon()

    # ---- the thread --------------------------------------------------------------------------------------------

    def _run(self, backend: Literal["asyncio", "trio"]) -> None:
        try:
            anyio.run(self._life, backend=backend)
        except BaseException as error:  # noqa: BLE001 - SystemExit and its kin; a traceback on stderr may hold content
            self._failed(error, True)
        finally:
            self.queue.abandon()  # what could not be written counts as dropped
            self._tried.set()
            self._ended.set()

    async def _life(self) -> None:
        """Waiting is done in place: it is this thread's own loop, and it has nothing else to do."""
        delay = FIRST_RETRY_SECS
        while not (self._stopping.is_set() and self._clock() >= self._end_by):
            stopping = self._stopping.is_set()
            self._gaps.extend(self.queue.gaps(final=stopping))
            new = self.queue.take(BATCH - len(self._batch))
            self._batch.extendleft(reversed(new))  # what failed once waits behind what is new
            if self._open and not (self._batch or self._gaps or self._unflushed):
                if stopping:
                    break
                self.queue.wait()
                self._stopping.wait(BATCH_SECS)
                continue
            try:
                await self._write()
            except Exception as error:  # noqa: BLE001 - a third party's code; whatever it raises, it is asked again
                if not self._open and not self._tried.is_set() and not isinstance(error, LedgerUnavailable):
                    self.refusal = error  # told by who starts it
                    break
                self._fail(error)
                self._tried.set()
                if self._kept:
                    delay = FIRST_RETRY_SECS  # the store is there
                self._pause(delay)
                delay = min(delay * 2, LONGEST_RETRY_SECS)
            else:
                delay, self._told = FIRST_RETRY_SECS, None
        await self._end()

    async def _write(self) -> None:
        """Write what is in hand, and say so only when it is flushed. Raises whatever the sink raises.

        While a sink cannot flush, it goes on recording: what waits should be rows, which are few objects, and not
        decisions, which are many. Thousands of these would make each collection of garbage a pause for everybody.
        """
        self._kept = 0
        if not self._open:
            await self._answer(self._sink.open())
            self._open = True
            self._tried.set()
        while self._gaps:
            await self._answer(self._sink.gap(self._gaps[0]))
            self._gaps.popleft()
            self._unflushed = True
        failure = await self._record_batch()
        if self._unflushed:
            await self._answer(self._sink.flush())
            self._unflushed = False
            self.queue.done(self._recorded)
            self._kept, self._recorded = self._recorded, 0
        if failure is not None:
            raise failure

    async def _record_batch(self) -> Exception | None:
        """Have each of the batch recorded. One that fails waits behind the others. The last failure, or None."""
        refused: list[Entry] = []
        kept, failure = 0, None
        while self._batch:
            entry = self._batch.popleft()
            try:
                await self._keep(entry)
            except Exception as error:  # noqa: BLE001 - as above
                failure = error
                refused.append(entry)
                if not kept and len(refused) > 1:
                    break  # it is not one decision that fails, it is the store
            else:
                kept += 1
                self._recorded += 1
                self._unflushed = True
                self._strikes.pop(entry.decision.id, None)
                if kept % PACE == 0:
                    self._breathe()
        if kept:
            self._strikes.update(entry.decision.id for entry in refused)
            hopeless = [entry for entry in refused if self._strikes[entry.decision.id] >= STRIKES]
            self.queue.lost(hopeless, "write_failed")
            for entry in hopeless:
                del self._strikes[entry.decision.id]
                log.error(
                    "sink %s fails for decision %s while it keeps others; gave it up", self.name, entry.decision.id
                )
            refused = [entry for entry in refused if entry not in hopeless]
        self._batch.extend(refused)
        return failure

    async def _keep(self, entry: Entry) -> None:
        digest = entry.decision.policy
        if digest not in self._policies:
            await self._answer(self._sink.policy(digest, entry.policy))
            self._policies.add(digest)
        await self._answer(self._record(entry.decision))

    async def _answer(self, answer: object) -> None:
        """Await what a method answered, where it must be. Raises Late, also over an answer that came after the end."""
        if isawaitable(answer):
            with anyio.move_on_after(self._deadline_secs) as scope:
                await _awaitable(answer)
            if scope.cancel_called:
                raise Late

    def _fail(self, error: Exception) -> None:
        now = self._clock()
        loud = self._told is None or now - self._told >= TOLD_EVERY_SECS
        if loud:
            self._told = now
        self._failed(error, loud)

    def _breathe(self) -> None:
        if not self._stopping.is_set():
            time.sleep(PACE_SECS)

    def _pause(self, secs: float) -> None:
        if self._stopping.is_set():  # hurry, but do not spin
            self._ended.wait(min(secs, max(0.0, self._end_by - self._clock())))
        else:
            self._stopping.wait(secs)

    async def _end(self) -> None:
        if self._open:
            try:
                await self._answer(self._sink.close())
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(error)


async def _awaitable(answer: Awaitable[object]) -> None:
    await answer
