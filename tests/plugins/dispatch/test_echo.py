"""`echo`: valid answers and streams, failures as told, calls counted, and a stream that can be left at any time."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskStatus
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import ValidationError

from narrows import FailureClass, Reply
from narrows_plugins.dispatch.echo import PATH, Echo
from tests.plugins.dispatch.attempts import FakeAttempt, chat, read
from tests.plugins.narrow.ruling import block, hooks
from tests.support.sse import sse_events

pytestmark = pytest.mark.anyio


async def ask(provider: Echo, body: bytes) -> Reply:
    attempt = FakeAttempt(body, {"traceparent": "00-1"}, provider)
    reply = await provider.dispatch(attempt)
    assert attempt.sent == [(PATH, {"traceparent": "00-1"}, body)]
    return reply


async def completion(provider: Echo, body: bytes) -> ChatCompletion:
    reply = await ask(provider, body)
    assert (reply.status, reply.header("content-type")) == (200, "application/json")
    return ChatCompletion.model_validate_json(await read(reply), strict=True)


async def chunks(provider: Echo, body: bytes) -> list[ChatCompletionChunk]:
    """The stream, each event as the official client's type; it ends with [DONE]."""
    reply = await ask(provider, body)
    assert (reply.status, reply.header("content-type")) == (200, "text/event-stream; charset=utf-8")
    *events, last = sse_events(await read(reply))
    assert last.data == "[DONE]"
    return [ChatCompletionChunk.model_validate_json(event.data, strict=True) for event in events]


async def test_it_answers_with_the_model_and_the_last_user_message() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Second"},
        {"role": "assistant", "content": "And?"},
    ]
    answer = await completion(block(Echo), json.dumps({"model": "small-1", "messages": messages}).encode())
    assert answer.model == "small-1"
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("small-1: Second", "stop")


async def test_the_text_parts_of_a_message_are_joined() -> None:
    parts = [
        {"type": "text", "text": "What is "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "this?"},
    ]
    assert (await completion(block(Echo), chat(parts))).choices[0].message.content == "m: What is this?"


@pytest.mark.parametrize("messages", [[], [{"role": "system", "content": "x"}], None, "x", [7], [{"role": "user"}]])
async def test_without_a_user_message_it_says_so_or_nothing(messages: object) -> None:
    answer = await completion(block(Echo), json.dumps({"model": "m", "messages": messages}).encode())
    assert answer.choices[0].message.content in ("m: (no user message)", "m: ")


async def test_a_stream_says_the_same_in_pieces() -> None:
    events = await chunks(block(Echo), chat("Hello you  there", stream=True))
    assert "".join(event.choices[0].delta.content or "" for event in events) == "m: Hello you  there"
    assert events[0].choices[0].delta.role == "assistant"
    assert [event.choices[0].finish_reason for event in events] == [None] * (len(events) - 1) + ["stop"]
    assert len({event.id for event in events}) == 1
    assert all(event.usage is None for event in events)


async def test_a_stream_ends_with_usage_where_it_is_asked_for() -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    *events, last = await chunks(block(Echo), body)
    assert last.choices == []
    assert last.usage == (await completion(block(Echo), chat())).usage
    assert all(event.choices and event.usage is None for event in events)


async def test_usage_comes_from_the_sizes_of_the_texts() -> None:
    usage = (await completion(block(Echo), chat("x" * 40))).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 11, 21)


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_it_never_says_more_than_it_was_asked_for(limit: str) -> None:
    answer = await completion(block(Echo), chat("é" * 400, n=3, more={limit: 5}))
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 15
    assert [choice.finish_reason for choice in answer.choices] == ["length"] * 3
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


async def test_several_choices_are_streamed_each() -> None:
    events = await chunks(block(Echo), chat("Hi", stream=True, n=2))
    texts = {0: "", 1: ""}
    for event in events:
        texts[event.choices[0].index] += event.choices[0].delta.content or ""
    assert texts == {0: "m: Hi", 1: "m: Hi"}


# ---- failures ----------------------------------------------------------------------------------------------------

