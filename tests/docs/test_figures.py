"""Figures that pages give of the collected failures are counted here, from the file that they speak of."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from tests.docs.pages import DOCS, FAILOVER, ROOT, page

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (ROOT / "tests/cases/provider-errors.jsonl").read_text("utf-8").splitlines()
]
REFUSALS = [row for row in ROWS if row["expected"] == "content_policy"]
FORBIDDEN = Counter(row["expected"] for row in ROWS if row["status"] == 403)
WORDS = {1: "one", 2: "two", 3: "three"}


def said(path_text: str) -> str:
    """A text on one line."""
    return " ".join(path_text.split())


def test_refusals_inside_a_200() -> None:
    inside = Counter(row["phase"] for row in REFUSALS if row["status"] == 200)
    text = said(page(FAILOVER).section("How a failure gets its class"))
    assert f"{inside.total()} of {len(REFUSALS)} refusals arrive inside a 200" in text
    assert f"{inside['finish']} as a finish, {inside['stream_event']} as an error event" in text


def test_the_collection() -> None:
    text = said(page(FAILOVER).section("The collection"))
    assert f"holds {len(ROWS)} failures" in text
    for failure_class, count in Counter(row["expected"] for row in ROWS).items():
        assert f"{count} `{failure_class}`" in text
    phases = Counter(row["phase"] for row in ROWS)
    assert f"{phases['response']} are HTTP replies, {phases['stream_event']} are events inside a stream, " in text
    assert f"{phases['finish']} are finishes" in text


def test_how_we_know_of_each() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \|", page(FAILOVER).section("The collection"), re.MULTILINE)
    among = Counter(row["evidence"] for row in REFUSALS)
    counted = Counter(row["evidence"] for row in ROWS)
    assert {name: (int(count), int(refusals)) for name, count, refusals in rows} == {
        name: (count, among[name]) for name, count in counted.items()
    }


def test_what_a_403_was() -> None:
    text = said(page(DOCS / "adr" / "0005-403-stops.md").section("Context"))
    assert f"Of the {len(ROWS)} failures" in text
    assert f"{FORBIDDEN.total()} are HTTP 403: {FORBIDDEN['authentication']} faults of a key" in text
    refusals = WORDS[FORBIDDEN["content_policy"]]
    assert f"{refusals} refusals of the content, {WORDS[FORBIDDEN['rate_limited']]} exhausted rate" in text
    assert f"The {refusals} refusals are a small share" in text
    assert set(FORBIDDEN) == {"authentication", "content_policy", "rate_limited"}
