"""`/metrics` on every way in: over a socket of this machine it is answered, from inside the process it is not."""

from __future__ import annotations

import pytest
from openai import AsyncOpenAI

from tests.support.metrics import Scrape
from tests.ways.sites import Way, opened
from tests.ways.test_guarantees import ask

pytestmark = pytest.mark.anyio

SOCKETS = (Way.ALONE, Way.ATTACHED_TO_STARLETTE, Way.AROUND_FASTAPI)
INSIDE = (Way.INSIDE_STARLETTE, Way.OUTSIDE_HTTPX)


@pytest.mark.parametrize("way", [*SOCKETS, *INSIDE])
async def test_it_is_served_below_the_mount(way: Way, anyio_backend: str, quick: None) -> None:
    async with opened(way, anyio_backend) as site:
        answers: list[tuple[int, str]] = []

        async def scenario(client: AsyncOpenAI) -> None:
            await ask(client)
            http, base_url = client._client, str(client.base_url).removesuffix("v1/")
            response = await http.get(f"{base_url}metrics")
            answers.append((response.status_code, response.text))
            assert (await http.get(f"{base_url}metrics", headers={"x-forwarded-for": "127.0.0.1"})).status_code == 403

        await site.run(scenario)
        ((status, text),) = answers
        if way in INSIDE:
            assert (status, "narrows_build_info" in text) == (403, False)
        else:
            assert status == 200
            assert Scrape(text)("build_info", version="0.1.0") == 1
