"""The gate before every egress, asked directly: whatever came before it, only who is eligible gets out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from narrows.candidates import Candidates, Pool
from narrows.errors import ContractViolation
from narrows.exchange import Outgoing
from narrows.gateway import Gateway
from narrows.run import Run
from narrows.testing import RecordingProvider
from narrows.types import Inbound
from tests.support.config import basic_config


def outgoing(gateway: Gateway, name: str, candidates: Callable[[Pool], Candidates | None]) -> Outgoing:
    """An attempt at that target, for a request that has those candidates."""

    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    run = Run(gateway.engine, Inbound("POST", "/v1/chat/completions", ()), nothing)
    target = gateway.snapshot.targets[name]
    run.candidates = candidates(gateway.snapshot.routes["chat"].pool)
    body = f'{{"model":"{name}"}}'.encode()
    span = run.span.attempt(target.name, target.model, "openai_compatible", 1)
    return Outgoing(run, target, gateway.snapshot.vendors[target.provider], 1, body, span)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "candidates",
    [
        lambda pool: None,
        lambda pool: Candidates(pool, 0b10),
        lambda pool: Candidates(Pool(tuple(map(replace, pool.targets))), 0b11),
    ],
    ids=["nothing was decided", "it was removed", "its equal is another target"],
)
async def test_only_who_is_eligible_gets_out(
    candidates: Callable[[Pool], Candidates | None], provider: RecordingProvider
) -> None:
    """The last word before every egress, whatever came before it: not even a connection."""
    gateway = Gateway.from_text(basic_config({"us": provider.base_url, "eu": provider.base_url}))
    async with gateway:
        refused = outgoing(gateway, "us", candidates)
        with pytest.raises(ContractViolation, match="us is not eligible"):
            await refused.send("/chat/completions", {}, refused.body)
        assert provider.connections == 0
        allowed = outgoing(gateway, "us", lambda pool: Candidates(pool, 0b11))
        reply = await allowed.send("/chat/completions", {}, allowed.body)
        await reply.chunks.aclose()
        assert (reply.status, [call.model for call in provider.calls]) == (200, ["us"])
