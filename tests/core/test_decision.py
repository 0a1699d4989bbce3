"""The decision as a value: its JSON, its exception, what it keeps of other people's texts."""

from __future__ import annotations

import json

import msgspec
import pytest

from narrows import RouteExhausted
from narrows.decision import (
    CLIP,
    AttemptRow,
    AttributeValue,
    Decision,
    Demanded,
    Excluded,
    Facts,
    clipped,
    session_digest,
)
from narrows.types import Price

GONE = Excluded("us", "residency", "attribute_mismatch", "region is not eu")


def decision(**more: object) -> Decision:
    """One with something in each part."""
    parts: dict[str, object] = {
        "id": "dec_1", "ts": 1.5, "policy": "p", "principal": "ci", "tenant": None, "route": "chat", "outcome": "answered",
        "status": 200, "code": "ok", "attributes": {"region": AttributeValue(("eu",), ("header",))},
        "demands": (Demanded("cheap", ["out", 5], "said"),), "labels": {"us": {"region": ("us", "ca")}},
        "facts": {"us": Facts({"vision": False}, 10, 20, Price(1, 2, 3, 4))}, "excluded": (GONE,), "order": ("eu",),
        "attempts": (
            AttemptRow(1, "eu", "v", "k", "rate_limited", 429, cost_micro_usd=None),
            AttemptRow(2, "eu", "v", "k", "ok", 200, input_tokens=3, cost_micro_usd=7),
            AttemptRow(3, "eu", "v", "k", "ok", 200, cost_micro_usd=5),
        ),
    }  # fmt: skip
    return Decision(**{**parts, **more})  # type: ignore[arg-type]


def test_the_document_is_plain_json() -> None:
    document = decision().document()
    again = json.loads(msgspec.json.encode(document))
    assert again == document
    assert document["demands"] == [{"constraint": "cheap", "demand": ["out", 5], "source": "said"}]
    assert document["labels"] == {"us": {"region": ["us", "ca"]}}
    assert document["facts"] == {
        "us": {
            "capabilities": {"vision": False},
            "context_window": 10,
            "max_output_tokens": 20,
            "price": {"input": 1, "output": 2, "cached_input": 3, "cache_write": 4},
        }
    }
    assert document["cost_micro_usd"] == 12
    assert "message" not in document


def test_require_raises_for_a_refusal_alone() -> None:
    decision().require()
    decision(outcome="upstream_error", code="upstream_error").require()
    with pytest.raises(RouteExhausted, match="0 of 2") as caught:
        decision(outcome="refused", code="no_eligible_target", message="0 of 2").require()
    assert (caught.value.code, caught.value.exclusions) == ("no_eligible_target", (GONE,))
    with pytest.raises(RouteExhausted, match="rate_limited"):
        decision(outcome="refused", code="rate_limited").require()


def test_long_names_are_clipped_and_stay_apart() -> None:
    assert clipped("a" * CLIP) == "a" * CLIP
    long = [clipped("a" * CLIP + end) for end in ("b", "c")]
    assert [len(name) for name in long] == [CLIP, CLIP]
    assert long[0] != long[1]
    assert clipped(long[0]) != long[0]  # who is called so is somebody else


def test_a_text_that_no_json_takes_is_one_when_it_is_kept() -> None:
    kept = [clipped(f"a{half}b") for half in ("\ud800", "\udfff", "?", "\ufffd")]
    assert len({*kept}) == len(kept)
    assert kept[2] == "a?b"
    assert [msgspec.json.decode(msgspec.json.encode(name)) for name in kept] == kept


def test_a_sessions_digest_is_the_principals_own() -> None:
    pairs = [("a", "b"), ("a", "c"), ("ab", ""), ("b", "a"), ('a", "b', "c"), ("a", 'b", "c')]
    digests = [session_digest(*pair) for pair in pairs]
    assert digests[2] is None
    assert len({*digests}) == len(pairs)
    assert session_digest("a", " b ") == digests[0]
