"""One exchange, message by message, on both backends."""

from __future__ import annotations

import logging

import anyio
import anyio.lowlevel
import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message

from narrows.errors import NarrowsError
from narrows.server import Application
from narrows.types import ClientGone, Reply
from tests.core.server.channel import Channel, http_scope
from tests.core.server.fake import FakeGateway, Seen, fails, forever, stream, whole

pytestmark = pytest.mark.anyio


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


async def exchange(gateway: FakeGateway, channel: Channel, method: str = "POST") -> None:
    await Application(gateway)(http_scope(method), channel.receive, channel.send)


async def test_the_body_comes_in_parts_without_empty_ones(gateway: FakeGateway) -> None:
    parts: list[bytes] = []

    async def reads(seen: Seen) -> Reply:
        parts.extend([part async for part in seen.read()])
        return await whole()(seen)

    gateway.reads = False
    gateway.script = reads
    channel = Channel(b"a", b"", b"b", b"")
    await exchange(gateway, channel)
    assert parts == [b"a", b"b"]
    assert (channel.status, channel.body, channel.ended) == (200, b'{"ok": true}', True)
    assert gateway.ends == ["normal"]


async def test_the_request_as_the_gateway_sees_it(gateway: FakeGateway) -> None:
    scope = http_scope(path="/a/llm/v1/models", root_path="/a/llm", user="alice")
    channel = Channel(b"")
    await Application(gateway)(scope, channel.receive, channel.send)
    inbound = gateway.seen[0].inbound
    assert (inbound.method, inbound.path, inbound.client, inbound.user) == ("POST", "/v1/models", "192.0.2.7", "alice")
    assert inbound.headers == (("content-type", "application/json"), ("x-region", "eu"))


async def test_head_sends_the_headers_alone(gateway: FakeGateway) -> None:
    channel = Channel()
    await exchange(gateway, channel, "HEAD")
    assert (channel.status, channel.body, len(channel.sent)) == (200, b"", 2)
    assert (b"content-length", b"12") in channel.sent[0]["headers"]


async def test_empty_chunks_are_not_sent(gateway: FakeGateway) -> None:
    gateway.script = stream(b"1", b"", b"2")
    channel = Channel(b"{}")
    await exchange(gateway, channel)
    assert [message.get("body") for message in channel.sent] == [None, b"1", b"2", b""]


async def test_the_end_is_sent_before_the_gateway_is_left(gateway: FakeGateway) -> None:
    ends: list[str | None] = []

    async def on_send(message: Message) -> None:
        if message.get("more_body") is False:
            ends.extend(gateway.ends)

    await exchange(gateway, Channel(b"{}", on_send=on_send))
    assert ends == [None]
    assert gateway.ends == ["normal"]


async def test_a_disconnect_at_the_very_end_is_no_leaving(gateway: FakeGateway) -> None:
    async def on_send(message: Message) -> None:
        if message.get("more_body") is False:
            channel.leave()  # as uvicorn does: whoever listens then hears "disconnect"
            for _ in range(5):
                await anyio.lowlevel.checkpoint()

    channel = Channel(b"{}", on_send=on_send)
    await exchange(gateway, channel)
    assert channel.ended
    assert gateway.ends == ["normal"]


# ---- the caller leaves -------------------------------------------------------------------------------------------