FAILURES = {
    FailureClass.TIMEOUT: (504, "timeout"),
    FailureClass.RATE_LIMITED: (429, "rate_limit_exceeded"),
    FailureClass.SERVER_ERROR: (503, None),
    FailureClass.CONTENT_POLICY: (400, "content_policy_violation"),
    FailureClass.AUTHENTICATION: (401, "invalid_api_key"),
    FailureClass.CONTEXT_LENGTH: (400, "context_length_exceeded"),
    FailureClass.INVALID_REQUEST: (400, "unknown_parameter"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", FailureClass)
async def test_it_fails_as_it_is_told(failure: FailureClass, stream: bool) -> None:
    reply = await ask(block(Echo, fail=failure.value), chat(stream=stream))
    body = json.loads(await read(reply))
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (reply.status, body["error"]["code"]) == FAILURES[failure]
    assert reply.header("content-type") == "application/json"


async def test_only_the_first_calls_fail() -> None:
    provider = block(Echo, fail="server_error", fail_times=2)
    assert [(await ask(provider, chat())).status for _ in range(4)] == [503, 503, 200, 200]


async def test_without_a_number_every_call_fails() -> None:
    provider = block(Echo, fail="server_error")
    assert [(await ask(provider, chat())).status for _ in range(4)] == [503] * 4


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"model": 1}', b"[" * 5000])
async def test_a_body_that_is_no_request_is_400(body: bytes) -> None:
    provider = block(Echo)
    assert (await ask(provider, body)).status == 400
    assert (await ask(provider, chat())).status == 200


async def test_another_path_is_404() -> None:
    assert (await block(Echo).answer("/embeddings", {}, chat())).status == 404


# ---- counting ----------------------------------------------------------------------------------------------------


async def test_calls_are_counted_by_model_failed_ones_too() -> None:
    provider, other = block(Echo, fail="rate_limited", fail_times=1), block(Echo)
    for model in ("a", "b", "a"):
        await ask(provider, chat(model=model))
    assert (provider.count("a"), provider.count("b"), provider.count("c"), provider.count()) == (2, 1, 0, 3)
    assert other.count() == 0


# ---- time --------------------------------------------------------------------------------------------------------


async def test_a_delayed_answer_waits_and_can_be_left() -> None:
    provider = block(Echo, delay_secs=3600)
    with anyio.move_on_after(0.02) as scope:
        await ask(provider, chat())
    assert scope.cancelled_caught
    assert provider.count("m") == 1


async def test_a_paced_stream_gives_its_first_event_at_once_and_can_be_left() -> None:
    reply = await ask(block(Echo, chunk_delay_secs=3600), chat(stream=True))
    events = aiter(reply.chunks)
    assert b'"role":"assistant"' in await anext(events)
    with anyio.move_on_after(0.02) as scope:
        await anext(events)
    assert scope.cancelled_caught


async def test_closing_from_another_task_ends_a_stream_that_is_waited_for() -> None:
    reply = await ask(block(Echo, chunk_delay_secs=3600), chat(stream=True))
    events = aiter(reply.chunks)
    await anext(events)
    got: list[Any] = []

    async def wait(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        got.extend([chunk async for chunk in events])
        got.append("ended")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            await tasks.start(wait)
            await anyio.lowlevel.checkpoint()
            await reply.chunks.aclose()
    assert got == ["ended"]
    await reply.chunks.aclose()
    assert await read(reply) == b""


# ---- load --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"base_url": "http://127.0.0.1:1/v1"}, "echo answers in this process"),
        ({"proxy": "http://127.0.0.1:1"}, "echo answers in this process"),
        ({"fail": "sometimes"}, "Input should be 'timeout', 'rate_limited'"),
        ({"fail_times": 2}, "has fail_times without fail"),
        ({"fail": "timeout", "fail_times": 0}, "1 or more"),
        ({"delay_secs": -1}, "must be from 0 to 3600 seconds"),
        ({"delay_secs": float("nan")}, "must be from 0 to 3600 seconds"),
        ({"chunk_delay_secs": 1e9}, "must be from 0 to 3600 seconds"),
        ({"api_key_env": "X"}, "Extra inputs"),
    ],
)
async def test_options_that_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        block(Echo, **options)


async def test_the_registry_takes_it() -> None:
    assert hooks("providers.demo", block(Echo)) == ("dispatch",)
    assert block(Echo).credential() is None
    assert block(Echo).base_url is None
