"""The alerts that operators are told to copy: every name in them is a metric, every label one of its labels."""

from __future__ import annotations

import re

from narrows.telemetry.metrics_table import TABLE
from tests.docs.pages import OPERATE, page

LABELS = {metric.name: set(metric.labels) for metric in TABLE}
RULES = "\n".join(block.source for block in page(OPERATE).of("yaml") if block.heading == "Metrics")


def test_every_name_in_an_alert_is_a_metric() -> None:
    named = set(re.findall(r"\bnarrows_\w+", RULES))
    assert {"narrows_blocked_fallback_total", "narrows_ledger_dropped_total"} <= named <= LABELS.keys()


def test_every_label_in_an_alert_is_one_of_its_metric() -> None:
    grouped = re.findall(r"sum by \(([\w, ]+)\) \((?:increase|rate)\((narrows_\w+)", RULES)
    matched = re.findall(r"(narrows_\w+)\{(\w+)", RULES)
    assert grouped
    assert matched
    for labels, name in grouped:
        assert set(labels.split(", ")) <= LABELS[name]
    for name, label in matched:
        assert label in LABELS[name]
