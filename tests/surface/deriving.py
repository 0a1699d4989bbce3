"""Derives the exclusions of a decision again, from D and the policy's text alone, in the simplest way.

It imports nothing of the engine's rules. It is the reader's side of the record: what an auditor would write who has the
ledger and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def derived(d: Mapping[str, Any], policy: str) -> list[tuple[str, str, str]]:
    """(target, constraint, code) of every exclusion: each target under the first demand that it does not meet."""
    said = json.loads(policy)
    gone: dict[str, tuple[str, str, str]] = {}
    for row in d["demands"]:
        block = said["blocks"][f"constraints.{row['constraint']}"]
        for target in said["routes"][d["route"]]["targets"]:
            if target in gone or target not in d["labels"]:
                continue
            code = judged(block["kind"], block["options"], row["demand"], d["labels"][target], d["facts"][target])
            if code:
                gone[target] = (target, row["constraint"], code)
    return sorted(gone.values())


def judged(
    kind: str, options: Mapping[str, Any], demand: Any, labels: Mapping[str, Any], facts: Mapping[str, Any]
) -> str | None:
    """Why this target cannot meet that demand: the rules' documentation, written down once more."""
    match kind.removeprefix("constraints."):
        case "attribute_match":
            accepted = [demand] if options["accept"] is None else options["accept"][demand]
            return fitting(labels.get(options["target_attribute"]), accepted, "attribute_mismatch")
        case "allowed_classes":
            return fitting(labels.get("class"), demand, "class")
        case "capability":
            return f"capability.{demand}" if facts["capabilities"].get(demand) is False else None
        case "context_window":
            window = facts["context_window"]
            return "context_window" if window is not None and window <= demand else None
        case "cost_ceiling":
            paid = cost(demand, facts)
            return "unpriced" if paid is None else "price" if paid > demand[1] else None
    raise AssertionError(f"nobody wrote down {kind}")


def fitting(label: Any, accepted: Iterable[str], code: str) -> str | None:
    words = [label] if isinstance(label, str) else label
    if not words:
        return "unlabelled"
    return None if accepted == "*" or set(words) <= set(accepted) else code


def cost(demand: Any, facts: Mapping[str, Any]) -> float | None:
    """In micro-USD: per million tokens, or of this request at the most."""
    price = facts["price"]
    if demand[0] != "request":
        paid: float | None = price["output" if demand[0] == "out" else "input"]
        return paid
    _, _, prompt, asked_for, n = demand
    if price["input"] is None or price["output"] is None:
        return None
    bounds = [bound for bound in (asked_for, facts["max_output_tokens"], facts["context_window"]) if bound is not None]
    output = min(bounds, default=32_768) * n
    dearest = max(price["input"], price["cache_write"] or 0, price["cached_input"] or 0)
    micro: float = (prompt * dearest + output * price["output"]) / 1e6
    return micro
