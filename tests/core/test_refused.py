"""Fields and names that would move a decision outside the gateway: refused by name, with what to configure instead."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Gateway
from narrows.dialects.body import BadBody
from narrows.dialects.refused import REFUSED, SUFFIXES, refuse_fields, routing_suffix
from tests.properties.engine import ask, calls, chat, explain, of_text

NAMED_BY_THE_DESIGN = [
    "models",
    "provider",
    "route",
    "plugins",
    "transforms",
    "fallbacks",
    "api_base",
    "web_search_options",
]
CONFIGURED = ["`targets`", "`constraints`", "`base_url`", "`api_key_env`", "`extra_body`", "`max_retries`"]
"""Each remedy names a key of the file."""

GATEWAY = """
[providers.e]
kind = "echo"
[targets.plain]
provider = "e"
model = "plain"
[targets.searching]
provider = "e"
model = "searching"
capabilities = { "server_tool.web_search" = true }
[targets.not-searching]
provider = "e"
model = "not-searching"
capabilities = { "server_tool.web_search" = false }
[routes.chat]
targets = ["plain", "searching", "not-searching"]
[routes.plain]
targets = ["plain", "not-searching"]
[routes."chat:free"]
targets = ["plain"]
[keys.narrow]
sha256 = "KEY"
targets = ["plain", "not-searching"]
[auth]
mode = "open"
"""  # fmt: skip


def denied(*fields: str) -> tuple[str, str | None, str]:
    with pytest.raises(BadBody) as caught:
        refuse_fields(fields)
    denial = caught.value.denial
    return denial.code, denial.param, denial.why


@pytest.mark.parametrize("field", sorted(REFUSED))
def test_each_field_is_refused_by_name_with_a_remedy(field: str) -> None:
    code, param, why = denied("temperature", field)
    assert (code, param) == ("field_refused", field)
    assert repr(field) in why
    assert any(key in why for key in CONFIGURED), "a remedy says what to write into the file"


def test_the_design_names_some() -> None:
    assert set(NAMED_BY_THE_DESIGN) <= set(REFUSED)


@settings(deadline=None)  # a busy machine is not a finding
@given(st.sampled_from(sorted(REFUSED)), st.data())
def test_no_spelling_slips_through(field: str, data: st.DataObject) -> None:
    """A gateway behind us may take apiBase, API-BASE or api_base."""
    upper = data.draw(st.lists(st.booleans(), min_size=len(field), max_size=len(field)))
    spelt = "".join(char.upper() if up else char for char, up in zip(field, upper, strict=True))
    spelt = spelt.replace("_", data.draw(st.sampled_from(["_", "-", ""]))) + data.draw(st.sampled_from(["", " "]))
    code, param, _ = denied(spelt)
    assert (code, param) == ("field_refused", spelt)


@pytest.mark.parametrize(
    "field",
    ["seed", "response_format", "reasoning_effort", "model", "messages", "user", "tools", "stop", "own", "tier", "service_tier"],
)  # fmt: skip
def test_ordinary_fields_pass(field: str) -> None:
    refuse_fields([field])


def test_a_long_name_is_clipped() -> None:
    _, param, why = denied("models" + " " * 10_000)
    assert param is not None
    assert max(len(param), len(why)) < 300


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_routing_suffix_is_known_in_any_case(suffix: str) -> None:
    assert routing_suffix(f"vendor/model:{suffix}") == suffix
    assert routing_suffix(f"a:b:{suffix.upper()}") == suffix.upper()


@pytest.mark.parametrize(
    "model", ["free", ":free", "model:", "model:latest", "model:free:x", "model-free", "", "model :free x"]
)
def test_other_names_have_none(model: str) -> None:
    assert routing_suffix(model) is None


# ---- through the gateway: refused before any call ----------------------------------------------------------------------


@pytest.fixture
def gateway() -> Gateway:
    return of_text(GATEWAY.replace('[keys.narrow]\nsha256 = "KEY"\ntargets = ["plain", "not-searching"]\n', ""))


@pytest.mark.anyio
async def test_every_field_is_refused_live_and_explained_with_zero_calls(gateway: Gateway) -> None:
    async with gateway:
        for field in REFUSED:
            member: dict[str, Any] = {field: {"anything": True}}
            asked = chat(**member)
            answer, document = await ask(gateway, asked), await explain(gateway, asked)
            error = answer.json()["error"]
            assert (answer.status, error["code"], error["param"]) == (400, "field_refused", field)
            assert (document["code"], document["message"]) == ("field_refused", error["message"])
        assert not any(calls(gateway).values())
        passing = chat(seed=1, response_format={"type": "text"}, reasoning_effort="low")
        assert (await ask(gateway, passing)).target == "plain"


@pytest.mark.anyio
async def test_a_suffix_is_refused_unless_a_route_has_that_whole_name(gateway: Gateway) -> None:
    async with gateway:
        for suffix in SUFFIXES:
            answer = await ask(gateway, chat(model=f"plain:{suffix}"))
            assert (answer.status, answer.code, answer.json()["error"]["param"]) == (400, "field_refused", "model")
            assert f"':{suffix}'" in answer.json()["error"]["message"]
        assert (await ask(gateway, chat(model="plain:latest"))).code == "unknown_model"
        assert not any(calls(gateway).values())
        assert (await ask(gateway, chat(model="chat:free"))).target == "plain"


@pytest.mark.anyio
async def test_a_tool_that_the_vendor_runs_needs_a_target_that_declares_it(gateway: Gateway) -> None:
    search = [{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}]
    async with gateway:
        answer = await ask(gateway, chat(model="plain", tools=search))
        error = answer.json()["error"]
        assert (answer.status, error["code"], error["param"]) == (400, "field_refused", "tools")
        assert 'capabilities = { "server_tool.web_search" = true }' in error["message"]
        assert not any(calls(gateway).values())
        document = await explain(gateway, chat(tools=search))
        assert document["order"] == ["searching"]
        codes = {row["target"]: [why["code"] for why in row["exclusions"]] for row in document["targets"]}
        lacking = ["capability.server_tool.web_search"]
        assert codes == {"plain": lacking, "searching": [], "not-searching": lacking}
        assert (await ask(gateway, chat(tools=search))).target == "searching"
        other = await ask(gateway, chat(tools=[*search, {"type": "mcp"}]))
        assert (other.code, "'mcp'" in other.json()["error"]["message"]) == ("field_refused", True)
        long = await ask(gateway, chat(tools=[{"type": "x" * 100_000}]))
        assert (long.code, len(long.body) < 1000) == ("field_refused", True), "a client's text is clipped"


@pytest.mark.anyio
async def test_a_target_that_is_not_granted_declares_nothing() -> None:
    """The caller may not use the only target that searches: it learns nothing of it."""
    digest = "d9b846bbace034894762c0f0abafc2ea00aab3bf2971a2d55a1be7772168e4bf"
    text = GATEWAY.replace("KEY", digest).replace('mode = "open"', 'mode = "keys"')
    async with of_text(text) as gateway:
        answer = await ask(gateway, chat(key="nrw_example_plain", tools=[{"type": "web_search"}]))
        assert (answer.status, answer.code) == (400, "field_refused")
        assert "searching" not in answer.json()["error"]["message"]
        assert not any(calls(gateway).values())


@pytest.mark.anyio
async def test_a_field_counts_whatever_stands_behind_it(gateway: Gateway) -> None:
    """Also null, also twice, also beside a second fault: the field is named."""
    async with gateway:
        empty: tuple[object, ...] = (None, [], False, 0, "")
        for value in empty:
            assert (await ask(gateway, chat(provider=value))).code == "field_refused"
        both = await ask(gateway, chat(model="none", provider={"order": ["x"]}))
        assert json.loads(both.body)["error"]["param"] == "provider"
        assert not any(calls(gateway).values())
