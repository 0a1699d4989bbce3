"""Decisions to keep, and a sink that does as a test says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from narrows import Decision, Gap
from narrows.decision import AttemptRow
from narrows.ledger.writer import Writer

PATIENCE = 10.0


def decision(n: int, principal: str | None = "ci", **more: Any) -> Decision:
    """Number `n`: it came `n` seconds after 1970."""
    attempt = AttemptRow(1, "eu", "acme", "openai_compatible", "ok", 200, input_tokens=3, cost_micro_usd=7)
    known = {
        "id": f"dec_{n:04}", "ts": float(n), "policy": "a1" * 32, "principal": principal, "tenant": None, "route": "chat",
        "outcome": "answered", "status": 200, "code": "ok", "attempts": (attempt,),
    }  # fmt: skip
    return Decision(**{**known, **more})


@dataclass
class Kept:
    """A sink that keeps what it is given, in the order of the calls, and raises what a test put before a method."""

    calls: list[tuple[str, object]] = field(default_factory=list)
    raises: dict[str, Callable[[Any], BaseException | None]] = field(default_factory=dict)
    answers: dict[str, Callable[[Any], object]] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)

    def open(self) -> Any:
        return self._called("open", None)

    def policy(self, digest: str, text: str) -> Any:
        return self._called("policy", (digest, text))

    def record(self, decision: Decision) -> Any:
        return self._called("record", decision.id)

    def gap(self, gap: Gap) -> Any:
        return self._called("gap", gap)

    def flush(self) -> Any:
        return self._called("flush", None)

    def close(self) -> Any:
        return self._called("close", None)

    def of(self, method: str) -> list[Any]:
        """What that method took, where it did not raise."""
        return [argument for name, argument in list(self.calls) if name == method]

    def _called(self, method: str, argument: object) -> object:
        self.threads.add(threading.get_ident())
        error = self.raises[method](argument) if method in self.raises else None
        if error is not None:
            raise error
        self.calls.append((method, argument))
        return self.answers[method](argument) if method in self.answers else None


@dataclass
class Written:
    """A writer that runs over such a sink, and what it said of failures."""

    kept: Kept
    writer: Writer
    failures: list[tuple[str, bool]]

    def offer(self, *numbers: int, **more: Any) -> None:
        for n in numbers:
            self.writer.queue.offer(decision(n, **more), "the policy")

    def stop(self, secs: float = PATIENCE) -> None:
        self.writer.stop(secs)
        self.writer.wait_ended(secs + 1)


@contextmanager
def writing(
    kept: Kept | None = None, *, limit: int = 100, deadline_secs: float = 5.0, backend: Any = "asyncio"
) -> Iterator[Written]:
    """Run one until the block ends, or the test stops it."""
    kept = kept or Kept()
    failures: list[tuple[str, bool]] = []
    writer = Writer(
        "kept",
        kept,
        kept.record,
        limit,
        lambda error, loud: failures.append((type(error).__name__, loud)),
        deadline_secs,
    )
    writer.start(backend)
    writer.wait_tried(PATIENCE)
    try:
        yield Written(kept, writer, failures)
    finally:
        writer.stop(0)
        writer.wait_ended(PATIENCE)


def until(reached: Callable[[], object], what: str = "") -> None:
    """Another thread's work: looked after until it is done."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.005)
