"""Every guarantee, on every way in: the same requests of the official client, streamed and not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
import openai
import pytest
from openai import AsyncOpenAI

from narrows import FailureClass
from narrows.failover import MOVING
from narrows.testing import Answer, Hold, Stream, failure_answer, stream_events
from tests.ways.config import EU, EVERYBODY, GOLD, KEYS, LAWYER, LEGAL, LIMITED, LOCAL, SALES, UPSTREAM_KEY, US
from tests.ways.sites import Site

pytestmark = pytest.mark.anyio
F = FailureClass
IN_THE_EU = {"x-region": "eu"}
PROMPT = "PROMPT-canary-2c4e"
MESSAGES: Any = [{"role": "user", "content": PROMPT}]
SOON = 1.0
"""Seconds within which a caller's leaving must have reached the upstream."""

PLAIN_OR_STREAM = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


async def ask(client: AsyncOpenAI, model: str = "agent", *, stream: bool = False, **more: Any) -> str:
    """What was answered, read to the end."""
    if not stream:
        answer = await client.chat.completions.create(model=model, messages=MESSAGES, **more)
        return answer.choices[0].message.content or ""
    chunks = await client.chat.completions.create(model=model, messages=MESSAGES, stream=True, **more)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])


async def answered(site: Site, headers: Mapping[str, str] | None = None, model: str = "agent", **more: Any) -> str:
    """The same for one caller, on its way."""
    got: list[str] = []

    async def scenario(client: AsyncOpenAI) -> None:
        got.append(await ask(client, model, **more))

    await site.run(scenario, headers)
    return got[0]


# ---- a target that a rule removed --------------------------------------------------------------------------------


@PLAIN_OR_STREAM
async def test_who_says_eu_is_answered_there_and_nothing_else_is_called(site: Site, stream: bool) -> None:
    assert await answered(site, IN_THE_EU, stream=stream) == f"Answered by {LOCAL}."
    assert site.counts(LOCAL, US, EU, GOLD) == (1, 0, 0, 0)


@PLAIN_OR_STREAM
@pytest.mark.parametrize("failure", sorted(MOVING))
async def test_failover_stays_in_the_eu(site: Site, failure: FailureClass, stream: bool) -> None:
    broken = failure_answer(failure, status=503 if failure is F.SERVER_ERROR else None)
    tries = 1 if failure is F.RATE_LIMITED else 2
    site.provider.script(LOCAL, broken)
    assert await answered(site, IN_THE_EU, stream=stream) == f"Answered by {EU}."
    assert site.counts(LOCAL, US, EU, GOLD) == (tries, 0, 1, 0)

    site.provider.script(EU, broken)
    with pytest.raises(openai.APIStatusError) as caught:
        await answered(site, IN_THE_EU, stream=stream)
    assert caught.value.status_code == broken.status
    assert site.counts(US, GOLD) == (0, 0)

    # the control: who says nothing is served in the US, by the same gateway
    assert await answered(site, stream=stream) == f"Answered by {US}."
    assert site.counts(US, GOLD) == (1, 0)


@PLAIN_OR_STREAM
async def test_a_repeat_stays_where_it_was(site: Site, stream: bool) -> None:
    site.provider.script(LOCAL, failure_answer(F.SERVER_ERROR), Answer())
    assert await answered(site, IN_THE_EU, stream=stream) == f"Answered by {LOCAL}."
    assert site.counts(LOCAL, US, EU, GOLD) == (2, 0, 0, 0)


async def test_a_stream_that_is_cut_ends_in_an_error_and_moves_nowhere(site: Site) -> None:
    first, second, *_ = stream_events(LOCAL)
    site.provider.script(LOCAL, Stream((first, second), cut_at=len(first + second)))
    for headers in (IN_THE_EU, None):
        with pytest.raises(openai.APIError) as caught:
            await answered(site, headers, stream=True)
        assert not isinstance(caught.value, openai.APIStatusError)
        assert caught.value.code == "upstream_incomplete"
    assert site.counts(LOCAL, US, EU, GOLD) == (2, 0, 0, 0)
    site.provider.script(LOCAL, failure_answer(F.SERVER_ERROR))  # the control: before the first byte it does move
    assert await answered(site, stream=True) == f"Answered by {US}."


@PLAIN_OR_STREAM
@pytest.mark.parametrize("failure", sorted(set(F) - MOVING))
async def test_four_classes_stop(site: Site, failure: FailureClass, stream: bool) -> None:
    site.provider.script(LOCAL, failure_answer(failure))
    with pytest.raises(openai.APIStatusError) as caught:
        await answered(site, stream=stream)
    assert caught.value.status_code == (502 if failure is F.AUTHENTICATION else 400)
    assert caught.value.response.headers["x-narrows-class"] == failure
    assert site.counts(LOCAL, US, EU, GOLD) == (1, 0, 0, 0)
    site.provider.script(LOCAL, failure_answer(F.RATE_LIMITED))  # the control
    assert await answered(site, stream=stream) == f"Answered by {US}."


