"""The official client through the transport: both of its HTTP libraries, streaming and not, on both backends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from narrows.server import transport
from narrows.testing import completion, stream_events
from tests.core.server.fake import FakeGateway, Gate, stream, whole

pytestmark = pytest.mark.anyio
ASK = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture(params=["httpx", "httpx2"])
async def client(request: pytest.FixtureRequest, gateway: FakeGateway) -> AsyncIterator[AsyncOpenAI]:
    inner: httpx2.AsyncClient | httpx.AsyncClient
    if request.param == "httpx2":
        inner = httpx2.AsyncClient(transport=transport(gateway, "ci", "httpx2"))
    else:
        inner = httpx.AsyncClient(transport=transport(gateway, "ci"))
    async with AsyncOpenAI(base_url="http://narrows/v1", api_key="-", http_client=inner) as made:  # type: ignore[arg-type]
        yield made


async def test_an_answer(gateway: FakeGateway, client: AsyncOpenAI) -> None:
    gateway.script = whole(json.dumps(completion("chat", "hi")).encode())
    answer = await client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "hello"}])
    assert answer.choices[0].message.content == "hi"
    (seen,) = gateway.seen
    assert (seen.inbound.path, json.loads(seen.body), seen.end) == ("/v1/chat/completions", ASK, "normal")


async def test_a_stream_arrives_chunk_by_chunk(gateway: FakeGateway, client: AsyncOpenAI) -> None:
    gate = Gate()
    events = list(stream_events("chat", "one two"))
    gateway.script = stream(*events, gate=gate)
    answer = await client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    said = []
    async for chunk in answer:
        said.append(chunk.choices[0].delta.content)
        assert gateway.seen[0].chunks == len(said)  # the next event is made after this one has been read
        gate.release()
    assert said == ["", "one", " two", None]
    assert gateway.ends == ["normal"]


async def test_a_stream_that_is_left(gateway: FakeGateway, client: AsyncOpenAI) -> None:
    gateway.script = stream(*stream_events("chat", "one two"), gate=Gate())
    async with await client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": "hello"}], stream=True
    ) as answer:
        await anext(aiter(answer))
        assert gateway.ends == [None]
    assert gateway.ends == ["gone"]


async def test_a_refusal_is_not_tried_again(gateway: FakeGateway, client: AsyncOpenAI) -> None:
    error = {"error": {"message": "no", "type": "x", "param": None, "code": "budget_held"}}
    gateway.script = whole(json.dumps(error).encode(), 429, ("x-should-retry", "false"))
    with pytest.raises(openai.RateLimitError) as caught:
        await client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "hello"}])
    assert caught.value.code == "budget_held"
    assert len(gateway.seen) == 1
