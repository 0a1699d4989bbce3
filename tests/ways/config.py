"""The configuration that every way in is asked with: the sketch of the first discussion, with callers of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

SKETCH = Path(__file__).parents[1] / "cases" / "seed-sketch.toml"
SKETCH_ENV = "DEEPSEEK_API_KEY"
UPSTREAM_KEY = "sk-upstream-canary-90d2"

EVERYBODY, LIMITED, LAWYER = "everybody", "limited", "lawyer"
"""Callers: one may use everything, one little, one has a tenant that binds it."""

KEYS: Mapping[str, str] = MappingProxyType({name: f"nrw_{name}_canary_4a17" for name in (EVERYBODY, LIMITED, LAWYER)})
"""What they send."""

LOCAL, US, EU, GOLD = "local-small", "deepseek-r1-us", "deepseek-r1-eu", "gold-eu"
"""The sketch's upstream models: two in the EU that may be used, one in the US, one that is too dear."""
LEGAL, SALES = "desk-legal", "desk-sales"

MORE = """
[attributes.desk]
values = ["legal", "sales"]
missing = "unrestricted"

[constraints.desk]
kind = "attribute_match"
request_attribute = "desk"
target_attribute = "desk"

[targets.legal]
provider = "deepseek"
model = "desk-legal"
labels = { desk = "legal" }

[targets.sales]
provider = "deepseek"
model = "desk-sales"
labels = { desk = "sales" }

[routes.us_only]
targets = ["frontier_us"]
constraints = ["residency"]

[routes.desks]
targets = ["sales", "legal"]
constraints = ["desk"]

[tenants.law_firm]
attributes = { desk = "legal" }

[plugins.kept]
kind = "kept"
"""


def configuration(base_url: str) -> str:
    """The sketch as it stands, with a ranker of this release in place of `escalation`, and the rest of this module."""
    text = SKETCH.read_text("utf-8")
    for old, new in (('algorithm = "escalation"', 'algorithm = "ordered"'), ("http://127.0.0.1:9901/v1", base_url)):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return f"{text}\n{MORE}\n{callers()}"


def callers() -> str:
    """`[keys]` of the three."""
    limited = 'routes = ["agent", "us_only"]\ntargets = ["local", "frontier_us"]\n'
    return key(EVERYBODY) + key(LIMITED, limited) + key(LAWYER, 'tenant = "law_firm"\n')


def key(name: str, grants: str = "") -> str:
    """The block of one caller."""
    return f'\n[keys.{name}]\nsha256 = "{hashlib.sha256(KEYS[name].encode()).hexdigest()}"\n{grants}'
