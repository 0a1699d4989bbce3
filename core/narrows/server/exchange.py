"""One HTTP request and its answer on an ASGI channel: the hot path, in raw messages.

A caller may leave at any time, and nobody tells us unless we listen. So once its body is read a sibling task listens,
and cancels the work. Both tasks live and end inside `run`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from starlette.types import Message, Receive, Send

from narrows.errors import NarrowsError
from narrows.server.answers import Answers
from narrows.server.faults import failed_reply, fault, log
from narrows.types import ClientGone, Inbound, Reply

LINGER_SECS = 0.5
"""Seconds that the end of an answer waits for the rest of its request, where the answer came first (a 401 needs no body).
The caller has the whole answer by then and waits for nothing. But a server may close a connection whose request was not
complete when its answer was, and a caller that has sent its next request on it sees a connection that breaks off."""

LISTEN_EVERY = 16
"""Chunks after which the listener is let run, also where nothing ever waits."""

CLIENT_LEFT = 499
"""Nobody reads it. But a middleware of the host may take an application without any answer for a broken one."""


class Exchange:
    """Runs one request. It is also the iterator over that request's body, which is what `read` hands to the gateway."""

    __slots__ = ("_complete", "_finished", "_gone", "_group", "_host_error", "_receive", "_rest", "_send", "_started")

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._group: TaskGroup | None = None
        self._complete = False  # the request's body has been read
        self._started = False  # our answer has begun
        self._finished = False  # our answer has been handed over, all of it
        self._gone = False  # the caller left
        self._rest: anyio.Event | None = None  # of a request that was answered before it was complete: it is in
        self._host_error: Exception | None = None  # raised by `receive` or `send`: the host's, not ours to judge

    async def run(self, gateway: Answers, inbound: Inbound) -> None:
        """Answer it. Raises what the host's own channel raised; NarrowsError where an answer that had begun broke off,
        because returning would look like its clean end. A caller that left is no error."""
        error: Exception | None = None
        if inbound.method in ("GET", "HEAD"):  # they have no body and never wait for an upstream
            error = await self._respond(gateway, inbound)
        else:
            async with anyio.create_task_group() as self._group:
                error = await self._respond(gateway, inbound)
                self._group.cancel_scope.cancel()
        if error is not None:
            raise error
        if self._gone and not self._started:
            await self._respond_to_nobody()

    # ---- the request's body ----

    def read(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises ClientGone where the caller leaves before its end."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._complete:
            try:
                message = await self._receive()
            except Exception as error:
                self._host_error = error
                raise
            if message["type"] == "http.disconnect":
                self._gone = True
                raise ClientGone("the caller left before its request was complete")
            if not message.get("more_body", False):
                self._complete = True
                self._listen()
            chunk: bytes = message.get("body", b"")
            if chunk:
                return chunk
        raise StopAsyncIteration

    # ---- the answer ----

    async def _respond(self, gateway: Answers, inbound: Inbound) -> Exception | None:
        """Answer, and return what has to be raised outside of the task group, which would wrap it."""
        try:
            async with gateway.answer(inbound, self.read) as reply:
                if self._host_error is not None:
                    raise self._host_error  # say, the host's own size limit; its middleware waits for it
                await self._deliver(reply, body=inbound.method != "HEAD")
        except ClientGone:
            self._gone = True
        except Exception as error:  # noqa: BLE001 - the engine's own bugs end here: a 500, or a connection cut short
            return await self._failed(error)
        return None

    async def _deliver(self, reply: Reply, *, body: bool) -> None:
        """Send it chunk by chunk. The end goes out before the gateway is left: it settles behind the caller's back."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
        self._started = True
        await self._post({"type": "http.response.start", "status": reply.status, "headers": headers})
        if not self._complete:
            self._complete = True  # what is still sent is not wanted; listening throws it away
            self._rest = anyio.Event()
            self._listen()
        if body:
            sent = 0
            async for chunk in reply.chunks:
                if self._gone:  # an upstream that is always ready must not keep the caller's leaving from being heard
                    raise ClientGone("the caller left before its answer was complete")
                if chunk:
                    await self._post({"type": "http.response.body", "body": chunk, "more_body": True})
                    sent += 1
                    if sent % LISTEN_EVERY == 0:
                        await anyio.lowlevel.checkpoint()
        if self._rest is not None and self._group is not None:
            with anyio.move_on_after(LINGER_SECS):
                await self._rest.wait()
        self._finished = True  # before the end is sent: a server may say "disconnect" the moment that it has it
        await self._post({"type": "http.response.body", "body": b"", "more_body": False})

    async def _post(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:  # ASGI 2.4: the connection is gone
            self._gone = True
            raise ClientGone("the caller left before its answer was complete") from None
        except Exception as error:
            self._host_error = error
            raise

    async def _failed(self, error: Exception) -> Exception | None:
        """What an exception of the work means, by how far the answer had got."""
        if self._host_error is not None:
            return self._host_error
        if self._gone:
            return None  # whatever it is, it is a consequence
        if self._finished:
            log.error("failed after the answer was complete: %s", fault(error))
            return None
        if self._started:
            log.error("failed after the answer had begun, the connection is cut: %s", fault(error))
            return NarrowsError(f"the answer broke off after it had begun: {fault(error)}")
        log.error("failed before the answer began: %s", fault(error))
        try:
            await self._deliver(failed_reply(), body=True)
        except ClientGone:
            return None
        except Exception as host_error:  # noqa: BLE001 - `_post` lets nothing else through; `run` raises it
            return host_error
        return None

    async def _respond_to_nobody(self) -> None:
        try:
            await self._send({"type": "http.response.start", "status": CLIENT_LEFT, "headers": []})
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            return

    # ---- the caller's leaving ----

    def _listen(self) -> None:
        if self._group is not None:
            self._group.start_soon(self._watch)

    async def _watch(self) -> None:
        """Wait for the caller's leaving, and cancel the work. Runs until the answer is over."""
        try:
            while (message := await self._receive())["type"] != "http.disconnect":
                if not message.get("more_body", False):
                    self._is_in()
                await anyio.lowlevel.checkpoint()  # a channel that never waits must not starve the work
        except Exception as error:  # noqa: BLE001 - a host that cannot say more; the answer goes on without
            log.debug("cannot listen for the caller's leaving: %s", fault(error))
            self._is_in()
            return
        if not self._finished and self._group is not None:
            self._gone = True
            self._group.cancel_scope.cancel()

    def _is_in(self) -> None:
        if self._rest is not None:
            self._rest.set()
