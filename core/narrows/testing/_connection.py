"""One client connection of the recording provider: reads requests, notices a peer that leaves, keeps alive."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections import deque
from typing import Protocol, cast

from narrows.testing._requests import BadRequest, Received, RequestReader
from narrows.testing._sending import After, send
from narrows.testing.answers import Scripted
from narrows.testing.call import Call


class Host(Protocol):
    """What a connection tells the provider, and asks of it. All of it is called in the provider's loop."""

    def opened(self, connection: Connection) -> None: ...
    def gone(self, connection: Connection) -> None: ...
    def received(self, request: Received) -> Call: ...
    def answer_to(self, call: Call) -> Scripted: ...
    def sending(self, call: Call, size: int, at: float) -> None: ...
    def peer_left(self) -> None: ...
    def failed(self, error: BaseException) -> None: ...
    async def pass_gate(self, name: str) -> None: ...


class Connection(asyncio.Protocol):
    """Requests are recorded the moment their last byte is there, before anything is answered."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._reader = RequestReader()
        self._waiting: deque[tuple[Received, Call]] = deque()
        self._current: Call | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._over = False  # nothing more is read, sent or counted on this connection

    # ---- what asyncio says ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # high=0: "written" means that the system took it, so a peer that leaves before that is noticed
        self._transport.set_write_buffer_limits(high=0)
        self._socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        try:
            for request in self._reader.feed(data):
                self._waiting.append((request, self._host.received(request)))
        except BadRequest as error:
            self._reject(error)
            return
        if self._reader.expects_continue():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._waiting and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._reply())
            self._task.add_done_callback(self._replied)

    def eof_received(self) -> bool:
        self._left()
        return False  # the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._left()
        self._host.gone(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # ---- what sending needs (`Wire`) ----

    async def write(self, data: bytes, *, body: int = 0) -> None:
        if body and self._current is not None:
            self._host.sending(self._current, body, time.monotonic())  # before the write: no reader can be earlier
        self._transport.write(data)
        if self._writable.is_set():
            await asyncio.sleep(0)  # one turn of the loop: it is there that a peer's leaving is noticed
        else:
            await self._writable.wait()

    async def pass_gate(self, name: str) -> None:
        await self._host.pass_gate(name)

    # ---- endings ----

    def abort(self) -> None:
        """The provider closes: end at once, and count nothing."""
        self._over = True
        self._cancel()
        self._transport.abort()

    async def _reply(self) -> None:
        while self._waiting:
            request, self._current = self._waiting.popleft()
            answer = self._host.answer_to(self._current)
            after = await send(self, request, self._current, answer)
            if after is not After.KEEP:
                self._finish(after)
                return
        self._task = None  # at once, not in `_replied`: a peer that leaves from here on leaves nothing unsent

    def _replied(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a script that raises must not pass for an upstream that answers
            self._host.failed(error)
            if not self._over:
                self._finish(After.RESET)

    def _finish(self, after: After) -> None:
        self._over = True
        if after is After.RESET:
            # linger on, zero seconds: close() throws away what is unsent and sends RST
            self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def _reject(self, error: BadRequest) -> None:
        unfinished = self._reader.unfinished()
        if unfinished is not None:
            self._host.received(unfinished)
        said = str(error).encode()
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(said)
        self._cancel()
        self._transport.write(head + said)
        self._finish(After.CLOSE)

    def _left(self) -> None:
        if self._over:
            return
        self._over = True
        unfinished = self._reader.unfinished()
        if unfinished is not None:
            self._host.received(unfinished)
        if self._task is not None:
            self._host.peer_left()
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _socket(self) -> socket.socket:
        return cast(socket.socket, self._transport.get_extra_info("socket"))
