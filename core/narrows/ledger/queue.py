"""The bounded queue between the request path and one sink. Offering to it takes microseconds and never waits for a sink.

`limit` bounds everything that is not written yet, what the sink has in hand included. What does not fit is dropped,
counted, and told of in a gap once there is room. Source: DESIGN section 10, ADR 0007.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from narrows.decision import Decision
from narrows.ledger.reading import Gap

BURST: Final = 1_000
PER_SEC: Final = 2.0
"""What requests of nobody (no principal: a 401) may take: so many at once, then so many a second."""
QUIET_SECS: Final = 5.0
LONGEST_SECS: Final = 60.0
"""A flood of strangers is told of when it has been quiet for so long, and once a minute while it lasts."""


class Entry(NamedTuple):
    """One decision on its way, and the canonical text of the policy it was made under."""

    decision: Decision
    policy: str


class Queue:
    """Thread-safe: offered to by any thread, taken from by the sink's. `clock`: monotonic seconds."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.dropped = 0
        self._clock = clock
        self._entries: deque[Entry] = deque()
        self._out = 0  # taken, and neither written nor lost yet
        self._lock = threading.Lock()  # held for the moves below only, never while anything waits
        self._something = threading.Event()
        self._closed = self._abandoned = False
        self._missing: dict[str, _Missing] = {}
        self._strangers = _Share(min(BURST, max(1, limit // 10)), PER_SEC, clock)

    @property
    def pending(self) -> int:
        """How many decisions are not written yet."""
        return len(self._entries) + self._out

    # ---- the request path --------------------------------------------------------------------------------------

    def offer(self, decision: Decision, policy: str) -> None:
        """Take it, or drop it and count that. Never waits, never raises."""
        with self._lock:
            if self._closed:
                self.dropped += 1
            elif self.pending >= self.limit:
                self._miss(decision, "queue_full")
            elif decision.principal is None and not self._admits_stranger():
                self._miss(decision, "unauthenticated")
            else:
                self._entries.append(Entry(decision, policy))
                if not self._something.is_set():
                    self._something.set()

    def close(self) -> None:
        """Nothing more is taken in. Who waits is woken."""
        with self._lock:
            self._closed = True
            self._something.set()

    # ---- the sink's thread -------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Until there is something to do: an entry, a gap that may be ripe, or the end."""
        self._something.wait(1.0 if self._missing else None)

    def take(self, most: int) -> list[Entry]:
        """The oldest entries. They count as pending until they are `done` or `lost`."""
        with self._lock:
            taken = [self._entries.popleft() for _ in range(min(most, len(self._entries)))]
            self._out += len(taken)
            if not self._entries and not self._closed:
                self._something.clear()
            return taken

    def done(self, written: int) -> None:
        """So many of those that were taken are written."""
        with self._lock:
            if not self._abandoned:
                self._out -= written

    def lost(self, entries: Sequence[Entry], reason: str) -> None:
        """Those that were taken and will never be written."""
        with self._lock:
            if not self._abandoned:
                self._out -= len(entries)
                for entry in entries:
                    self._miss(entry.decision, reason)

    def gaps(self, *, final: bool = False) -> list[Gap]:
        """What is missing and may be told of now; `final`: all of it. Each is given once."""
        with self._lock:
            ripe = [reason for reason, missing in self._missing.items() if final or self._ripe(reason, missing)]
            return [self._missing.pop(reason).gap(reason) for reason in ripe]

    def abandon(self) -> None:
        """Give up on all that is pending, whatever its sink still does with it: that counts as dropped."""
        with self._lock:
            self.dropped += self.pending
            self._entries.clear()
            self._out = 0
            self._closed = self._abandoned = True

    # ---- inside the lock ---------------------------------------------------------------------------------------

    def _admits_stranger(self) -> bool:
        # Half of the queue is the callers' alone, also where a sink stands still for hours.
        return self.pending <= self.limit // 2 and self._strangers.admits()

    def _miss(self, decision: Decision, reason: str) -> None:
        self.dropped += 1
        missing = self._missing.get(reason)
        if missing is None:
            self._missing[reason] = _Missing(decision.ts, self._clock())
            self._something.set()  # who sleeps without end has to look after this one
        else:
            missing.add(decision.ts, self._clock())

    def _ripe(self, reason: str, missing: _Missing) -> bool:
        if reason == "queue_full":  # one gap for one jam, not one for each batch of it
            return self.pending <= self.limit // 2
        if reason == "unauthenticated":
            now = self._clock()
            return now - missing.last >= QUIET_SECS or now - missing.first >= LONGEST_SECS
        return True


class _Missing:
    """A stretch of decisions that were dropped for one reason. `first`, `last`: by the clock, when that happened."""

    __slots__ = ("count", "first", "last", "since", "until")

    def __init__(self, ts: float, now: float) -> None:
        self.since = self.until = ts
        self.first = self.last = now
        self.count = 1

    def add(self, ts: float, now: float) -> None:
        self.since, self.until, self.last = min(self.since, ts), max(self.until, ts), now
        self.count += 1

    def gap(self, reason: str) -> Gap:
        return Gap(self.since, self.until, self.count, reason)


class _Share:
    """So many at once, then so many a second."""

    def __init__(self, burst: int, per_sec: float, clock: Callable[[], float]) -> None:
        self._burst, self._per_sec, self._clock = float(burst), per_sec, clock
        self._left, self._at = self._burst, clock()

    def admits(self) -> bool:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_sec)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
