"""A program: two gateways of one process, of which one is asked. Prints what each has counted."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator

import anyio

from narrows import Gateway, Inbound

CONFIGURATION = """
[providers.here]
kind = "echo"
[targets.echo]
provider = "here"
model = "echo"
[routes.chat]
targets = ["echo"]
"""


async def body() -> AsyncIterator[bytes]:
    yield b'{"model": "chat", "messages": [{"role": "user", "content": "hello"}]}'


async def answered(gateway: Gateway, inbound: Inbound) -> bytes:
    async with gateway.answer(inbound, body) as reply:
        return b"".join([chunk async for chunk in reply.chunks])


async def counted(gateway: Gateway) -> str:
    text = (await answered(gateway, Inbound("GET", "/metrics", (), "127.0.0.1"))).decode()
    (count,) = re.findall(r'^narrows_requests_total\{code="ok",route="chat"\} (.+)$', text, re.MULTILINE)
    return str(count)


async def main() -> None:
    one, other = (Gateway.from_text(CONFIGURATION, open_access=True) for _ in range(2))
    async with one, other:
        await answered(one, Inbound("POST", "/v1/chat/completions", (("content-type", "application/json"),)))
        sys.stdout.write(f"{await counted(one)} {await counted(other)}\n")


anyio.run(main)
