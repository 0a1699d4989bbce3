"""The configuration behind the fixture `site`, and its plugins, which object and fail as a request asks them to."""

from __future__ import annotations

from typing import Any, Final

from narrows import Block, Candidates, Denial, Request, Usage, hookimpl

RAISED: Final = "RAISED-canary-80c1"
"""The text of every exception that a plugin raises: it must not be found anywhere."""

WAIT: Final = 6.2
"""Seconds, as the plugin's rate limit has them."""

MOST: Final = 8192
"""`max_body_bytes`."""

WORLD: Final = f"""
[server]
max_body_bytes = {MOST}

[attributes.region]
values = ["eu", "us"]
header = "x-region"
missing = "unrestricted"

[attributes.tier]
values = ["gold", "plain"]
missing = "refuse"

[attributes.act]
values = ["forbidden", "kill_switch", "rate_limited", "spent", "authorize_raises", "budget_raises", "narrow_raises", "adds"]
header = "x-act"
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "region"
target_attribute = "region"

[constraints.tiers]
kind = "attribute_match"
request_attribute = "tier"
target_attribute = "tier"
accept = {{ gold = ["gold"], plain = "*" }}

[constraints.cheap]
kind = "cost_ceiling"
max_cost_per_mtok_out = 10.0
by = {{ "attribute.tier.plain" = 1.0 }}

[plugins.acts]
kind = "acts"

[plugins.purse]
kind = "purse"

[providers.vendor]
kind = "openai_compatible"
base_url = "{{url}}"
max_retries = 0

[providers.hasty]
kind = "openai_compatible"
base_url = "{{url}}"
max_retries = 0
timeout_secs = 0.15

[targets.eu]
provider = "vendor"
model = "eu-1"
region = "eu"
tier = "gold"

[targets.us]
provider = "vendor"
model = "us-1"
region = "us"
price = {{ input = 2.0, output = 4.0 }}
max_output_tokens = 100

[targets.searcher]
provider = "vendor"
model = "search-1"
region = "eu"
capabilities = {{ "server_tool.web_search" = true }}

[targets.blind]
provider = "vendor"
model = "blind-1"
capabilities = {{ vision = false }}

[targets.hasty]
provider = "hasty"
model = "hasty-1"

[routes.chat]
targets = ["eu", "us"]
constraints = ["residency"]

[routes.american]
targets = ["us"]
constraints = ["residency"]

[routes.golden]
targets = ["eu"]
constraints = ["tiers"]

[routes.cheap]
targets = ["us"]
constraints = ["cheap"]

[routes.search]
targets = ["eu", "searcher"]
constraints = ["residency"]

[routes.blind]
targets = ["blind"]

[routes.hasty]
targets = ["hasty"]

[routes.short]
targets = ["eu"]
deadline_secs = 0.15

[routes."m:online"]
targets = ["eu"]
"""


class Acts(Block):
    """Objects, or narrows, as the request's attribute `act` says, and does nothing without it."""

    @hookimpl
    def authorize(self, request: Request) -> Denial | None:
        """An objection, or an exception."""
        act = _act(request)
        if act == "authorize_raises":
            raise RuntimeError(RAISED)
        return Denial(act, "not today") if act in ("forbidden", "kill_switch") else None

    @hookimpl
    def narrow(self, request: Request, candidates: Candidates) -> Any:
        """An exception, or an answer that is no set of candidates."""
        act = _act(request)
        if act == "narrow_raises":
            raise RuntimeError(RAISED)
        return list(candidates) if act == "adds" else None


class Purse(Block):
    """Has no money where the attribute `act` says so."""

    @hookimpl
    def budget(self, request: Request) -> Any:
        """A rate limit, an empty purse, or an exception."""
        act = _act(request)
        if act == "budget_raises":
            raise RuntimeError(RAISED)
        if act == "rate_limited":
            return Denial("rate_limited", "too many requests of yours", retry_after=WAIT)
        return Empty() if act == "spent" else None


class Empty:
    """An allowance with nothing in it."""

    def room(self) -> int:
        return 0

    def hold(self, amount: int) -> int:
        return 0

    def settle(self, usage: Usage) -> None:
        return

    def release(self) -> None:
        return


def _act(request: Request) -> str | None:
    return next(iter(request.attributes.get("act", ())), None)


KINDS: Final = {"plugins.acts": Acts, "plugins.purse": Purse}
