"""`dispatch` and `classify_error` hooks that leave the road."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
from pydantic import PrivateAttr

from narrows import Attempt, Block, Body, Classified, Failure, FailureClass, Provider, Reply, Target, hookimpl

SECRET = "text of an exception"
PATH = "/chat/completions"
JSON = {"content-type": "application/json"}


class Sends(Provider):
    """Sends as it should, but for requests that say its act.

    Options: `act`; `elsewhere`, the base URL of somebody who must not be called.
    """

    base_url: str
    act: str
    elsewhere: str

    _kept: list[Attempt] = PrivateAttr(default_factory=list)

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Any:
        """Whatever the act answers. What of the caller's headers may travel says which."""
        if attempt.headers.get("openai-beta") != self.act:
            return await attempt.send(PATH, JSON, attempt.body)
        return await SENDINGS[self.act](self, attempt)


class Answers(Provider):
    """A provider in this process that answers what it should not."""

    act: str

    @hookimpl
    def dispatch(self, attempt: Attempt) -> Any:
        """Not awaitable, which is allowed; no reply, which is not."""
        return ANSWERS[self.act]


Act = Callable[[Sends, Attempt], Awaitable[object]]


async def sends_twice(provider: Sends, attempt: Attempt) -> object:
    await attempt.send(PATH, JSON, attempt.body)
    return await attempt.send(PATH, JSON, attempt.body)


async def sends_twice_and_hides_it(provider: Sends, attempt: Attempt) -> object:
    """Hedging, and a broad `suppress` around it."""
    reply = await attempt.send(PATH, JSON, attempt.body)
    with suppress(Exception):
        await attempt.send(PATH, JSON, attempt.body)
    return reply


async def sends_twice_and_renames_it(provider: Sends, attempt: Attempt) -> object:
    """A failure of its own would only move the request on."""
    await attempt.send(PATH, JSON, attempt.body)
    try:
        return await attempt.send(PATH, JSON, attempt.body)
    except Exception as error:
        raise RuntimeError(SECRET) from error


async def sends_for_an_earlier_request(provider: Sends, attempt: Attempt) -> object:
    """It keeps its first attempt unsent, and uses it in its second request."""
    provider._kept.append(attempt)
    if len(provider._kept) == 1:
        raise RuntimeError(SECRET)
    return await provider._kept[0].send(PATH, JSON, attempt.body)


async def returns_none(provider: Sends, attempt: Attempt) -> object:
    return None


async def returns_none_after_sending(provider: Sends, attempt: Attempt) -> object:
    await attempt.send(PATH, JSON, attempt.body)
    return None


async def returns_bytes(provider: Sends, attempt: Attempt) -> object:
    return b'{"choices": []}'


async def dispatch_raises(provider: Sends, attempt: Attempt) -> object:
    raise RuntimeError(f"{SECRET} {attempt.body!r}")


async def dispatch_hangs(provider: Sends, attempt: Attempt) -> object:
    await anyio.sleep_forever()
    return None


async def sends_to_another_host(provider: Sends, attempt: Attempt) -> object:
    return await attempt.send(f"{provider.elsewhere}{PATH}", JSON, attempt.body)


async def sends_without_a_scheme(provider: Sends, attempt: Attempt) -> object:
    return await attempt.send(f"//{provider.elsewhere.partition('//')[2]}{PATH}", JSON, attempt.body)


async def sends_as_a_user(provider: Sends, attempt: Attempt) -> object:
    return await attempt.send(f"@{provider.elsewhere.partition('//')[2]}{PATH}", JSON, attempt.body)


async def sends_another_host_header(provider: Sends, attempt: Attempt) -> object:
    return await attempt.send(PATH, {**JSON, "host": provider.elsewhere.partition("//")[2]}, attempt.body)


def other(attempt: Attempt) -> bytes:
    return json.dumps({**json.loads(attempt.body), "model": "us"}).encode()


async def sends_another_model(provider: Sends, attempt: Attempt) -> object:
    return await attempt.send(PATH, JSON, other(attempt))


async def sends_two_models(provider: Sends, attempt: Attempt) -> object:
    return await attempt.send(PATH, JSON, attempt.body[:-1] + b',"model":"us"}')


