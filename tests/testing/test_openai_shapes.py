"""The default bodies are what the official client understands, and every failure class has its shape."""

from __future__ import annotations

import json

import openai
import pytest

from narrows import FailureClass
from narrows.testing import Answer, RecordingProvider, Stream, completion, error_event, failure_answer, stream_events
from tests.support.http import http_client
from tests.support.sse import sse_events

pytestmark = pytest.mark.anyio

STATUS = {
    FailureClass.TIMEOUT: (504, "timeout"),
    FailureClass.RATE_LIMITED: (429, "rate_limit_exceeded"),
    FailureClass.SERVER_ERROR: (500, None),
    FailureClass.CONTENT_POLICY: (400, "content_policy_violation"),
    FailureClass.AUTHENTICATION: (401, "invalid_api_key"),
    FailureClass.CONTEXT_LENGTH: (400, "context_length_exceeded"),
    FailureClass.INVALID_REQUEST: (400, "unknown_parameter"),
}


def client_of(provider: RecordingProvider) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=provider.base_url, api_key="sk-test", max_retries=0)


async def test_the_official_client_reads_a_completion(provider: RecordingProvider) -> None:
    provider.script("filtered", Answer(200, completion("filtered", "", usage=(100, 0), finish="content_filter")))
    async with client_of(provider) as client:
        plain = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        filtered = await client.chat.completions.create(model="filtered", messages=[{"role": "user", "content": "hi"}])
    assert (plain.choices[0].message.content, plain.choices[0].finish_reason) == ("Answered by m.", "stop")
    assert plain.usage is not None
    assert (plain.usage.prompt_tokens, plain.usage.completion_tokens, plain.usage.total_tokens) == (7, 5, 12)
    assert (filtered.choices[0].message.content, filtered.choices[0].finish_reason) == ("", "content_filter")


@pytest.mark.parametrize("with_usage", [False, True])
async def test_the_official_client_reads_a_stream(provider: RecordingProvider, with_usage: bool) -> None:
    async with client_of(provider) as client:
        stream = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": with_usage},
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in deltas) == "Answered by m."
    assert deltas[0].delta.role == "assistant"
    assert [choice.finish_reason for choice in deltas] == [None] * (len(deltas) - 1) + ["stop"]
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == [12] * with_usage


def test_a_text_survives_its_cutting_into_deltas() -> None:
    text = "  two  spaces\nand a line "
    *events, done = sse_events(b"".join(stream_events("m", text)))
    contents = [json.loads(event.data)["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(contents) == text
    assert done.data == "[DONE]"


@pytest.mark.parametrize("failure", FailureClass)
async def test_every_failure_class_has_its_answer(provider: RecordingProvider, failure: FailureClass) -> None:
    provider.default(failure_answer(failure), failure_answer(failure, status=418, retry_after=1.5, message="mine"))
    async with http_client() as client:
        usual, changed = [await client.post(provider.base_url, json={}) for _ in range(2)]
    status, code = STATUS[failure]
    assert (usual.status_code, usual.json()["error"]["code"]) == (status, code)
    assert set(usual.json()["error"]) == {"message", "type", "param", "code"}
    assert "retry-after" not in usual.headers
    assert (changed.status_code, changed.headers["retry-after"]) == (418, "1.5")
    assert (changed.json()["error"]["message"], changed.json()["error"]["code"]) == ("mine", code)


@pytest.mark.parametrize("failure", FailureClass)
async def test_every_failure_class_has_its_event(provider: RecordingProvider, failure: FailureClass) -> None:
    provider.default(Stream((*stream_events("m")[:2], error_event(failure))))
    async with client_of(provider) as client:
        stream = await client.chat.completions.create(model="m", messages=[], stream=True)
        assert [(await anext(stream)).model for _ in range(2)] == ["m", "m"]
        with pytest.raises(openai.APIError) as caught:
            await anext(stream)
    assert caught.value.code == STATUS[failure][1]


@pytest.mark.parametrize(("status", "kind"), [(400, "invalid_request_error"), (500, "server_error")])
async def test_an_answer_without_a_body_is_an_error_from_400_up(
    provider: RecordingProvider, status: int, kind: str
) -> None:
    provider.default(Answer(status))
    async with http_client() as client:
        reply = await client.post(provider.base_url, json={"model": "m", "stream": True})
    assert (reply.status_code, reply.json()["error"]["type"]) == (status, kind)