# ---- refusals ----------------------------------------------------------------------------------------------------


@PLAIN_OR_STREAM
async def test_a_refusal_is_told_once_with_its_reasons_and_calls_nobody(site: Site, stream: bool) -> None:
    async def scenario(client: AsyncOpenAI) -> None:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            await ask(client.with_options(max_retries=2), "us_only", stream=stream)
        assert caught.value.code == caught.value.response.headers["x-narrows-code"] == "no_eligible_target"
        body: Any = caught.value.body
        assert body["exclusions"] == [{"constraint": "residency", "code": "attribute_mismatch", "count": 1}]
        assert body["decision"] == caught.value.response.headers["x-narrows-decision"]

    await site.run(scenario, IN_THE_EU)
    assert site.provider.count() == 0
    assert len(site.asked) == 1  # the official client did not ask again
    decision = site.kept.only()
    assert (decision.outcome, decision.code, decision.attempts) == ("refused", "no_eligible_target", ())
    assert await answered(site, model="us_only", stream=stream) == f"Answered by {US}."
    assert site.counts(US) == (1,)


@PLAIN_OR_STREAM
async def test_what_is_not_granted_does_not_exist(site: Site, stream: bool) -> None:
    async def scenario(client: AsyncOpenAI) -> None:
        assert [model.id async for model in client.models.list()] == ["agent", "us_only"]
        with pytest.raises(openai.NotFoundError) as caught:
            await ask(client, "desks", stream=stream)
        assert caught.value.code == "unknown_model"
        with pytest.raises(openai.PermissionDeniedError):
            await ask(client, "us_only", stream=stream, extra_headers=IN_THE_EU)
        assert site.provider.count() == 0
        site.provider.script(LOCAL, failure_answer(F.RATE_LIMITED))
        with pytest.raises(openai.RateLimitError):  # its only other target is in the US
            await ask(client, stream=stream, extra_headers=IN_THE_EU)
        assert site.counts(US, EU) == (0, 0)
        assert await ask(client, "us_only", stream=stream) == f"Answered by {US}."

    async def control(client: AsyncOpenAI) -> None:
        assert [model.id async for model in client.models.list()] == ["agent", "us_only", "desks"]
        assert await ask(client, "desks", stream=stream) == f"Answered by {SALES}."
        assert await ask(client, stream=stream, extra_headers=IN_THE_EU) == f"Answered by {EU}."

    await site.run(scenario, key=LIMITED)
    await site.run(control)
    assert {decision.principal for decision in site.kept.all(6)} == {LIMITED, EVERYBODY}


async def test_who_is_nobody_is_refused(site: Site) -> None:
    async def scenario(client: AsyncOpenAI) -> None:
        for stream in (False, True):
            with pytest.raises(openai.AuthenticationError) as caught:
                await ask(client, stream=stream)
            assert caught.value.code == "unauthenticated"
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()

    await site.run(scenario, key="nobody")
    assert site.provider.count() == 0
    assert await answered(site) == f"Answered by {LOCAL}."


@PLAIN_OR_STREAM
async def test_a_field_that_would_route_outside_never_leaves(site: Site, stream: bool) -> None:
    async def scenario(client: AsyncOpenAI) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(client, stream=stream, extra_body={"provider": {"order": ["somebody"]}})
        assert (caught.value.code, caught.value.param) == ("field_refused", "provider")
        assert site.provider.count() == 0
        assert await ask(client, stream=stream, seed=7) == f"Answered by {LOCAL}."
        assert site.provider.calls[0].fields["seed"] == 7

    await site.run(scenario)


# ---- what a request says of itself -------------------------------------------------------------------------------


@PLAIN_OR_STREAM
async def test_attributes_of_every_source_speak_together(site: Site, stream: bool) -> None:
    """Bound by the tenant of the key, said by a header, said in the body: none takes back what another one said."""

    async def bound(client: AsyncOpenAI) -> None:
        assert await ask(client, "desks", stream=stream) == f"Answered by {LEGAL}."
        with pytest.raises(openai.PermissionDeniedError):
            await ask(client, "desks", stream=stream, extra_headers={"desk": "sales"})
        with pytest.raises(openai.PermissionDeniedError):
            await ask(client, "desks", stream=stream, metadata={"desk": "sales"})
        assert site.counts(SALES, LEGAL) == (0, 1)

    async def free(client: AsyncOpenAI) -> None:
        assert await ask(client, "desks", stream=stream) == f"Answered by {SALES}."
        assert await ask(client, "desks", stream=stream, extra_headers={"desk": "legal"}) == f"Answered by {LEGAL}."
        assert await ask(client, "desks", stream=stream, metadata={"desk": "legal"}) == f"Answered by {LEGAL}."
        with pytest.raises(openai.PermissionDeniedError):
            await ask(client, "desks", stream=stream, extra_headers={"desk": "legal"}, metadata={"desk": "sales"})
        assert site.counts(SALES, LEGAL) == (1, 3)

    await site.run(bound, key=LAWYER)
    await site.run(free)