async def assigns_another_model(provider: Sends, attempt: Attempt) -> object:
    attempt.body = other(attempt)
    return await attempt.send(PATH, JSON, attempt.body)


async def assigns_another_target(provider: Sends, attempt: Attempt) -> object:
    """A target that a rule may have removed, under the eyes of the gate."""
    wanted = Target("us", "wire", "openai_compatible", "us")
    attempt.target = wanted
    return await attempt.send(PATH, JSON, other(attempt))


async def sends_no_json(provider: Sends, attempt: Attempt) -> object:
    return await attempt.send(PATH, JSON, b"model=us")


async def body_raises(provider: Sends, attempt: Attempt) -> object:
    """Its reply begins well."""

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"choices": ['
        raise RuntimeError(SECRET)

    return Reply(200, (("content-type", "application/json"),), Body(chunks()))


async def body_is_text(provider: Sends, attempt: Attempt) -> object:
    """No bytes: it would break whoever reads it."""

    async def chunks() -> AsyncIterator[bytes]:
        text: Any = '{"choices": []}'
        yield text

    return Reply(200, (("content-type", "application/json"),), Body(chunks()))


async def drops_the_reply(provider: Sends, attempt: Attempt) -> object:
    """It asks the upstream, and answers by itself. The call must be closed all the same."""
    await attempt.send(PATH, JSON, attempt.body)
    message = {"role": "assistant", "content": "mine"}
    return Reply.whole(200, json.dumps({"choices": [{"index": 0, "message": message}]}).encode())


async def status_is_text(provider: Sends, attempt: Attempt) -> object:
    status: Any = "200"
    return Reply.whole(status, b"{}")


SENDINGS: Mapping[str, Act] = {
    act.__name__: act
    for act in (
        sends_twice,
        sends_twice_and_hides_it,
        sends_twice_and_renames_it,
        sends_for_an_earlier_request,
        returns_none,
        returns_none_after_sending,
        returns_bytes,
        dispatch_raises,
        dispatch_hangs,
        sends_to_another_host,
        sends_without_a_scheme,
        sends_as_a_user,
        sends_another_host_header,
        sends_another_model,
        sends_two_models,
        assigns_another_model,
        assigns_another_target,
        sends_no_json,
        body_raises,
        body_is_text,
        drops_the_reply,
        status_is_text,
    )
}
ANSWERS: Mapping[str, object] = {"answers_none": None, "answers_true": True}


# ---- classify_error: each for the failures of the target that is named after its act -------------------------------


class Classifies(Block):
    """Classifies in its own way what happens at the target of its name.

    Options: `act`.
    """

    act: str

    @hookimpl
    def classify_error(self, failure: Failure, target: Target) -> Any:
        """Whatever the act answers to a failure."""
        if target.name != self.act or (failure.phase == "finish" and b"content_filter" not in failure.body):
            return None
        return VERDICTS[self.act](failure)


def moves_everything(failure: Failure) -> object:
    """A refusal is a rate limit to it."""
    return Classified(FailureClass.RATE_LIMITED, evidence="mine")


def classifier_raises(failure: Failure) -> object:
    raise RuntimeError(f"{SECRET} {failure.body!r}")


def classifies_by_a_word(failure: Failure) -> object:
    return "rate_limited"


def classifies_as_nothing_known(failure: Failure) -> object:
    unknown: Any = "try_elsewhere"
    return Classified(unknown)


def classifies_an_odd_wait(failure: Failure) -> object:
    wait: Any = "soon"
    return Classified(FailureClass.SERVER_ERROR, retry_after=wait)


def changes_the_failure(failure: Failure) -> object:
    """Changes what the classifiers after it will see."""
    headers: Any = failure.headers
    headers["retry-after"] = "0"
    return None


VERDICTS: Mapping[str, Callable[[Failure], object]] = {
    act.__name__: act
    for act in (
        moves_everything,
        classifier_raises,
        classifies_by_a_word,
        classifies_as_nothing_known,
        classifies_an_odd_wait,
        changes_the_failure,
    )
}
