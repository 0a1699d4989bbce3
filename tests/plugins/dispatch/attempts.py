"""An attempt that notes what its provider sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from narrows import Provider, Reply, Target


@dataclass
class FakeAttempt:
    """Answers with `reply`, or with what `provider` answers in this process, as the core does without a base URL."""

    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    provider: Provider | None = None
    target: Target = field(default_factory=lambda: Target("t", "acme", "echo", "m"))
    number: int = 1
    stream: bool = False
    sent: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    async def send(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self.sent.append((path, dict(headers), body))
        if self.provider is not None:
            return await self.provider.answer(path, headers, body)
        return Reply.whole(200, b"{}")


def chat(
    text: object = "Hello there", model: str = "m", more: Mapping[str, object] | None = None, **fields: object
) -> bytes:
    """A chat body of one user message, with these fields."""
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": model, "messages": messages, **(more or {}), **fields}).encode()


async def read(reply: Reply) -> bytes:
    """The whole body."""
    return b"".join([chunk async for chunk in reply.chunks])