# ---- the caller leaves -------------------------------------------------------------------------------------------


async def test_leaving_a_stream_closes_the_upstream(site: Site) -> None:
    first, *others = stream_events(LOCAL)
    site.provider.script(LOCAL, Stream((first, Hold(), *others)))

    async def scenario(client: AsyncOpenAI) -> None:
        async with await client.chat.completions.create(model="agent", messages=MESSAGES, stream=True) as chunks:
            await anext(aiter(chunks))
            assert site.provider.closed == 0
        await anyio.to_thread.run_sync(site.provider.wait_closed, 1, SOON)

    await site.run(scenario, IN_THE_EU)
    decision = site.kept.only()
    assert decision.outcome == "client_disconnected"
    assert site.counts(LOCAL, US, EU, GOLD) == (1, 0, 0, 0)


@PLAIN_OR_STREAM
async def test_leaving_before_the_answer_closes_the_upstream(site: Site, stream: bool) -> None:
    site.provider.script(LOCAL, Answer(before=Hold()))

    async def scenario(client: AsyncOpenAI) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: ask(client, stream=stream))
            await anyio.to_thread.run_sync(site.provider.wait_calls, 1)
            await anyio.to_thread.run_sync(site.provider.wait_held, 1)
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(site.provider.wait_closed, 1, SOON)

    await site.run(scenario, IN_THE_EU)
    decision = site.kept.only()
    assert decision.outcome == "client_disconnected"
    assert site.counts(LOCAL, US, EU, GOLD) == (1, 0, 0, 0)


# ---- told before, and kept afterwards ----------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "headers"), [("agent", IN_THE_EU), ("agent", {}), ("us_only", IN_THE_EU)])
async def test_explain_says_what_then_happens(site: Site, model: str, headers: dict[str, str]) -> None:
    for name in (LOCAL, US, EU, GOLD):
        site.provider.script(name, failure_answer(F.RATE_LIMITED))

    async def scenario(client: AsyncOpenAI) -> None:
        body = {"model": model, "messages": MESSAGES}
        told: Any = await client.post("/explain", cast_to=object, body=body)
        assert site.provider.count() == 0
        with pytest.raises(openai.APIStatusError) as caught:
            await ask(client, model)
        live = caught.value.response.headers
        decision = site.kept.of(live["x-narrows-decision"])
        assert told["order"] == list(dict.fromkeys(row.target for row in decision.attempts))
        removed = {row["target"] for row in told["targets"] if not row["eligible"]}
        assert removed == {row.target for row in decision.excluded}
        assert "gold_eu" in removed or model == "us_only"
        if told["outcome"] == "refused":
            assert (told["status"], told["code"]) == (caught.value.status_code, caught.value.code)
        assert told["principal"] == decision.principal == EVERYBODY
        assert told["policy"] == live["x-narrows-policy"] == site.gateway.policy

    await site.run(scenario, headers)


@PLAIN_OR_STREAM
async def test_no_credential_of_a_caller_goes_upstream_and_no_content_is_kept(site: Site, stream: bool) -> None:
    site.provider.script(LOCAL, failure_answer(F.RATE_LIMITED))
    await answered(site, {**IN_THE_EU, "x-narrows-session": "SESSION-canary"}, stream=stream)
    assert [call.model for call in site.provider.calls] == [LOCAL, EU]  # the targets' own, not the route's name
    for call in site.provider.calls:
        assert call.header("authorization") == f"Bearer {UPSTREAM_KEY}"
        told = f"{call.headers} {call.body!r}"
        assert PROMPT in told
        for secret in (*KEYS.values(), "nrw_", "SESSION-canary", "x-region", "x-api-key"):
            assert secret not in told
    decision = site.kept.only()
    kept = json.dumps(decision.document())
    assert EVERYBODY in kept
    for secret in (PROMPT, "Answered by", *KEYS.values(), UPSTREAM_KEY):
        assert secret not in kept


@PLAIN_OR_STREAM
async def test_a_callers_trace_goes_on_to_the_upstream(site: Site, stream: bool) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    await answered(site, {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}, stream=stream)
    await answered(site, stream=stream)
    first, second = (call.header("traceparent") or "" for call in site.provider.calls)
    assert first.split("-")[1] == trace
    assert trace not in second


@PLAIN_OR_STREAM
async def test_any_other_path_passes_nothing_through(site: Site, stream: bool) -> None:
    async def scenario(client: AsyncOpenAI) -> None:
        for call in (
            client.embeddings.create(model="agent", input=PROMPT),
            client.responses.create(model="agent", input=PROMPT, stream=stream),
            client.completions.create(model="agent", prompt=PROMPT, stream=stream),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                await call
            assert caught.value.code == "not_found"
        assert site.provider.count() == 0
        assert await ask(client, stream=stream) == f"Answered by {LOCAL}."

    await site.run(scenario)