async def test_leaving_while_the_body_is_sent(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    channel = Channel()
    channel.leave()
    await exchange(gateway, channel)
    assert gateway.ends == ["gone"]
    assert channel.status == 499
    assert caplog.records == []


async def test_leaving_told_to_a_gateway_that_wraps_it(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    """It may read inside a task group. What comes out then is still no error."""

    async def wraps(seen: Seen) -> Reply:
        try:
            await anext(seen.read())
        except ClientGone as gone:
            raise ExceptionGroup("reading", [gone]) from None
        raise AssertionError

    gateway.reads = False
    gateway.script = wraps
    channel = Channel()
    channel.leave()
    await exchange(gateway, channel)
    assert channel.status == 499
    assert caplog.records == []


async def test_leaving_before_the_headers(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    async def waits(seen: Seen) -> Reply:
        channel.leave()
        await anyio.sleep_forever()
        raise AssertionError

    gateway.script = waits
    channel = Channel(b"{}")
    await exchange(gateway, channel)
    assert gateway.ends == ["cancelled"]
    assert (channel.status, channel.body, channel.ended) == (499, b"", True)
    assert caplog.records == []


async def test_leaving_before_the_headers_of_a_connection_that_raises(gateway: FakeGateway) -> None:
    async def waits(seen: Seen) -> Reply:
        channel.leave()
        await anyio.sleep_forever()
        raise AssertionError

    async def broken(message: Message) -> None:
        raise BrokenPipeError

    gateway.script = waits
    channel = Channel(b"{}", on_send=broken)
    await exchange(gateway, channel)
    assert gateway.ends == ["cancelled"]


async def test_leaving_after_the_headers(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    async def leaves() -> None:
        channel.leave()
        await anyio.sleep_forever()

    gateway.script = stream(b"1", then=leaves)
    channel = Channel(b"{}")
    await exchange(gateway, channel)
    assert gateway.ends == ["cancelled"]
    assert (channel.body, channel.ended) == (b"1", False)
    assert caplog.records == []


async def test_leaving_told_by_send(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(message: Message) -> None:
        if message.get("body") == b"2":
            raise ConnectionResetError

    gateway.script = stream(b"1", b"2", then=forever)
    await exchange(gateway, Channel(b"{}", on_send=broken))
    assert gateway.ends == ["gone"]
    assert caplog.records == []


async def test_leaving_while_the_gateway_never_wanted_the_body(gateway: FakeGateway) -> None:
    async def leaves() -> None:
        channel.leave()
        await anyio.sleep_forever()

    gateway.reads = False
    gateway.script = stream(b"1", then=leaves)
    channel = Channel(b"a", b"b", b"c")
    await exchange(gateway, channel)
    assert gateway.ends == ["cancelled"]
    assert channel.unread == 0


async def test_a_channel_that_never_waits_does_not_starve_the_work(gateway: FakeGateway) -> None:
    class Naive(Channel):
        async def receive(self) -> Message:
            return {"type": "http.request", "body": b"{}", "more_body": False}

    async def slow(seen: Seen) -> Reply:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return Reply.whole(200, b"done")

    gateway.script = slow
    channel = Naive()
    await exchange(gateway, channel)
    assert channel.body == b"done"


async def test_a_server_that_stops_cancels_the_work(gateway: FakeGateway) -> None:
    with anyio.CancelScope() as scope:

        async def stops() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        gateway.script = stream(b"1", then=stops)
        await exchange(gateway, Channel(b"{}"))
    assert scope.cancelled_caught
    assert gateway.ends == ["cancelled"]


# ---- faults ------------------------------------------------------------------------------------------------------


async def test_a_fault_after_the_headers_is_raised_without_its_text(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.script = stream(b"1", then=fails(KeyError("secret")))
    channel = Channel(b"{}")
    with pytest.raises(
        NarrowsError, match=r"^the answer broke off after it had begun: KeyError at fake.py:\d+$"
    ) as caught:
        await exchange(gateway, channel)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert (channel.body, channel.ended) == (b"1", False)
    assert "secret" not in caplog.text


async def test_a_fault_while_it_is_left_is_logged_only(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    gateway.fails_to_leave = KeyError("secret")
    channel = Channel(b"{}")
    await exchange(gateway, channel)
    assert channel.ended
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "KeyError at fake.py" in caplog.text
    assert "secret" not in caplog.text


async def test_a_header_that_is_not_latin_1_is_a_fault_before_the_answer(gateway: FakeGateway) -> None:
    gateway.script = whole(b"", 200, ("x-odd", "\u20ac"))
    channel = Channel(b"{}")
    await exchange(gateway, channel)
    assert channel.status == 500


@pytest.mark.parametrize("step", ["receive", "start", "body"])
async def test_what_the_hosts_channel_raises_is_the_hosts(
    gateway: FakeGateway, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A host's size limit speaks through an exception of its own, and its middleware waits for that very one."""
    error = HTTPException(413)

    class Limited(Channel):
        async def receive(self) -> Message:
            if step == "receive":
                raise error
            return await super().receive()

    async def on_send(message: Message) -> None:
        if message["type"] == f"http.response.{step}":
            raise error

    with pytest.raises(HTTPException) as caught:
        await exchange(gateway, Limited(b"{}", on_send=on_send))
    assert caught.value is error
    assert gateway.ends == ["HTTPException"]
    assert caplog.records == []


async def test_a_gateway_that_swallows_the_hosts_exception_does_not_hide_it(gateway: FakeGateway) -> None:
    error = HTTPException(413)

    class Limited(Channel):
        async def receive(self) -> Message:
            raise error

    async def swallows(seen: Seen) -> Reply:
        with pytest.raises(HTTPException):
            await anext(seen.read())
        return Reply.whole(400, b"I do not know why")

    gateway.reads = False
    gateway.script = swallows
    channel = Limited()
    with pytest.raises(HTTPException) as caught:
        await exchange(gateway, channel)
    assert caught.value is error
    assert channel.sent == []


# ---- other scopes ------------------------------------------------------------------------------------------------


async def test_a_websocket_is_closed(gateway: FakeGateway) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await Application(gateway)({"type": "websocket", "path": "/", "headers": []}, receive, send)
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 4404)]
    assert gateway.seen == []


async def test_an_unknown_scope_is_refused_by_name(gateway: FakeGateway) -> None:
    channel = Channel()
    with pytest.raises(NarrowsError, match="'carrier-pigeon'"):
        await Application(gateway)({"type": "carrier-pigeon"}, channel.receive, channel.send)
    assert channel.sent == []
