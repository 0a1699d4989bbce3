"""A gateway with keys, and what each of them may see."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

SECRET: Final = "nrw_canary-7Qp3Zt9LxV2mB8sWkR4yN6cH1dJ5fG0aUeTi"


@dataclass(frozen=True)
class Granted:
    """One key: what stands in its block, and the routes that work for it."""

    block: str
    routes: list[str]


EVERY: Final = ["chat", "american", "american:free", "wide", "other"]

CALLERS: Final = {
    "all": Granted("", EVERY),
    "narrow": Granted('routes = ["chat"]', ["chat"]),
    "one_target": Granted('targets = ["paris"]', ["chat", "wide"]),
    "one_provider": Granted('providers = ["vendor"]', ["chat", "american", "american:free", "wide"]),
    "both": Granted('targets = ["paris", "third"]\nproviders = ["second"]', ["wide", "other"]),
    "bound": Granted('tenant = "payments"', EVERY),
    "doubly": Granted('tenant = "payments"\nattributes = { region = ["us"] }', EVERY),
    "trusted": Granted('may_say = { tier = ["plain"] }', EVERY),
}
"""By name."""


def secret(who: str) -> str:
    """The key of that caller."""
    return f"{SECRET}-{who}"


def sha256(who: str) -> str:
    """The hash of that caller's key."""
    return hashlib.sha256(secret(who).encode()).hexdigest()


def bearer(who: str) -> tuple[str, str]:
    """The header that carries the key."""
    return ("authorization", f"Bearer {secret(who)}")


BLOCKS: Final = "".join(f'\n[keys.{who}]\nsha256 = "{sha256(who)}"\n{key.block}\n' for who, key in CALLERS.items())

ROUTES: Final = """
[attributes.region]
values = ["eu", "us"]
header = "x-region"
missing = "unrestricted"

[attributes.tier]
values = ["gold", "plain"]

[tenants.payments]
attributes = { region = "eu" }

[constraints.residency]
kind = "attribute_match"
request_attribute = "region"
target_attribute = "region"

[constraints.tiers]
kind = "attribute_match"
request_attribute = "tier"
target_attribute = "tier"
accept = { gold = ["gold"], plain = "*" }

[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"
max_retries = 0

[providers.second]
kind = "openai_compatible"
base_url = "{url}"
max_retries = 0

[targets.paris]
provider = "vendor"
model = "eu-1"
region = "eu"
tier = "gold"

[targets.ohio]
provider = "vendor"
model = "us-1"
region = "us"
tier = "plain"

[targets.third]
provider = "second"
model = "third-1"
region = ["eu", "us"]
tier = "gold"

[routes.chat]
targets = ["paris", "ohio"]

[routes.american]
targets = ["ohio"]

[routes."american:free"]
targets = ["ohio"]

[routes.wide]
targets = ["ohio", "paris", "third"]
constraints = ["residency", "tiers"]

[routes.other]
targets = ["third"]
"""

KEYRING: Final = BLOCKS + ROUTES
