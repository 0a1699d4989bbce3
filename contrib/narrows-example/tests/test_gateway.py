"""Both kinds inside a gateway, as a caller meets them. The upstream is a real socket that writes down every call.

Nothing here names the classes: the gateway finds the kinds by the entry points of the installed distribution.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import metadata
from typing import Any

import httpx
import pytest

from narrows import ConfigError, Gateway, transport
from narrows.testing import RecordingProvider

pytestmark = pytest.mark.anyio

# 1 USD a token and nothing for input, so that a cost is the number of answer tokens; `spare` costs nothing.
CONFIG = """
[attributes.shift]
values = ["early", "late"]
missing = "refuse"

[constraints.duty]
kind = "business_hours"
request_attribute = "shift"
on_duty = {{ early = "emea", late = "apac" }}

[plugins.cap]
kind = "example_budget"
cap_micro_usd = 12_000_000

[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"

[targets.hamburg]
provider = "vendor"
model = "hamburg"
labels = {{ team = "emea" }}
price = {{ input = 0, output = 1_000_000 }}

[targets.spare]
provider = "vendor"
model = "spare"
labels = {{ team = "emea" }}
price = {{ input = 0, output = 0 }}

[targets.osaka]
provider = "vendor"
model = "osaka"
labels = {{ team = "apac" }}
price = {{ input = 0, output = 1_000_000 }}

[routes.support]
targets = ["hamburg", "osaka"]
constraints = ["duty"]

[routes.emea]
targets = ["hamburg"]
constraints = ["duty"]

[routes.thrifty]
targets = ["hamburg", "spare"]
constraints = ["duty"]

[keys.ci]
[keys.batch]
"""


@asynccontextmanager
async def clients(provider: RecordingProvider, *callers: str) -> AsyncIterator[list[httpx.AsyncClient]]:
    """A client for each caller, all of one started gateway: the host's own way in, no socket between."""
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(Gateway.from_text(CONFIG.format(url=provider.base_url)))
        made = [httpx.AsyncClient(transport=transport(gateway, name), base_url="http://narrows") for name in callers]
        yield [await stack.enter_async_context(one) for one in made]


async def ask(of: httpx.AsyncClient, route: str, shift: str, max_tokens: int = 5) -> httpx.Response:
    body = {"model": route, "messages": [{"role": "user", "content": "hi"}], "max_tokens": max_tokens}
    return await of.post("/v1/chat/completions", json=body, headers={"shift": shift})


def refusal(answer: httpx.Response) -> tuple[int, str, list[Any]]:
    error = answer.json()["error"]
    assert answer.headers["x-narrows-code"] == error["code"]
    return answer.status_code, error["code"], error["exclusions"]


async def test_the_team_on_duty_answers(provider: RecordingProvider) -> None:
    async with clients(provider, "ci") as (ci,):
        late = await ask(ci, "support", "late")
    assert (late.status_code, late.headers["x-narrows-target"]) == (200, "osaka")
    assert (provider.count("osaka"), provider.count("hamburg")) == (1, 0)


async def test_a_team_off_duty_is_never_called(provider: RecordingProvider) -> None:
    async with clients(provider, "ci") as (ci,):
        refused = await ask(ci, "emea", "late")
        assert provider.connections == 0
        served = await ask(ci, "emea", "early")
    off_duty = {"constraint": "duty", "code": "business_hours.off_duty", "count": 1}
    assert refusal(refused) == (403, "no_eligible_target", [off_duty])
    assert (served.status_code, provider.count("hamburg")) == (200, 1)


async def test_a_spent_cap_ends_paid_calls(provider: RecordingProvider) -> None:
    async with clients(provider, "ci", "batch") as (ci, batch):
        served = [await ask(ci, "emea", "early") for _ in range(2)]  # 5 USD each, of 12
        assert [answer.status_code for answer in served] == [200, 200]
        refused = await ask(ci, "emea", "early")
        assert provider.count() == 2
        smaller = await ask(ci, "emea", "early", max_tokens=2)
        somebody_else = await ask(batch, "emea", "early")
    unaffordable = {"constraint": "cap", "code": "unaffordable", "count": 1}
    assert refusal(refused) == (402, "budget_exhausted", [unaffordable])
    assert [smaller.status_code, somebody_else.status_code] == [200, 200]
    assert provider.count() == 4


async def test_a_spent_cap_leaves_what_costs_nothing(provider: RecordingProvider) -> None:
    async with clients(provider, "ci") as (ci,):
        targets = [(await ask(ci, "thrifty", "early")).headers["x-narrows-target"] for _ in range(3)]
    assert targets == ["hamburg", "hamburg", "spare"]


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as refused:
        Gateway.from_text(text)
    return [(problem.code, problem.path) for problem in refused.value.problems]


async def test_mistakes_are_found_before_anything_starts() -> None:
    good = CONFIG.format(url="http://127.0.0.1:9/v1")
    assert Gateway.from_text(good).policy
    assert problems(good.replace('values = ["early", "late"]', 'values = ["early", "late", "night"]')) == [
        ("nobody_on_duty", "constraints.duty.on_duty")
    ]
    assert ("unmet_constraint", "constraints.duty") in problems(good.replace('labels = { team = "apac" }', ""))
    assert len(problems(good.replace("cap_micro_usd = 12_000_000", "cap_micro_usd = -1"))) == 1


async def test_the_file_in_the_readme_works() -> None:
    text = metadata("narrows-example")["Description"]
    (config,) = [block.partition("```")[0] for block in text.split("```toml\n") if block.startswith("[attributes")]
    gateway = Gateway.from_text(config, open_access=True)
    async with gateway, httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as anybody:
        early = await ask(anybody, "support", "early")
        both = await ask(anybody, "support", "early, late")
    assert (early.status_code, early.headers["x-narrows-target"]) == (200, "hamburg")
    assert (both.status_code, both.headers["x-narrows-code"]) == (403, "no_eligible_target")
