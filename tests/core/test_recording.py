"""Leaving a request does not depend on a provider's manners."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import anyio
import pytest

from narrows import Attempt, Block, Decision, Gateway, Inbound, Provider, Reply, Request, Usage, hookimpl
from narrows.testing import stream_events
from narrows.types import Allowance, Body
from tests.support.metrics import Scrape

pytestmark = pytest.mark.anyio

TEXT = """
[plugins.purse]
kind = "purse"
[plugins.kept]
kind = "kept"
[providers.vendor]
kind = "vendor"
[targets.t]
provider = "vendor"
model = "m"
price = { input = 1.0, output = 1.0 }
[routes.chat]
targets = ["t"]
"""


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "left"])
async def test_a_body_that_never_closes_keeps_neither_money_nor_record(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narrows.recording.LEAVE_SECS", 0.05)
    given_back: list[str] = []
    kept: list[Decision] = []

    class Vendor(Provider):
        """Answers, and hangs when it is closed."""

        @hookimpl
        async def dispatch(self, attempt: Attempt) -> Reply:
            events = self.events()

            async def close() -> None:
                await events.aclose()
                await anyio.sleep_forever()

            return Reply(200, (("content-type", "text/event-stream"),), Body(events, close))

        async def events(self) -> AsyncGenerator[bytes, None]:
            for event in stream_events("m"):
                yield event

    class Held:
        def room(self) -> int:
            return 10**9

        def hold(self, amount: int) -> int:
            return amount

        def settle(self, usage: Usage) -> None:
            given_back.append("settled")

        def release(self) -> None:
            given_back.append("released")

    class Purse(Block):
        """Has enough."""

        @hookimpl
        def budget(self, request: Request) -> Allowance:
            return Held()

    class Kept(Block):
        """Keeps."""

        @hookimpl
        async def record(self, decision: Decision) -> None:
            kept.append(decision)

    async def read() -> AsyncIterator[bytes]:
        yield b'{"model": "chat", "stream": true, "messages": [{"role": "user", "content": "hello"}]}'

    kinds: dict[str, type[Block]] = {"plugins.purse": Purse, "plugins.kept": Kept, "providers.vendor": Vendor}
    inbound = Inbound("POST", "/v1/chat/completions", (("content-type", "application/json"),))
    async with Gateway.from_text(TEXT, kinds=kinds, open_access=True) as gateway:
        async with gateway.answer(inbound, read) as reply:
            async for _ in reply.chunks:
                if not whole:
                    break
        async with gateway.answer(Inbound("GET", "/metrics", (), "127.0.0.1"), read) as reply:
            found = Scrape(b"".join([chunk async for chunk in reply.chunks]).decode())
    assert given_back == ["settled", "released"]
    (decision,) = kept
    assert decision.outcome == ("answered" if whole else "client_disconnected")
    assert [row.failure_class for row in decision.attempts] == ["ok"]
    assert found("requests_total", route="chat", code="ok") == 1
