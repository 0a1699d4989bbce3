"""One request on its way: what the steps have found so far. Private to the pipeline; no plugin ever sees it."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from narrows.attributes import Said
from narrows.calls import Calls
from narrows.candidates import Candidates
from narrows.decision import AttemptRow, Outcome
from narrows.dialects.chat import Call
from narrows.exhaustion import Exhausted
from narrows.holding import Holding
from narrows.ledger import Reads
from narrows.ranking import Signal, Tickets
from narrows.recorders import Recorders
from narrows.request import Request
from narrows.snapshot import Caller, Route, Snapshot
from narrows.stopping import Stopping
from narrows.telemetry import Metrics, RequestSpan, Timings, Tracing
from narrows.types import Chunks, Denial, Inbound, Target
from narrows.upstream import Clients

if TYPE_CHECKING:
    from narrows.exchange import Exchange

ReadBody = Callable[[], AsyncIterator[bytes]]
_REQUEST_ID_CHARS = 128


@dataclass(frozen=True, slots=True)
class Engine:
    """What outlives a snapshot: clients, counts, traces, the record, the stop, and the configuration in force now.

    `open_access`: without keys, is everybody `anonymous` (a loopback server), or nobody (a mount: `auth_unset`)?
    """

    calls: Calls
    clients: Clients
    tracing: Tracing
    metrics: Metrics
    recorders: Recorders
    stopping: Stopping
    current: Callable[[], Snapshot]
    clock: Callable[[], float]
    tickets: Tickets
    open_access: bool = False
    standalone: bool = False
    reads: Reads = field(default_factory=Reads)


class Run:
    """The state of one request. Each step of the pipeline fills in what it found."""

    def __init__(
        self,
        engine: Engine,
        inbound: Inbound,
        read: ReadBody,
        outer: Inbound | None = None,
        speaker: str | None = None,
    ) -> None:
        self.engine, self.inbound, self.read, self.outer, self.speaker = engine, inbound, read, outer, speaker
        self.snapshot: Snapshot = engine.current()
        self.id = decision_id()
        self.ts = time.time()
        self.started = engine.clock()
        asked = inbound.header("x-request-id")
        self.request_id = printable(asked)[:_REQUEST_ID_CHARS] if asked is not None else None
        self.headers: tuple[tuple[str, str], ...] = (*outer.headers, *inbound.headers) if outer else inbound.headers
        self.span: RequestSpan = engine.tracing.request(self.headers, engine.standalone)

        self.caller: Caller | None = None
        self.call: Call | None = None
        self.route: Route | None = None
        self.said: Said = {}
        self.assumed: Mapping[str, frozenset[str]] = {}
        self.request: Request | None = None
        self.granted = 0
        self.candidates: Candidates | None = None
        self.hard_cuts = 0  # how many of the candidates' cuts are rules'; those behind them are money's
        self.holding = Holding(())
        self.order: tuple[int, ...] | None = None  # until it is ranked
        self.rank_reason = ""
        self.rank_signals: Mapping[str, Signal] = {}

        self.exchange: Exchange | None = None
        self.upstream: Chunks | None = None
        self.recorded = True
        self.dry = False  # explain: as if, and nothing is held
        self.left = False

        self.denial: Denial | None = None
        self.exhausted: Exhausted | None = None
        self.attempts: list[AttemptRow] = []
        self.target: Target | None = None
        self.outcome: Outcome = "client_disconnected"
        self.status = 0
        self.failure_class: str | None = None
        self.code = "ok"

        # Marks of `engine.clock`, for the metrics. None: it did not come to that.
        self.reading_secs = 0.0
        self.judged_at: float | None = None
        self.answered_at: float | None = None
        self.ended_at: float | None = None

    def elapsed_ms(self) -> int:
        """Milliseconds since the request arrived."""
        return round((self.engine.clock() - self.started) * 1000)

    def timings(self) -> Timings:
        """How long the parts of this request took, up to its end or to now. Where a plugin failed on the way, the
        refusal is the end of judging too."""
        ended = self.engine.clock() if self.ended_at is None else self.ended_at
        judged = ended if self.judged_at is None and self.denial is not None else self.judged_at
        return Timings(
            policy=None if judged is None else judged - self.started - self.reading_secs,
            first_chunk=None if self.answered_at is None else self.answered_at - self.started,
            total=ended - self.started,
        )

    async def close_upstream(self) -> None:
        """Close what is still open upstream, and write the row of a call that nobody waits for any more."""
        try:
            await self.close_upstream_quietly()
        finally:
            if self.exchange is not None:
                self.exchange.abandon()

    async def close_upstream_quietly(self) -> None:
        """Close it, and leave the row to who knows more."""
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            await upstream.aclose()

    def eligible(self) -> Sequence[Target]:
        """The targets left, in the order they would be tried: the ranker's prefix, then the rest."""
        if self.candidates is None or self.route is None:
            return ()
        first = [self.route.pool.targets[place] for place in self.order or ()]
        named = set(map(id, first))
        return [*first, *(target for target in self.candidates if id(target) not in named)]


def decision_id() -> str:
    """A new id: sorts by time, cannot be guessed."""
    return f"dec_{time.time_ns() // 1_000_000:011x}{secrets.token_hex(8)}"


def printable(text: str) -> str:
    """A client's text as it may be logged or echoed: printable ASCII only."""
    return "".join(char for char in text if " " <= char <= "~")
