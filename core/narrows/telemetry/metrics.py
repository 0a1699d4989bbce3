"""Metrics, as INTERFACES names them, in a registry of their own. Source: DESIGN section 10."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.decision import Decision


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. `policy`: steps 1 to 10, without the reading of the body. `first_chunk`: to the first byte of an answer,
    None where there was none. `total`: to the last byte."""

    policy: float
    first_chunk: float | None
    total: float


class Metrics:
    """What is counted. One per gateway; it survives a reload."""

    def decided(self, decision: Decision, timings: Timings) -> None:
        """Count one request. Never waits, never raises."""
