"""How often the generic classifier is right, on error bodies as providers send them.

    python -m benchmarks.classify [--misses]

Reads tests/cases/provider-errors.jsonl. `accepted`: the answer is one that the case accepts (its `accepts` where it is
ambiguous, else its `expected`). `disposition`: move or stop is right. The *gate* is the rows with phase `response`, evidence
other than `recalled` and a provider whose dialect is OpenAI's; the other rows are printed apart.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows.types import Classified, Failure, FailureClass
from narrows_plugins.classify_error.generic import classify

CASES = Path(__file__).parent.parent / "tests" / "cases" / "provider-errors.jsonl"
OWN_DIALECT = frozenset({"anthropic", "gemini", "bedrock"})
"""Providers whose own kinds come later, with rules of their own."""

MOVES = frozenset({FailureClass.TIMEOUT, FailureClass.RATE_LIMITED, FailureClass.SERVER_ERROR})
Classify = Callable[[Failure], Classified | None]


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded failure and what it is. `accepts` is never empty."""

    id: str
    provider: str
    evidence: str
    failure: Failure
    expected: FailureClass
    accepts: frozenset[FailureClass]
    ambiguous: bool
    endpoint_dead: bool

    @property
    def gated(self) -> bool:
        """Does the 90 % gate count this row?"""
        return self.failure.phase == "response" and self.evidence != "recalled" and self.provider not in OWN_DIALECT


def to_failure(row: dict[str, Any]) -> Failure:
    """The row as the pipeline would hand it to the hook."""
    body = row["body"]
    raw = b"" if body is None else (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()
    return Failure(
        kind=row["provider"],
        phase=row["phase"],
        status=row["status"],
        headers=row["headers"],
        body=raw,
        transport=row["transport"],
    )


def load(path: Path = CASES) -> tuple[Case, ...]:
    """Every case of the file, in its order."""
    return tuple(
        Case(
            id=row["id"],
            provider=row["provider"],
            evidence=row["evidence"],
            failure=to_failure(row),
            expected=FailureClass(row["expected"]),
            accepts=frozenset(FailureClass(name) for name in row.get("accepts", [row["expected"]])),
            ambiguous=row["ambiguous"],
            endpoint_dead=row["endpoint_dead"],
        )
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    )


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over one set of cases. `wrongly_moved` and `wrongly_stopped` count only where the case leaves no choice."""

    rows: int
    accepted: int
    exact: int
    disposition: int
    wrongly_moved: tuple[str, ...]
    wrongly_stopped: tuple[str, ...]
    endpoint_dead: int
    misses: tuple[str, ...]


def judge(cases: Iterable[Case], classifier: Classify) -> Score:
    """Scores one classifier. No answer counts as wrong, and as a move where the case stops: nothing held it."""
    rows = accepted = exact = disposition = dead = 0
    moved: list[str] = []
    stopped: list[str] = []
    misses: list[str] = []
    for case in cases:
        found = classifier(case.failure)
        answer = None if found is None else found.failure_class
        rows += 1
        exact += answer == case.expected
        dead += found is not None and found.endpoint_dead == case.endpoint_dead
        if answer in case.accepts:
            accepted += 1
        else:
            misses.append(f"{case.id}: {case.expected} -> {answer}")
        moves = answer is None or answer in MOVES
        allowed = {accepted_class in MOVES for accepted_class in case.accepts}
        if moves in allowed:
            disposition += 1
        elif moves:
            moved.append(case.id)
        else:
            stopped.append(case.id)
    return Score(rows, accepted, exact, disposition, tuple(moved), tuple(stopped), dead, tuple(misses))


def by_plain_status(failure: Failure) -> Classified | None:
    """What a status alone says: the floor that the classifier is compared with."""
    if failure.transport is not None:
        timed_out = failure.transport.endswith("timeout")
        return Classified(FailureClass.TIMEOUT if timed_out else FailureClass.SERVER_ERROR)
    match failure.status:
        case None | 200:
            return None
        case 408 | 504:
            return Classified(FailureClass.TIMEOUT)
        case 429:
            return Classified(FailureClass.RATE_LIMITED)
        case 401 | 403:
            return Classified(FailureClass.AUTHENTICATION)
        case status if status >= 500:
            return Classified(FailureClass.SERVER_ERROR)
        case _:
            return Classified(FailureClass.INVALID_REQUEST)


def _percent(part: int, whole: int) -> str:
    return f"{part:4d}/{whole:<4d} {100 * part / whole:5.1f} %" if whole else "   0/0"


def _line(name: str, score: Score) -> str:
    return (
        f"{name:<44}{_percent(score.accepted, score.rows)}  exact {_percent(score.exact, score.rows)}  "
        f"disposition {_percent(score.disposition, score.rows)}  wrongly moved {len(score.wrongly_moved):2d}  "
        f"wrongly stopped {len(score.wrongly_stopped):2d}  endpoint_dead {_percent(score.endpoint_dead, score.rows)}"
    )


def microseconds(cases: Sequence[Case], rounds: int = 20) -> float:
    """The mean processor time of one classification."""
    started = time.process_time()
    for _ in range(rounds):
        for case in cases:
            classify(case.failure)
    return (time.process_time() - started) / (rounds * len(cases)) * 1e6


def report(cases: Sequence[Case]) -> str:
    """The figures as text."""
    gate = [case for case in cases if case.gated]
    rest = [case for case in cases if not case.gated]
    sets = (
        ("GATE (response, OpenAI's dialect)", gate),
        ("gate, unambiguous", [case for case in gate if not case.ambiguous]),
        (
            "response, own dialect (anthropic, gemini, …)",
            [c for c in rest if c.failure.phase == "response" and c.provider in OWN_DIALECT],
        ),
        ("response, recalled", [c for c in rest if c.failure.phase == "response" and c.provider not in OWN_DIALECT]),
        ("stream events", [case for case in rest if case.failure.phase == "stream_event"]),
        ("finishes", [case for case in rest if case.failure.phase == "finish"]),
        ("all rows", list(cases)),
    )
    lines = ["accepted: the answer is one that the case accepts", ""]
    for name, chosen in sets:
        lines.append(_line(name, judge(chosen, classify)))
        lines.append(_line("  by plain status", judge(chosen, by_plain_status)))
    lines += ["", "gate, per expected class: accepted (plain status)"]
    for failure_class in FailureClass:
        chosen = [case for case in gate if case.expected is failure_class]
        ours, plain = judge(chosen, classify), judge(chosen, by_plain_status)
        lines.append(
            f"  {failure_class:<18}{_percent(ours.accepted, ours.rows)}   ({_percent(plain.accepted, plain.rows)})"
        )
    clear = [case for case in gate if not case.ambiguous]
    for failure_class in (FailureClass.CONTENT_POLICY, FailureClass.AUTHENTICATION):
        moved = judge([case for case in clear if case.expected is failure_class], classify).wrongly_moved
        lines.append(f"gate, unambiguous {failure_class} moved: {len(moved)} {' '.join(moved)}")
    lines.append(f"mean time of one classification: {microseconds(gate):.1f} µs")
    return "\n".join(lines)


if __name__ == "__main__":
    every = load()
    sys.stdout.write(report(every) + "\n")
    if "--misses" in sys.argv[1:]:
        sys.stdout.write("\n".join(("", "misses:", *judge(every, classify).misses)) + "\n")
