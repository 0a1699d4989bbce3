"""What a gateway counted, read back from its exposition by prometheus_client's own parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_format

Series: TypeAlias = tuple[str, frozenset[tuple[str, str]]]
"""The name of a sample and its labels."""


class Scrape:
    """One scrape."""

    def __init__(self, text: str) -> None:
        """Raises ValueError for what is no exposition."""
        parse = open_metrics if text.endswith("# EOF\n") else text_format
        self.text = text
        self.families = tuple(parse(text))
        self.values: Mapping[Series, float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __call__(self, name: str, /, labels: Mapping[str, str] | None = None, **more: str) -> float:
        """The value of `narrows_NAME` with exactly these labels. Raises KeyError where there is none."""
        return self.values[f"narrows_{name}", frozenset({**(labels or {}), **more}.items())]

    def gained(self, before: Scrape, name: str) -> dict[frozenset[str], float]:
        """What was counted in between: label values -> by how much, without what did not change."""
        found = {}
        for series, value in self.values.items():
            gain = value - before.values.get(series, 0.0)
            if series[0] == f"narrows_{name}" and gain:
                found[frozenset(value for _, value in series[1])] = gain
        return found
