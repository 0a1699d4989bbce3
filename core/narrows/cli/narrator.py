"""The demo's `record`: one line for each decision, with the calls that the providers themselves have counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from pydantic import PrivateAttr

from narrows.cli.output import say
from narrows.constraints import Block
from narrows.decision import Decision
from narrows.hookspecs import hookimpl
from narrows.snapshot import Snapshot


@runtime_checkable
class Counting(Protocol):
    """A provider that counts its calls, as `echo` does."""

    def count(self, model: str | None = None) -> int:
        """How many there were, of all models or of one."""


class Narrator(Block):
    """Tells each decision on stdout. A free plugin, not a sink: it is asked as soon as the request is over, so the calls
    that it counts are those up to there."""

    _snapshot: Snapshot | None = PrivateAttr(None)

    def watch(self, snapshot: Snapshot) -> None:
        """Whose targets it tells about."""
        self._snapshot = snapshot

    @hookimpl
    def record(self, decision: Decision) -> None:
        """One line."""
        say("; ".join(self._told(decision)))

    def _told(self, decision: Decision) -> Iterator[str]:
        yield f"{decision.route or '(no route)'}: {decision.status} {outcome(decision)}"
        if decision.excluded:
            yield f"ruled out {', '.join(ruled_out(decision))}"
        calls = ", ".join(f"{name} {count}" for name, count in self._calls(decision))
        yield f"calls so far: {calls}" if calls else "no call"

    def _calls(self, decision: Decision) -> Iterator[tuple[str, int]]:
        if self._snapshot is None or decision.route is None:
            return
        for target in self._snapshot.routes[decision.route].pool.targets:
            block = self._snapshot.vendors[target.provider].block
            if isinstance(block, Counting):
                yield target.name, block.count(target.model)


def outcome(decision: Decision) -> str:
    """Who answered, after whom; or what ended it."""
    failed = [f"{row.target} ({row.failure_class})" for row in decision.attempts if row.failure_class != "ok"]
    if decision.outcome == "answered":
        after = f" after {', '.join(failed)}" if failed else ""
        return f"answered by {decision.attempts[-1].target}{after}"
    if failed:
        return f"failed at {', '.join(failed)}"
    return f"{decision.outcome} ({decision.code}), nobody was asked" if not decision.attempts else decision.outcome


def ruled_out(decision: Decision) -> Iterator[str]:
    """The targets that rules removed, those with the same reasons together."""
    whys: dict[str, list[str]] = {}
    for row in decision.excluded:
        whys.setdefault(row.target, []).append(f"{row.why} [{row.constraint}]")
    targets: dict[str, list[str]] = {}
    for target, reasons in whys.items():
        targets.setdefault(", ".join(reasons), []).append(target)
    return (f"{', '.join(names)} ({reasons})" for reasons, names in targets.items())
