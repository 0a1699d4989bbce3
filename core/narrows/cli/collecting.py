"""Where `narrows serve` sends spans. Only a process of our own does; a mounted gateway uses its host's OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.cli.output import fail

if TYPE_CHECKING:
    from narrows.telemetry.exporter import Collector


def collector(exporter: str) -> Collector | None:
    """The collector that `[telemetry] exporter` asks for. Ends the command where it cannot be spoken to."""
    if exporter == "none":
        return None
    try:
        from narrows.telemetry.exporter import Collector
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        fail('[telemetry] exporter = "otlp" needs an extra:', "pip install 'narrows[otel]'")
    try:
        return Collector()
    except (ValueError, RuntimeError) as error:
        fail(f"the exporter of spans cannot start: {error}", "Mend that variable of the environment, or unset it.")
