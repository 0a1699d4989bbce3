"""The transport of a request: what a host's own client inherits from it, what it can add, and what it cannot shed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from starlette.requests import Request
from starlette.responses import Response

from narrows import FailureClass
from narrows.testing import failure_answer
from tests.support.http import http_client
from tests.ways.config import EU, EVERYBODY, KEYS, LIMITED, LOCAL, SALES, US
from tests.ways.sites import InsideAHandler, Way, opened

pytestmark = pytest.mark.anyio
MESSAGES: Any = [{"role": "user", "content": "hello"}]
IN_THE_EU, IN_THE_US = {"x-region": "eu"}, {"x-region": "us"}
PLAIN_OR_STREAM = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


@pytest.fixture(scope="module", params=[Way.INSIDE_STARLETTE, Way.INSIDE_FASTAPI])
async def running(request: pytest.FixtureRequest, anyio_backend: str, quick: None) -> AsyncIterator[InsideAHandler]:
    async with opened(request.param, anyio_backend) as site:
        assert isinstance(site, InsideAHandler)
        yield site


@pytest.fixture
def site(running: InsideAHandler) -> InsideAHandler:
    running.reset()
    running.provider.script(LOCAL, failure_answer(FailureClass.RATE_LIMITED))  # so that the US is the next one
    return running


async def ask(client: AsyncOpenAI, model: str = "agent", *, stream: bool = False, **more: Any) -> str:
    if not stream:
        answer = await client.chat.completions.create(model=model, messages=MESSAGES, **more)
        return answer.choices[0].message.content or ""
    chunks = await client.chat.completions.create(model=model, messages=MESSAGES, stream=True, **more)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])


@PLAIN_OR_STREAM
async def test_what_the_outer_request_says_binds_every_inner_one(site: InsideAHandler, stream: bool) -> None:
    async def scenario(client: AsyncOpenAI) -> None:
        for _ in range(2):
            assert await ask(client, stream=stream) == f"Answered by {EU}."
        with pytest.raises(openai.PermissionDeniedError):  # both speak: no target is in both
            await ask(client, stream=stream, extra_headers=IN_THE_US)
        assert site.counts(US, EU) == (0, 2)

    async def control(client: AsyncOpenAI) -> None:
        assert await ask(client, stream=stream) == f"Answered by {US}."
        assert await ask(client, stream=stream, extra_headers=IN_THE_US) == f"Answered by {US}."

    await site.run(scenario, IN_THE_EU)
    await site.run(control)


@PLAIN_OR_STREAM
async def test_an_inner_header_adds(site: InsideAHandler, stream: bool) -> None:
    async def scenario(client: AsyncOpenAI) -> None:
        assert await ask(client, stream=stream, extra_headers=IN_THE_EU) == f"Answered by {EU}."
        assert site.counts(US, EU) == (0, 1)
        assert await ask(client, stream=stream) == f"Answered by {US}."  # of that request alone

    await site.run(scenario)


@PLAIN_OR_STREAM
async def test_an_inner_credential_neither_gives_nor_takes(site: InsideAHandler, stream: bool) -> None:
    def sends(name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {KEYS[name]}", "x-api-key": KEYS[name]}

    async def little(client: AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError):
            await ask(client, "desks", stream=stream, extra_headers=sends(EVERYBODY))
        assert site.counts(SALES) == (0,)

    async def much(client: AsyncOpenAI) -> None:
        assert await ask(client, "desks", stream=stream, extra_headers=sends(LIMITED)) == f"Answered by {SALES}."

    async def nobody(client: AsyncOpenAI) -> None:
        with pytest.raises(openai.AuthenticationError):
            await ask(client, "desks", stream=stream, extra_headers=sends(EVERYBODY))
        assert site.counts(SALES) == (0,)

    await site.run(nobody, key="nobody")
    await site.run(little, key=LIMITED)
    await site.run(much)
    assert [decision.principal for decision in site.kept.all(3)] == [None, LIMITED, EVERYBODY]


async def test_it_still_speaks_for_its_request_when_that_is_over(site: InsideAHandler) -> None:
    """Used first, and in another request of somebody else's, when its own has long been answered."""
    handles: list[Any] = []
    told: list[str] = []

    async def first(request: Request) -> Response:
        handles.append(request.state.narrows)
        return Response()

    async def second(request: Request) -> Response:
        http = httpx.AsyncClient(transport=handles[0].transport)
        async with site.client(http, "http://narrows/v1", KEYS[EVERYBODY], {}) as client:
            told.append(await ask(client))
            with pytest.raises(openai.NotFoundError):
                await ask(client, "desks")
        return Response()

    async with http_client(site.url) as outer:
        await site.host.ask(outer, first, {"authorization": f"Bearer {KEYS[LIMITED]}", "x-region": "us"})
        await site.host.ask(outer, second, {"authorization": f"Bearer {KEYS[EVERYBODY]}", "x-region": "eu"})
    assert [decision.principal for decision in site.kept.all(2)] == [LIMITED, LIMITED]
    assert told == [f"Answered by {US}."]
    assert site.counts(EU, SALES) == (0, 0)
