"""A27 (OpenRouterTeam/ai-sdk-provider#153): `only`, `order` and `allow_fallbacks` were lost on the way, and another
provider was used.

A caller that sends a vendor's routing object is refused by name, with what to configure instead, and nothing is called.
What an operator sets arrives upstream byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.surface.support import WAYS, Site, assert_refused, chat, opened

OPERATORS = '{"only":["deepinfra"],"order":["a","b"],"allow_fallbacks":false,"data_collection":"deny","max_price":{"prompt":1,"completion":2.5}}'

TEXT = """
[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"

[targets.pinned]
provider = "vendor"
model = "vendor/model-1"
extra_body = { provider = { only = ["deepinfra"], order = ["a", "b"], allow_fallbacks = false, data_collection = "deny", max_price = { prompt = 1, completion = 2.5 } }, transforms = [], "ünï" = "c\\u00f6de" }

[targets.plain]
provider = "vendor"
model = "model-2"

[routes.chat]
targets = ["pinned"]

[routes.plain]
targets = ["plain"]
"""


@pytest.fixture(scope="module", params=WAYS)
def started(request: pytest.FixtureRequest) -> Iterator[Site]:
    with opened(request.param, TEXT) as site:
        yield site


@pytest.fixture
def site(started: Site) -> Site:
    started.clear()
    return started


ROUTING = {
    "provider": {"only": ["deepinfra"], "allow_fallbacks": False},
    "only": ["deepinfra"],
    "order": ["deepinfra"],
    "allow_fallbacks": False,
    "models": ["vendor/model-1", "other"],
    "route": "fallback",
    "plugins": [{"id": "web"}],
    "transforms": ["middle-out"],
    "fallbacks": ["other"],
    "api_base": "http://127.0.0.1:1/",
    "web_search_options": {},
    "providerOptions": {"gateway": {"only": ["deepinfra"]}},
    "extra_body": {"provider": {"only": ["deepinfra"]}},
}


@pytest.mark.parametrize("field", ROUTING)
def test_a27_a_callers_routing_is_refused_by_name(site: Site, field: str) -> None:
    for model in ("chat", "plain"):
        error = assert_refused(site.send(chat(model, **{field: ROUTING[field]})), "field_refused")
        assert error["param"] == field
        assert repr(field) in error["message"]
        assert "configuration" in error["message"]
    assert site.provider.calls == []
    site.control()


@pytest.mark.parametrize("stream", [False, True])
def test_a27_an_operators_values_arrive_byte_equal(site: Site, stream: bool) -> None:
    assert site.send(chat(stream=stream)).status_code == 200
    (call,) = site.provider.calls
    assert f'"provider":{OPERATORS}'.encode() in call.body
    assert b'"transforms":[]' in call.body
    assert '"ünï":"cöde"'.encode() in call.body
    assert call.fields.keys() == {"model", "messages", "stream", "provider", "transforms", "ünï"}
    assert call.model == "vendor/model-1"


def test_a27_and_only_on_the_target_that_has_them(site: Site) -> None:
    assert site.send(chat("plain")).status_code == 200
    (call,) = site.provider.calls
    assert call.fields.keys() == {"model", "messages"}
