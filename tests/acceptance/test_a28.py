"""A28 (BerriAI/litellm#39158): a gateway's own setting was copied into the upstream body.

With every setting on that this version has, the body upstream holds what the caller sent and what the operator put into
`extra_body`, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from narrows.testing import Answer
from tests.surface.keyring import bearer, sha256
from tests.surface.support import JSON, WAYS, Headers, Site, chat, opened

EVERYTHING = f"""
[server]
host = "127.0.0.1"
port = 8123
shutdown_grace_secs = 7.5
max_body_bytes = 4444

[auth]
mode = "keys"
may_say = {{ tier = ["plain"] }}

[hooks]
deadline_secs = 4.5
slow_secs = 0.25

[attributes.data-region]
values = ["eu", "us"]
sources = ["header", "metadata", "key", "tenant"]
header = "x-region"
missing = "unrestricted"

[attributes.tier]
values = ["gold", "plain"]

[tenants.payments]
attributes = {{ data-region = "eu" }}
may_say = {{ tier = ["plain"] }}

[keys.all]
sha256 = "{sha256("all")}"
tenant = "payments"
routes = ["chat"]
targets = ["marked", "spare"]
providers = ["vendor"]
tags = ["intern"]
attributes = {{ data-region = "eu" }}
may_say = {{ tier = ["plain"] }}

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
accept = {{ eu = ["eu"], us = "*" }}
always = true

[constraints.cap]
kind = "cost_ceiling"
max_cost_per_mtok_out = 100.0
by = {{ "tag.intern" = 50.0 }}

[constraints.classes]
kind = "allowed_classes"
classes = ["open", "own"]

[providers.vendor]
kind = "openai_compatible"
base_url = "{{url}}"
timeout_secs = 33.0
max_retries = 0
max_connections = 77
headers = {{ x-title = "ours" }}

[targets.marked]
provider = "vendor"
model = "model-1"
region = "eu"
processing_region = "eu"
jurisdiction = "fr"
class = "open"
zero_retention = true
no_training = true
output_uses = ["internal"]
tier = "gold"
labels = {{ team = "blue" }}
capabilities = {{ tools = true, vision = false, "server_tool.web_search" = true }}
context_window = 9000
max_output_tokens = 900
price = {{ input = 1.5, output = 2.5, cached_input = 0.5, cache_write = 0.75 }}

[targets.spare]
provider = "vendor"
model = "model-2"
region = "eu"
class = "own"
price = {{ input = 0, output = 0 }}
extra_body = {{ top_k = 5 }}

[routes.chat]
targets = ["marked", "spare"]
constraints = ["cap", "classes"]
algorithm = "ordered"
failover_on = ["timeout", "rate_limited", "server_error", "endpoint_dead", "context_length"]
deadline_secs = 99.0
max_retries = 1
"""

SAID: Headers = [
    JSON, bearer("all"), ("x-region", "eu"), ("tier", "plain"), ("x-narrows-session", "s-1"), ("x-request-id", "r-1"),
]  # fmt: skip
CALLERS: dict[str, object] = {
    "temperature": 0.5,
    "tools": [{"type": "function", "function": {"name": "add"}}],
    "metadata": {"x-region": "eu", "own": "yes"},
    "max_tokens": 5,
    "user": "u-1",
}


@pytest.fixture(scope="module", params=WAYS)
def started(request: pytest.FixtureRequest) -> Iterator[Site]:
    with opened(request.param, EVERYTHING, open_access=False) as site:
        yield site


@pytest.fixture
def site(started: Site) -> Site:
    started.clear()
    return started


@pytest.mark.parametrize("stream", [False, True])
def test_a28_the_body_is_the_callers_and_the_operators(site: Site, stream: bool) -> None:
    sent = json.loads(chat("chat", stream=stream, **CALLERS))
    assert site.send(chat("chat", stream=stream, **CALLERS), SAID).status_code == 200
    (call,) = site.provider.calls
    assert call.json == {**sent, "model": "model-1"}
    assert call.path == "/v1/chat/completions"


def test_a28_also_of_the_second_attempt(site: Site) -> None:
    site.provider.script("model-1", Answer(503))
    sent = json.loads(chat("chat", **CALLERS))
    assert site.send(chat("chat", **CALLERS), SAID).status_code == 200
    first, *_, last = site.provider.calls
    assert first.json == {**sent, "model": "model-1"}
    assert last.json == {**sent, "model": "model-2", "top_k": 5}


def test_a28_no_name_and_no_value_of_ours_is_in_a_call(site: Site) -> None:
    assert site.send(chat("chat"), SAID).status_code == 200
    (call,) = site.provider.calls
    told = call.body + "".join(f"{name}: {value}\n" for name, value in call.headers).encode() + call.path.encode()
    ours = [
        "narrows", "residency", "data-region", "x-region", "payments", "intern", "marked", "spare", "ordered", "region",
        "class", "retention", "training", "jurisdiction", "price", "capabilities", "context_window", "failover",
        "deadline", "retries", "timeout_secs", "max_connections", "may_say", "sha256", "tenant", "policy", "dec_",
        "33.0", "4444", "8123", "s-1", "r-1", '"chat"', sha256("all"),
    ]  # fmt: skip
    assert [word for word in ours if word.encode() in told.lower()] == []
    assert call.header("x-title") == "ours"  # what an operator asked for, in its own table
