"""Traces and metrics. Core needs only the OpenTelemetry API; without an SDK every span here is a no-op."""

from __future__ import annotations

from narrows.telemetry.metrics import Elsewhere, Known, Metrics, Timings
from narrows.telemetry.spans import AttemptSpan, RequestSpan, Tracing

__all__ = ["AttemptSpan", "Elsewhere", "Known", "Metrics", "RequestSpan", "Timings", "Tracing"]
