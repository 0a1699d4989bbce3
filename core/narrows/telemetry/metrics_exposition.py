"""The series in Prometheus' text format, or as OpenMetrics. Pure: it may run in a worker thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import Final, cast

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from narrows import money
from narrows.telemetry import metrics_table as table
from narrows.telemetry.metrics import Family

OPEN_METRICS: Final = "application/openmetrics-text"
_ASKED: Final = f"{OPEN_METRICS}; version=1.0.0"


def exposed(families: Sequence[Family], accept: str) -> tuple[str, bytes]:
    """The content type and the body. OpenMetrics where `accept` names it, else the text format.

    Nothing else of `accept` is used: prometheus_client would raise on a version that is no number, and repeat it.
    """
    asked = any(part.partition(";")[0].strip().casefold() == OPEN_METRICS for part in accept.split(","))
    encode, content_type = choose_encoder(_ASKED if asked else "")
    return content_type, encode(_Families(families))


class _Families(Collector):
    """A registry of its own: nothing of the process-wide one, and nothing of another gateway's."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Every family in Prometheus' shape."""
        for family in self._families:
            yield _shaped(family)
        build = table.BUILD
        info = InfoMetricFamily(build.name.removesuffix("_info"), build.help)
        info.add_metric((), {"version": version("narrows")})
        yield info


def _shaped(family: Family) -> Metric:
    metric = family.metric
    name, text, labels = metric.name, metric.help, metric.labels
    match metric.kind:
        case "histogram":
            histogram = HistogramMetricFamily(name, text, labels=labels)
            bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
            for values, row in family.series.items():
                *counts, total = cast("Sequence[float]", row)
                histogram.add_metric(values, list(zip(bounds, accumulate(counts), strict=True)), total)
            return histogram
        case "gauge":
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for values, count in family.series.items():
                gauge.add_metric(values, cast("int", count))
            return gauge
        case _:
            counter = CounterMetricFamily(name, text, labels=labels)
            for values, count in family.series.items():
                counter.add_metric(values, _amount(metric, cast("int", count)))
            return counter


def _amount(metric: table.Metric, count: int) -> float:
    return money.usd_float(count) if metric is table.COST else count
