"""The hook loop, asked directly: deadlines, names, counts, and not a word of an exception. On asyncio and trio."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import anyio
import pytest

from narrows.calls import Calls, Impl
from narrows.constraints import Block
from narrows.errors import ConfigError, ContractViolation, Passing, PluginError
from narrows.gateway import Gateway
from narrows.hookspecs import hookimpl
from narrows.types import Classified, Failure, Target
from tests.support.config import basic_config

SECRET = "text of an exception"
PATIENCE = 2.0


def impl(function: Callable[..., object]) -> Impl:
    """One hook of a plugin."""
    return Impl("mine", "plugins.mine", "narrow", function, (), "somebodys")


async def hangs() -> str:
    await anyio.sleep_forever()
    return "never"


async def late() -> str:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        pass
    return "late"


async def prompt() -> str:
    await anyio.lowlevel.checkpoint()
    return "in time"


async def raises_later() -> str:
    await anyio.lowlevel.checkpoint()
    raise LookupError(SECRET)


def raises() -> str:
    raise LookupError(SECRET)


def accuses() -> str:
    raise ContractViolation("another", "rank", SECRET)


@pytest.mark.anyio
@pytest.mark.parametrize("function", [hangs, late])
async def test_who_is_late_has_failed(function: Callable[..., object], caplog: pytest.LogCaptureFixture) -> None:
    """Also who swallows its cancellation and answers after all. Somebody in time is heard."""
    calls = Calls(deadline_secs=0.05)
    with anyio.fail_after(PATIENCE), pytest.raises(PluginError, match=r"'mine'.*no answer within 0\.05 s") as caught:
        await calls(impl(function))
    assert caught.value.hook == "narrow"
    assert calls.errors == {("mine", "narrow"): 1}
    assert await calls(impl(prompt)) == "in time"
    (line,) = caplog.messages
    assert line == "plugin plugins.mine (somebodys) failed in hook narrow: no answer within 0.05 s"


@pytest.mark.anyio
@pytest.mark.parametrize("function", [raises, raises_later, accuses])
async def test_who_raises_is_named_without_its_words(
    function: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()
    with pytest.raises(PluginError, match="plugin 'mine' failed in hook 'narrow'") as caught:
        await calls(impl(function))
    assert SECRET not in str(caught.value)
    assert (calls.errors, calls.violations) == ({("mine", "narrow"): 1}, {})
    (line,) = caplog.messages
    assert line.startswith("plugin plugins.mine (somebodys) failed in hook narrow: ")
    assert SECRET not in caplog.text


@pytest.mark.anyio
async def test_an_upstream_that_does_not_answer_is_no_plugins_failure() -> None:
    def passes() -> str:
        raise Passing

    async def passes_later() -> str:
        await anyio.lowlevel.checkpoint()
        raise Passing

    calls = Calls()
    for function in (passes, passes_later):
        with pytest.raises(Passing):
            await calls(impl(function))
    assert not calls.errors


@pytest.mark.anyio
async def test_dispatch_is_bounded_by_its_route_instead() -> None:
    async def slow() -> str:
        await anyio.sleep(0.1)
        return "an answer"

    calls = Calls(deadline_secs=0.01)
    assert await calls.finish(impl(slow), slow(), bounded=False) == "an answer"
    with pytest.raises(PluginError):
        await calls.finish(impl(slow), slow())


@pytest.mark.anyio
async def test_a_sync_overrun_is_counted_and_named_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    def blocks() -> str:
        time.sleep(0.02)
        return "an answer"

    calls = Calls(slow_secs=0.01)
    assert await calls(impl(blocks)) == "an answer"
    assert calls.slow == {("mine", "narrow"): 1}
    assert not calls.errors
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "plugin plugins.mine blocked in hook narrow" in record.message
    assert await Calls(slow_secs=10.0)(impl(lambda: "quick")) == "quick"


def test_a_classifier_that_would_have_to_be_awaited_is_refused_at_load() -> None:
    """Nobody awaits it, so it would silently be no classifier."""

    class Awaited(Block):
        @hookimpl
        async def classify_error(self, failure: Failure, target: Target) -> Classified | None:
            return None

    text = basic_config({"eu": "http://127.0.0.1:9/v1"}, more='\n[plugins.mine]\nkind = "awaited"\n')
    with pytest.raises(ConfigError, match=r"'plugins\.mine'.*makes 'classify_error' async"):
        Gateway.from_text(text, kinds={"plugins.awaited": Awaited})
