"""The rules of the naive model: what each kind obliges a request to, why it excludes a target, and what a body needs.

Like reference.py it imports nothing of Narrows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Table = Mapping[str, Any]
Says = Mapping[str, frozenset[str]]
Demand = tuple[Any, ...]
UNBOUNDED_OUTPUT = 32_768
IMAGE_TOKENS = 4096
PARTS = {"image_url": "vision", "input_audio": "audio", "file": "files"}


@dataclass(frozen=True)
class Who:
    """The caller: its own table and its tenant's."""

    key: Table = field(default_factory=dict)
    tenant: Table = field(default_factory=dict)
    may_say: Table = field(default_factory=dict)

    def bound(self, attribute: str) -> frozenset[str]:
        return _set(self.key.get("attributes", {}), attribute) | _set(self.tenant.get("attributes", {}), attribute)

    def allowed(self, attribute: str) -> frozenset[str]:
        tables = (self.key.get("may_say", {}), self.tenant.get("may_say", {}), self.may_say)
        return frozenset().union(*(_set(table, attribute) for table in tables))


@dataclass(frozen=True)
class Body:
    """What of a body decides."""

    features: frozenset[str] = frozenset()
    at_least: int = 0
    at_most: int = 0
    max_output: int | None = None
    n: int = 1


SMALLEST = Body(max_output=0)


def reads(rule: Table) -> set[str]:
    """The attributes that a constraint reads."""
    if rule["kind"] == "cost_ceiling":
        return {key.split(".", 2)[1] for key in rule.get("by", {}) if key.startswith("attribute.")}
    return {rule["request_attribute"]} if "request_attribute" in rule else set()


def reads_body(rule: Table) -> bool:
    return rule["kind"] in ("capability", "context_window") or "max_cost_per_request" in rule


def demands(rule: Table, says: Says, who: Who, body: Body) -> set[Demand]:
    """What a request that says this obliges under one constraint."""
    match rule["kind"]:
        case "attribute_match":
            values = says.get(rule["request_attribute"], frozenset())
            return {(value,) for value in values if rule.get("accept", {}).get(value) != "*"}
        case "business_hours":
            return {(value,) for value in says.get(rule["request_attribute"], frozenset())}
        case "allowed_classes":
            return {tuple(sorted(rule["classes"]))}
        case "cost_ceiling":
            return set(_caps(rule, says, who, body))
        case "capability":
            return {(feature,) for feature in body.features}
        case _:
            return {(body.at_least,)}


def _caps(rule: Table, says: Says, who: Who, body: Body) -> Iterator[Demand]:
    further = []
    for key, cap in rule.get("by", {}).items():
        kind, word, *value = key.split(".", 2)
        applies = {
            "tag": word in who.key.get("tags", []),
            "tenant": word == who.key.get("tenant"),
            "attribute": bool(value) and value[0] in says.get(word, frozenset()),
        }
        if applies[kind]:
            further.append(Fraction(str(cap)))
    for key, side in (("max_cost_per_mtok_out", "out"), ("max_cost_per_mtok_in", "in")):
        if key in rule:
            yield side, min([Fraction(str(rule[key])), *further])
    if "max_cost_per_request" in rule:
        cap = min([Fraction(str(rule["max_cost_per_request"])), *further])
        yield "request", cap, body.at_most, -1 if body.max_output is None else body.max_output, body.n


def excludes(rule: Table, demand: Demand, target: Table) -> str | None:
    """Why one target cannot meet one demand: the code, or None."""
    match rule["kind"]:
        case "attribute_match":
            label = _label(target, rule["target_attribute"])
            if not label:
                return "unlabelled"
            accepted = set(rule["accept"][demand[0]]) if "accept" in rule else {demand[0]}
            return None if label <= accepted else "attribute_mismatch"
        case "business_hours":
            return None if _label(target, "team") == {demand[0]} else "business_hours.off_duty"
        case "allowed_classes":
            return None if allowed_class(rule, target) else "class"
        case "cost_ceiling":
            cost = _cost(demand, target)
            return "unpriced" if cost is None else None if cost <= demand[1] else "price"
        case "capability":
            feature = demand[0]
            declared = target.get("capabilities", {}).get(feature)
            lacks = not declared if feature.startswith("server_tool.") else declared is False
            return f"capability.{feature}" if lacks else None
        case _:
            window = target.get("context_window")
            return "context_window" if window is not None and window < demand[0] else None


def _cost(demand: Demand, target: Table) -> Fraction | None:
    """USD per million tokens, or USD for the dearest case of one call."""
    price = target.get("price", {})
    given = {key: Fraction(str(price[key])) for key in price}
    if demand[0] != "request":
        return given.get("output" if demand[0] == "out" else "input")
    if "input" not in given or "output" not in given:
        return None
    _, _, at_most, asked, n = demand
    bounds = [bound for bound in (asked, target.get("max_output_tokens", -1)) if bound >= 0]
    output = min(bounds) if bounds else target.get("context_window", UNBOUNDED_OUTPUT)
    dearest = max(given["input"], *(given.get(side, Fraction(0)) for side in ("cache_write", "cached_input")))
    return (Fraction(at_most) * dearest + Fraction(output * n) * given["output"]) / 1_000_000


def allowed_class(rule: Table, target: Table) -> bool:
    label = _label(target, "class")
    return bool(label) and label <= set(rule["classes"])


def _label(target: Table, name: str) -> set[str]:
    value = target.get(name, target.get("labels", {}).get(name, []))
    return {value} if isinstance(value, str) else set(value)


def _set(table: Table, attribute: str) -> frozenset[str]:
    values = table.get(attribute, [])
    return frozenset([values] if isinstance(values, str) else values)


# ---- the body --------------------------------------------------------------------------------------------------------


def measured(body: Table) -> Body:
    """Features and sizes of a chat body. Its texts must have no run of one byte: those count less."""
    features: set[str] = set()
    text = 0
    pictures = 0
    messages = body["messages"]
    for message in messages:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            text += len(part.get("text", "").encode())
            if part["type"] in PARTS:
                features.add(PARTS[part["type"]])
            if part["type"] == "image_url":
                pictures += IMAGE_TOKENS - len(_compact(part["image_url"]))
    for tool in body.get("tools", []):
        features.add("tools" if tool["type"] in ("function", "custom") else f"server_tool.{tool['type']}")
    if body.get("tools") and body.get("parallel_tool_calls") is True:
        features.add("parallel_tools")
    if body.get("stream"):
        features.add("streaming")
    if "response_format" in body and body["response_format"]["type"] != "text":
        features.add(body["response_format"]["type"])
    if body.get("reasoning_effort", "none") != "none":
        features.add("reasoning")
    rest = sum(len(_compact(body[key])) for key in ("tools", "response_format") if key in body)
    limits = [body[key] for key in ("max_tokens", "max_completion_tokens") if body.get(key)]
    return Body(
        frozenset(features),
        text // 8,
        len(_compact(messages)) + pictures + rest,
        max(limits) if limits else None,
        body.get("n", 1),
    )


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
