"""The lifespan protocol: the gateway starts before the host does and stops after it, in one task.

Source: ASGI specification, lifespan 2.0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import Message, Receive, Send

from narrows.server.answers import Answers, running
from narrows.server.faults import told

Host = Callable[[Receive, Send], Awaitable[None]]
"""The application around which the gateway lives, given the lifespan's scope already."""


async def lifespan(gateway: Answers, receive: Receive, send: Send, host: Host | None = None) -> None:
    """Speak the protocol for the gateway and, where there is one, its host.

    A gateway that cannot start says `lifespan.startup.failed`, and the host is not started. What the host raises passes
    through as it is. A host that knows no lifespan lives inside ours all the same.
    """
    talk = _Talk(await receive(), receive, send)
    try:
        async with running(gateway):
            await talk.run(host)
    except Exception as error:
        if talk.host_failed:
            raise
        await talk.failed(error)
    else:
        await talk.end()


class _Talk:
    """What server and host say to each other, with the gateway's part put in."""

    def __init__(self, startup: Message, receive: Receive, send: Send) -> None:
        self._startup: Message | None = startup
        self._receive, self._send = receive, send
        self._answered = ""  # what was said to startup
        self._stopping = False  # the server has said shutdown
        self._last: Message | None = None  # the host's answer to shutdown, held until the gateway has stopped
        self.host_failed = False

    async def run(self, host: Host | None) -> None:
        """The host's whole life; then, where it has none or a short one, the rest of the protocol."""
        if host is not None:
            try:
                await host(self.receive, self.send)
            except Exception:
                # An application that knows no lifespan refuses the scope before it reads anything.
                if self._startup is None:
                    self.host_failed = True
                    raise
        if not self._answered:
            await self.send({"type": "lifespan.startup.complete"})
        if self._answered == "lifespan.startup.complete" and not self._stopping:
            await self._receive()
            self._last = {"type": "lifespan.shutdown.complete"}

    async def receive(self) -> Message:
        """The host's `receive`. We have read its first message already."""
        if self._startup is not None:
            startup, self._startup = self._startup, None
            return startup
        message = await self._receive()
        self._stopping = True
        return message

    async def send(self, message: Message) -> None:
        """The host's `send`."""
        if message["type"].startswith("lifespan.shutdown."):
            self._last = message
            return
        self._answered = message["type"]
        await self._send(message)

    async def failed(self, error: Exception) -> None:
        """The gateway did not start, or did not stop well."""
        step = "shutdown" if self._answered else "startup"
        verb = "stop" if self._answered else "start"
        message = f"the gateway could not {verb}: {told(error)}"
        await self._send({"type": f"lifespan.{step}.failed", "message": message})

    async def end(self) -> None:
        """Everything has stopped: now the server may know."""
        if self._last is not None:
            await self._send(self._last)
