"""An ASGI server's side of one request, played by a test."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.types import Message

HEADERS = ((b"content-type", b"application/json"), (b"X-Region", b"eu"))


def http_scope(method: str = "POST", path: str = "/v1/chat/completions", **more: Any) -> dict[str, Any]:
    """A scope as a server makes it."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(HEADERS),
        "client": ("192.0.2.7", 4711),
        "server": ("127.0.0.1", 80),
    }
    return {**scope, **more}


class Channel:
    """Gives out the parts of a body, then waits for `leave`. Keeps what was sent; `on_send` sees it first."""

    def __init__(self, *parts: bytes, on_send: Callable[[Message], Awaitable[None]] | None = None) -> None:
        last = len(parts) - 1
        self._parts = deque(
            {"type": "http.request", "body": part, "more_body": number < last} for number, part in enumerate(parts)
        )
        self._left = anyio.Event()
        self._on_send = on_send
        self.sent: list[Message] = []

    def leave(self) -> None:
        self._left.set()

    async def receive(self) -> Message:
        if self._parts:
            return self._parts.popleft()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._on_send is not None:
            await self._on_send(message)
        self.sent.append(message)

    @property
    def unread(self) -> int:
        return len(self._parts)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def ended(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False
