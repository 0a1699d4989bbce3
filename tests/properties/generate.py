"""Random configurations and requests, as the plain data that a file and a client would hold.

Everything is drawn from one `random.Random`: a seeded one in a test that runs many cases, hypothesis' own where a failing
case is to be shrunk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Table = dict[str, Any]

WORDS = ("eu", "us", "uk")
VALUES = (*WORDS, "any")
CLASSES = ("private", "public", "paid")
ATTRIBUTES = {"data-region": "x-region", "use": None, "shift_team": "x-shift"}
LABELS = ("region", "zone", "team")
FEATURES = ("tools", "vision", "audio", "json_schema", "json_object", "parallel_tools", "reasoning", "files")
UNDECLARED = "x-tier"
SERVER_TOOL = "web_search"
PROVIDERS = ("one", "two")
STRANGER = "nrw_nobody"


def configuration(random: Random) -> Table:
    """A configuration of two echo providers, of which one always fails in a way that moves the request on."""
    attributes = {name: _attribute(random, header) for name, header in ATTRIBUTES.items() if random.random() < 0.7}
    targets = {f"t{place}": _target(random) for place in range(random.randint(1, 6))}
    constraints = {f"c{place}": _constraint(random, attributes) for place in range(random.randint(0, 5))}
    document: Table = {
        "attributes": attributes,
        "constraints": constraints,
        "providers": {
            "one": {"kind": "echo"},
            "two": {"kind": "echo", "fail": "rate_limited", "max_retries": 0},
        },
        "targets": targets,
        "routes": {
            name: {
                "targets": _some(random, targets, most=6, least=min(len(targets), 2)),
                "constraints": _some(random, constraints, most=4),
            }
            for name in ("chat", "other:free")[: random.randint(1, 2)]
        },
    }
    if random.random() < 0.6:
        document["tenants"] = {"acme": _speaker(random, attributes)}
        document["keys"] = {f"k{place}": _key(random, document, f"k{place}") for place in range(random.randint(1, 3))}
    else:
        document["auth"] = {"mode": "open", "may_say": _values(random, attributes, 0.4)}
    return document


def floored(random: Random) -> Table:
    """A configuration in which silence is served, and some values would leave more than it: every value permits eu."""
    values = list(VALUES) if random.random() < 0.5 else _some(random, VALUES, least=2, most=3)
    constraints: Table = {
        "residency": {
            "kind": "attribute_match",
            "request_attribute": "data-region",
            "target_attribute": "region",
            "accept": {v: "*" if v == "any" else sorted({"eu", *_some(random, WORDS, most=2)}) for v in values},
        }
    }
    if random.random() < 0.6:
        key = random.choice(["max_cost_per_mtok_out", "max_cost_per_request"])
        by = {
            f"attribute.data-region.{value}": random.choice([0.1, 1.0])
            for value in _some(random, values, least=1, most=2)
        }
        constraints["cap"] = {"kind": "cost_ceiling", key: 9.0, "by": by}
    price = {"input": 0.0, "output": 0.0}
    dear = {"input": 0.0, "output": 7.5}
    targets = {"t0": {"provider": "one", "region": "eu", "price": price}}
    for place in range(1, random.randint(3, 6)):
        region = random.choice([*WORDS, ["eu", "us"], ["uk", "us"]])
        targets[f"t{place}"] = {"provider": "one", "region": region, "price": random.choice([price, price, dear])}
    return {
        "attributes": {"data-region": {"values": values}},
        "constraints": constraints,
        "providers": {"one": {"kind": "echo"}},
        "targets": targets,
        "routes": {"chat": {"targets": list(targets), "constraints": list(constraints)}},
    }


def secret(key: str) -> str:
    """The key that belongs to `[keys.KEY]`."""
    return f"nrw_{key}"


def asked(random: Random, config: Mapping[str, Any]) -> Table:
    """One request to that configuration: `key`, `headers`, `body`."""
    keys = list(config.get("keys", {}))
    key: str | None = None
    if keys and random.random() < 0.97:
        key = STRANGER if random.random() < 0.03 else secret(random.choice(keys))
    routes = list(config["routes"])
    model = random.choice(routes) if random.random() < 0.95 else random.choice(["none", "none:free", *routes])
    headers: list[tuple[str, str]] = []
    metadata: Table = {}
    for name, table in config["attributes"].items():
        if random.random() < 0.65:
            _say(random, name, table, headers, metadata)
    if random.random() < 0.3:
        headers.append((UNDECLARED, random.choice(WORDS)))
    random.shuffle(headers)
    body = _body(random, model)
    if metadata or random.random() < 0.1:
        body["metadata"] = {**metadata, "other": 3}
    return {"key": key, "headers": headers, "body": body}


# ---- configurations --------------------------------------------------------------------------------------------------


def _attribute(random: Random, header: str | None) -> Table:
    table: Table = {"values": _some(random, VALUES, least=1, most=4)}
    if header is not None:
        table["header"] = header
    if random.random() < 0.4:
        table["sources"] = random.choice([["header"], ["metadata"], ["header", "metadata"], ["metadata", "key"]])
    table["missing"] = random.choice(["floor", "floor", "refuse", "unrestricted"])
    return table


def _target(random: Random) -> Table:
    table: Table = {
        "provider": "one" if random.random() < 0.75 else "two",
        "model": "set below",
        "region": _label(random),
        "class": random.choice([*CLASSES, "private", ["private", "public"]]),
        "labels": {"zone": _label(random), "team": _label(random)},
        "capabilities": {name: random.random() < 0.6 for name in FEATURES if random.random() < 0.25},
        "price": {
            side: random.choice([0.0, 0.1, 1.0, 7.5, 80.0])
            for side in ("input", "output", "cache_write", "cached_input")
            if random.random() < (0.85 if side in ("input", "output") else 0.2)
        },
    }
    if random.random() < 0.3:
        table["capabilities"][f"server_tool.{SERVER_TOOL}"] = random.random() < 0.8
    if random.random() < 0.5:
        table["context_window"] = random.choice([5, 60, 900, 200_000])
    if random.random() < 0.3:
        table["max_output_tokens"] = random.choice([10, 4000])
    return table


def _label(random: Random) -> str | list[str]:
    draw = random.random()
    return "eu" if draw < 0.45 else random.choice(WORDS) if draw < 0.85 else _some(random, WORDS, least=1, most=3)


def _constraint(random: Random, attributes: Table) -> Table:
    kind = random.choice(["attribute_match"] * 3 + ["cost_ceiling"] * 3 + ["business_hours", "allowed_classes"])
    attribute = random.choice([*attributes, *attributes, UNDECLARED])
    rule: Table = {"kind": kind}
    if kind == "attribute_match":
        rule |= {"request_attribute": attribute, "target_attribute": random.choice(LABELS)}
        if attribute in attributes and ("any" in attributes[attribute]["values"] or random.random() < 0.5):
            rule["accept"] = {value: _accepted(random, value) for value in attributes[attribute]["values"]}
    elif kind == "business_hours":
        rule["request_attribute"] = attribute
    elif kind == "allowed_classes":
        rule["classes"] = _some(random, CLASSES, least=1, most=3)
    else:
        _caps(random, rule, attributes)
    if random.random() < 0.25:
        rule["always"] = True
    return rule


def _accepted(random: Random, value: str) -> str | list[str]:
    if value == "any" or random.random() < 0.1:
        return "*"
    return sorted({value, *_some(random, WORDS, most=2)} - {"any"})


def _caps(random: Random, rule: Table, attributes: Table) -> None:
    caps = {"max_cost_per_mtok_out": 10, "max_cost_per_mtok_in": 10, "max_cost_per_request": 0.05}
    for key in _some(random, caps, least=1, most=1 if random.random() < 0.7 else 3):
        rule[key] = caps[key] * random.choice([0.0, 0.5, 1.0, 9.0])
    if len(rule) == 2 and random.random() < 0.7:
        keys = ["tag.intern", "tenant.acme"]
        keys += [f"attribute.{name}.{value}" for name, table in attributes.items() for value in table["values"]]
        scale = 0.01 if "max_cost_per_request" in rule else 5.0
        rule["by"] = {key: scale * random.choice([0.0, 0.1, 1.0]) for key in _some(random, keys, least=1, most=2)}


def _key(random: Random, document: Table, name: str) -> Table:
    table: Table = {"sha256": hashlib.sha256(secret(name).encode()).hexdigest()}
    if random.random() < 0.5:
        table["tenant"] = "acme"
    for group, chance in (("routes", 0.1), ("targets", 0.25), ("providers", 0.15)):
        if random.random() < chance:
            names = PROVIDERS if group == "providers" else list(document[group])
            table[group] = _some(random, names, least=1, most=len(names))
    if random.random() < 0.3:
        table["tags"] = ["intern"]
    return {**table, **_speaker(random, document["attributes"])}


def _speaker(random: Random, attributes: Table) -> Table:
    return {"attributes": _values(random, attributes, 0.15), "may_say": _values(random, attributes, 0.35)}


def _values(random: Random, attributes: Table, chance: float) -> Table:
    return {
        name: _some(random, table["values"], least=1, most=2)
        for name, table in attributes.items()
        if random.random() < chance
    }


# ---- requests ----------------------------------------------------------------------------------------------------------


def _say(random: Random, name: str, table: Table, headers: list[tuple[str, str]], metadata: Table) -> None:
    """Says one or two values of an attribute, somewhere and in some spelling; sometimes wrongly."""
    values = _some(random, table["values"], least=1, most=1 if random.random() < 0.8 else 2)
    if random.random() < 0.04:
        values.append(random.choice(["", "mars", " "]))
    words = [_spelt(random, value) for value in values]
    header = table.get("header", name)
    place = random.random()
    if place < 0.6:
        joined = random.random() < 0.5
        headers += [(header, ",".join(words))] if joined else [(header, word) for word in words]
    if place > 0.5:
        key = random.choice([name, header, name.upper(), header.replace("-", "_")])
        draw = random.random()
        metadata[key] = None if draw < 0.05 else [] if draw < 0.07 else 3 if draw < 0.09 else words
        if metadata[key] == words and len(words) == 1 and draw < 0.6:
            metadata[key] = words[0]


def _spelt(random: Random, value: str) -> str:
    return random.choice([value, value, value.upper(), f" {value} ", f"{value}\t"])


def _body(random: Random, model: str) -> Table:
    text = "ab " * random.choice([1, 20, 200, 3000] if random.random() < 0.4 else [1, 9])
    parts: Table = {
        "image_url": {"image_url": {"url": "data:image/png;base64,AAAB"}},
        "input_audio": {"input_audio": {"data": "AAAB", "format": "wav"}},
        "file": {"file": {"file_id": "f1"}},
    }
    seen = [{"type": kind, **parts[kind]} for kind in parts if random.random() < 0.08]
    content: object = [{"type": "text", "text": text}, *seen] if seen or random.random() < 0.3 else text
    body: Table = {"model": model, "messages": [{"role": "user", "content": content}]}
    options: Sequence[tuple[str, object]] = (
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tools", [{"type": "function"}, {"type": SERVER_TOOL}]),
        ("parallel_tool_calls", True),
        ("response_format", {"type": random.choice(["text", "json_object", "json_schema"])}),
        ("reasoning_effort", random.choice(["none", "high"])),
        ("stream", random.random() < 0.5),
        ("max_tokens", random.choice([0, 5, 10_000])),
        ("max_completion_tokens", random.choice([0, 100])),
        ("n", random.choice([1, 2, 3])),
    )
    for key, value in options:
        if random.random() < (0.04 if value == options[1][1] else 0.15):
            body[key] = value
    return body


def _some(random: Random, items: Sequence[T] | dict[T, Any], *, most: int, least: int = 0) -> list[T]:
    pool = list(items)
    return random.sample(pool, random.randint(min(least, len(pool)), min(most, len(pool))))
