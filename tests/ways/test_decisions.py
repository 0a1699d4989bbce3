"""A caller reads its own decisions on every way in, and nobody else's."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import openai
import pytest
from openai import AsyncOpenAI

from narrows import Gateway, transport
from tests.support.config import basic_config
from tests.ways.config import EVERYBODY, LIMITED, LOCAL
from tests.ways.sites import Site
from tests.ways.test_guarantees import ask

pytestmark = pytest.mark.anyio
SESSION = "SESSION-canary 91/b+c&d=%41"
RECORDED = 1.0
"""Seconds within which an answer's decision can be read."""


async def page(client: AsyncOpenAI, **params: Any) -> list[dict[str, Any]]:
    """What the official client gets of it."""
    found: Any = await client.get("/decisions", cast_to=object, options={"params": params})
    assert found.keys() == {"data", "next"}
    rows: list[dict[str, Any]] = found["data"]
    return rows


async def newest(client: AsyncOpenAI, before: int) -> dict[str, Any]:
    """The newest decision, once there are more than so many."""
    with anyio.fail_after(RECORDED * 10):  # a loaded machine; test_decisions of the surface says a second
        while True:
            rows = await page(client, limit=200)
            if len(rows) > before:
                return rows[0]
            await anyio.sleep(0.005)


async def test_own_decisions_and_no_others(site: Site) -> None:
    kept: list[str] = []

    async def asks_and_reads(client: AsyncOpenAI) -> None:
        before = len(await page(client, limit=200))
        await ask(client, "agent")
        row = await newest(client, before)
        one: Any = await client.get(f"/decisions/{row['id']}", cast_to=object)
        assert one == row
        assert (row["principal"], row["route"], row["outcome"]) == (LIMITED, "agent", "answered")
        assert [attempt["target"] for attempt in row["attempts"]] == ["local"]
        assert SESSION not in str(row)
        mine = await page(client, session=SESSION)
        assert row["id"] in {found["id"] for found in mine}
        assert {found["session"] for found in mine} == {row["session"]}
        assert await page(client, session="another") == []
        kept.append(row["id"])

    async def reads(client: AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.get(f"/decisions/{kept[0]}", cast_to=object)
        assert caught.value.code == "not_found"
        assert kept[0] not in {row["id"] for row in await page(client, limit=200)}
        with pytest.raises(openai.BadRequestError) as refused:
            await page(client, limit=0)
        assert (refused.value.code, refused.value.param) == ("invalid_body", "limit")

    await site.run(asks_and_reads, {"x-narrows-session": SESSION}, key=LIMITED)
    await site.run(reads, key=EVERYBODY)
    assert site.counts(LOCAL) == (1,)


async def test_a_gateway_that_was_not_started_says_so() -> None:
    gateway = Gateway.from_text(basic_config({"a": "http://127.0.0.1:9/v1"}), open_access=True)
    async with httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        for path in ("/v1/decisions", "/v1/decisions/dec_000000000000000000000000000"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["x-narrows-code"]) == (503, "not_started")
        async with gateway:
            assert (await client.get("/v1/decisions")).json() == {"data": [], "next": None}
