"""How each answer goes onto the wire. Everything awaited here is cancelled when the peer leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from enum import Enum
from http import HTTPStatus
from typing import Protocol, assert_never

from narrows.testing._requests import Received
from narrows.testing.answers import Answer, Big, Headers, Hold, Raw, Redirect, Refuse, Scripted, Stall, Stream
from narrows.testing.call import Call
from narrows.testing.openai_shapes import default_body, encode

JSON = ("content-type", "application/json")
EVENTS = ("content-type", "text/event-stream; charset=utf-8")
BLOCK = 64 * 1024
BODYLESS = (204, 304)


class After(Enum):
    """What becomes of the connection when an answer has been sent."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"


class Wire(Protocol):
    """The sending half of a connection."""

    async def write(self, data: bytes, *, body: int = 0) -> None:
        """Hand over these bytes and wait until the system took them. `body`: how many of them count as body."""

    async def pass_gate(self, name: str) -> None:
        """Wait until that `Hold` is released."""


async def send(wire: Wire, request: Received, call: Call, answer: Scripted) -> After:
    """Send one answer. Returns what to do with the connection; does not return from a stall."""
    await _wait(wire, answer.before)
    keep = After.KEEP if request.keep_alive else After.CLOSE
    match answer:
        case Answer():
            return await _answer(wire, request, call, answer, keep)
        case Stream():
            return await _stream(wire, request, call, answer, keep)
        case Stall():
            return await _stall(wire, request, answer)
        case Refuse():
            return After.RESET if answer.reset else After.CLOSE
        case Redirect():
            where = Answer(answer.status, b"", (("location", answer.location),))
            return await _answer(wire, request, call, where, keep)
        case Big():
            return await _big(wire, request, answer, keep)
        case Raw():
            await wire.write(answer.data, body=len(answer.data))
            return After.CLOSE if answer.close else keep
    assert_never(answer)


async def _answer(wire: Wire, request: Received, call: Call, answer: Answer, keep: After) -> After:
    body = default_body(call, answer.status) if answer.body is None else answer.body
    if isinstance(body, tuple):
        events = Stream(body, status=answer.status, headers=answer.headers)
        return await _stream(wire, request, call, events, keep)
    content = b"" if answer.status in BODYLESS else body if isinstance(body, bytes) else encode(body)
    framing = () if answer.status in BODYLESS else (("content-length", str(len(content))), JSON)
    head = _head(request, answer.status, answer.headers, framing)
    await wire.write(head + content * (request.method != "HEAD"), body=len(content))
    return keep


async def _stream(wire: Wire, request: Received, call: Call, answer: Stream, keep: After) -> After:
    chunked = request.version == "HTTP/1.1"
    framing = (("transfer-encoding", "chunked"),) if chunked else ()
    await wire.write(_head(request, answer.status, answer.headers, (*framing, EVENTS)))
    cut = After.RESET if answer.reset else After.CLOSE
    left = answer.cut_at
    if left == 0:
        return cut
    async for chunk in _chunks(wire, call, answer):
        piece = chunk if left is None else chunk[:left]
        await wire.write(_frame(piece, chunked), body=len(piece))
        if left is not None:
            left -= len(piece)
            if left == 0:
                return cut
    if answer.cut_at is not None:
        return cut
    if not answer.end:
        await _forever()
    await wire.write(b"0\r\n\r\n" if chunked else b"")
    return keep if chunked else After.CLOSE


async def _chunks(wire: Wire, call: Call, answer: Stream) -> AsyncIterator[bytes]:
    """The stream's chunks, each when it is due."""
    chunks = answer.chunks
    if chunks is None:
        fallback = default_body(call, 200)
        chunks = fallback if isinstance(fallback, tuple) else (encode(fallback),)
    started = False
    for chunk in chunks:
        if isinstance(chunk, Hold):
            await wire.pass_gate(chunk.name)
            continue
        if started and answer.delay:
            await asyncio.sleep(answer.delay)
        started = True
        if chunk:  # an empty HTTP chunk would end the stream
            yield chunk


async def _stall(wire: Wire, request: Received, answer: Stall) -> After:
    if answer.after_headers:
        await wire.write(_head(request, 200, answer.headers, (("transfer-encoding", "chunked"), EVENTS)))
        if answer.body:
            await wire.write(_frame(answer.body, chunked=True), body=len(answer.body))
    await _forever()
    return After.CLOSE


async def _big(wire: Wire, request: Received, answer: Big, keep: After) -> After:
    start, end = b'{"error":{"message":"', b'","type":"server_error","param":null,"code":null}}'
    filling = answer.size - len(start) - len(end)
    size = ("transfer-encoding", "chunked") if answer.chunked else ("content-length", str(answer.size))
    await wire.write(_head(request, answer.status, (), (size, JSON)))
    await wire.write(_frame(start, answer.chunked), body=len(start))
    block = b"x" * BLOCK
    while filling:
        piece = block[:filling]
        await wire.write(_frame(piece, answer.chunked), body=len(piece))
        filling -= len(piece)
    await wire.write(_frame(end, answer.chunked) + b"0\r\n\r\n" * answer.chunked, body=len(end))
    return keep


async def _wait(wire: Wire, before: float | Hold) -> None:
    if isinstance(before, Hold):
        await wire.pass_gate(before.name)
    elif before:
        await asyncio.sleep(before)


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


def _frame(data: bytes, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked else data


def _head(request: Received, status: int, headers: Headers, ours: Iterable[tuple[str, str]]) -> bytes:
    """The status line and header fields. What the script says wins over `ours`; a scripted framing stands alone."""
    said = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
    names = {name.lower() for name, _ in said}
    if names & {"content-length", "transfer-encoding"}:
        names |= {"content-length", "transfer-encoding"}
    fields = [*said, *(pair for pair in ours if pair[0] not in names)]
    if not request.keep_alive and "connection" not in names:
        fields.append(("connection", "close"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {status} {_reason(status)}\r\n{lines}\r\n".encode("latin-1")


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
