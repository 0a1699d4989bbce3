"""The gateway's lifespan alone and around a host's, on both backends: who starts when, and who hears of what."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from narrows.errors import ConfigError, Problem
from narrows.server import Application, NarrowsMiddleware
from tests.core.server.fake import FakeGateway

pytestmark = pytest.mark.anyio
COMPLETE = "lifespan.startup.complete"
STOPPED = "lifespan.shutdown.complete"


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


async def play(app: ASGIApp, events: list[str]) -> list[Message]:
    """A server's part: startup, then shutdown. What the application says goes into `events` too, by its type."""
    said: list[Message] = []
    script = ["lifespan.startup", "lifespan.shutdown"]

    async def receive() -> Message:
        if not script:
            await anyio.sleep_forever()
        message = {"type": script.pop(0)}
        if not script:
            events.append("server says shutdown")
        return message

    async def send(message: Message) -> None:
        said.append(message)
        events.append(message["type"])

    with anyio.fail_after(5):
        await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return said


def host(gateway: FakeGateway, *steps: str | Exception) -> ASGIApp:
    """A host that does these steps: "receive", a message type to send, or an exception to raise."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if step == "receive":
                gateway.events.append(f"host hears {(await receive())['type'].removeprefix('lifespan.')}")
            else:
                await send({"type": step, "message": "the host's own words"})

    return app


def around(gateway: FakeGateway, *steps: str | Exception) -> ASGIApp:
    return NarrowsMiddleware(host(gateway, *steps), gateway)


WHOLE = ("receive", COMPLETE, "receive", STOPPED)


async def test_alone(gateway: FakeGateway) -> None:
    await play(Application(gateway), gateway.events)
    assert gateway.events == ["gateway starts", COMPLETE, "server says shutdown", "gateway stops", STOPPED]


async def test_around_a_host(gateway: FakeGateway) -> None:
    await play(around(gateway, *WHOLE), gateway.events)
    assert gateway.events == [
        "gateway starts",
        "host hears startup",
        COMPLETE,
        "server says shutdown",
        "host hears shutdown",
        "gateway stops",
        STOPPED,
    ]


@pytest.mark.parametrize("steps", [(), (RuntimeError("what is a lifespan?"),)], ids=["returns", "raises"])
async def test_a_host_that_knows_no_lifespan(gateway: FakeGateway, steps: tuple[Exception, ...]) -> None:
    await play(around(gateway, *steps), gateway.events)
    assert gateway.events == ["gateway starts", COMPLETE, "server says shutdown", "gateway stops", STOPPED]


async def test_a_host_that_returns_once_it_is_up(gateway: FakeGateway) -> None:
    await play(around(gateway, "receive", COMPLETE), gateway.events)
    assert gateway.events[-4:] == [COMPLETE, "server says shutdown", "gateway stops", STOPPED]


async def test_a_host_that_says_it_cannot_start(gateway: FakeGateway) -> None:
    said = await play(around(gateway, "receive", "lifespan.startup.failed"), gateway.events)
    assert gateway.events == ["gateway starts", "host hears startup", "lifespan.startup.failed", "gateway stops"]
    assert said[0]["message"] == "the host's own words"


async def test_a_host_that_says_it_cannot_stop(gateway: FakeGateway) -> None:
    said = await play(around(gateway, "receive", COMPLETE, "receive", "lifespan.shutdown.failed"), gateway.events)
    assert gateway.events[-2:] == ["gateway stops", "lifespan.shutdown.failed"]
    assert said[-1]["message"] == "the host's own words"


@pytest.mark.parametrize("before", [("receive",), ("receive", COMPLETE, "receive")], ids=["startup", "shutdown"])
async def test_what_a_host_raises_is_the_hosts(gateway: FakeGateway, before: tuple[str, ...]) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        await play(around(gateway, *before, error), gateway.events)
    assert caught.value is error
    assert gateway.events[-1] == "gateway stops"
    assert not any("failed" in event for event in gateway.events)


Make = Callable[[FakeGateway], ASGIApp]


@pytest.fixture(params=["alone", "around"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "alone":
        return Application
    return lambda gateway: around(gateway, *WHOLE)


async def test_a_gateway_that_cannot_start_says_why(gateway: FakeGateway, make: Make) -> None:
    gateway.fails_to_start = ConfigError([Problem("unset", "the variable US_KEY is not set", "providers.us")])
    said = await play(make(gateway), gateway.events)
    assert gateway.events == ["lifespan.startup.failed"]
    assert said[0]["message"] == "the gateway could not start: providers.us: the variable US_KEY is not set. [unset]"


async def test_the_text_of_a_foreign_exception_is_not_told(gateway: FakeGateway, make: Make) -> None:
    gateway.fails_to_start = ValueError("Illegal header value b'Bearer sk-secret'")
    said = await play(make(gateway), gateway.events)
    assert said[0]["message"].startswith("the gateway could not start: ValueError at fake.py:")
    assert "secret" not in said[0]["message"]


async def test_a_gateway_that_cannot_stop_says_so(gateway: FakeGateway, make: Make) -> None:
    gateway.fails_to_stop = OSError("disk")
    said = await play(make(gateway), gateway.events)
    assert [message["type"] for message in said] == [COMPLETE, "lifespan.shutdown.failed"]
    assert said[1]["message"].startswith("the gateway could not stop: OSError at")


async def test_a_gateway_that_somebody_else_runs_is_left_alone(gateway: FakeGateway, make: Make) -> None:
    async with gateway:
        await play(make(gateway), gateway.events)
        assert gateway.started
    assert gateway.events.count("gateway starts") == gateway.events.count("gateway stops") == 1


async def test_a_server_that_is_cancelled_stops_the_gateway(gateway: FakeGateway, make: Make) -> None:
    async def never() -> Message:
        if gateway.started:
            scope.cancel()
            await anyio.sleep_forever()
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        gateway.events.append(message["type"])

    with anyio.CancelScope() as scope:
        await make(gateway)({"type": "lifespan", "state": {}}, never, send)
    assert scope.cancelled_caught
    assert gateway.events[-1] == "gateway stops"
