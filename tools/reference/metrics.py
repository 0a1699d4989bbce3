"""The metrics, from the one table that they are counted by."""

from __future__ import annotations

from narrows.telemetry.metrics_table import TABLE
from tools.reference.text import needed, table


def metrics() -> str:
    """Every metric, in the order of the exposition."""
    rows = [
        (
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels) or "–",
            needed(f"metric {metric.name}", metric.help, "its help in narrows.telemetry.metrics_table"),
        )
        for metric in TABLE
    ]
    return table(("metric", "kind", "labels", "what it counts"), rows)
