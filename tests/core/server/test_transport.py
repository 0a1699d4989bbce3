"""The in-process transport, for clients of both libraries, on both backends."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import ModuleType, TracebackType
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest

from narrows.server import transport
from narrows.server.transport import Lib
from narrows.types import ClientGone, Inbound, Reply
from tests.core.server.fake import FakeGateway, Gate, Seen, after, failing, fails, forever, stream, whole

pytestmark = pytest.mark.anyio
CHAT = "/v1/chat/completions"
LIBRARIES: dict[Lib, ModuleType] = {"httpx": httpx, "httpx2": httpx2}


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture(params=list(LIBRARIES))
def lib(request: pytest.FixtureRequest) -> Lib:
    chosen: Lib = request.param
    return chosen


@pytest.fixture
async def client(gateway: FakeGateway, lib: Lib) -> AsyncIterator[Any]:
    """A client of that library, typed as neither: both have the same methods."""
    inside: Any = transport(gateway, principal="ci", lib="httpx2") if lib == "httpx2" else transport(gateway, "ci")
    async with LIBRARIES[lib].AsyncClient(transport=inside, base_url="http://narrows") as made:
        yield made


async def test_it_is_a_transport_of_that_library(gateway: FakeGateway) -> None:
    assert isinstance(transport(gateway), httpx.AsyncBaseTransport)
    assert isinstance(transport(gateway, lib="httpx2"), httpx2.AsyncBaseTransport)


async def test_an_answer(gateway: FakeGateway, client: Any) -> None:
    gateway.script = whole(b'{"n": 1}', 403, ("x-narrows-code", "forbidden"), ("x-odd", "caf\xe9"))
    answer = await client.post(f"{CHAT}?stream=no", json={"q": 1}, headers={"X-Region": "eu"})
    assert (answer.status_code, answer.json()) == (403, {"n": 1})
    assert (b"x-odd", b"caf\xe9") in answer.headers.raw
    (seen,) = gateway.seen
    assert (seen.inbound.method, seen.inbound.path, seen.body) == ("POST", CHAT, b'{"q":1}')
    assert seen.inbound.header("x-region") == "eu"
    assert all(name == name.lower() for name, _ in seen.inbound.headers)
    assert (seen.outer, seen.principal, seen.end) == (None, "ci", "normal")


async def test_without_a_principal_the_request_brings_its_own_credential(gateway: FakeGateway) -> None:
    async with httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        await client.get("/v1/models", headers={"authorization": "Bearer k"})
    (seen,) = gateway.seen
    assert (seen.principal, seen.inbound.header("authorization")) == (None, "Bearer k")


async def test_head_has_no_body(gateway: FakeGateway, client: Any) -> None:
    answer = await client.head("/v1/models")
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "12")
    assert gateway.ends == ["normal"]


async def test_one_transport_serves_clients_of_both(gateway: FakeGateway) -> None:
    inside: Any = transport(gateway)
    for module in LIBRARIES.values():
        async with module.AsyncClient(transport=inside, base_url="http://narrows") as client:
            assert isinstance(await client.get("/v1/models"), module.Response)


async def test_every_chunk_is_there_before_the_next_is_made(gateway: FakeGateway, client: Any) -> None:
    gate = Gate()
    sent = [b"data: 1\n\n", b"data: 22\n\n", b"data: [DONE]\n\n"]
    gateway.script = stream(*sent, gate=gate)
    async with client.stream("POST", CHAT, json={}) as answer:
        chunks = answer.aiter_raw()
        for number, expected in enumerate(sent, 1):
            assert await anext(chunks) == expected
            assert gateway.seen[0].chunks == number
            gate.release()
        assert [chunk async for chunk in chunks] == []
    assert gateway.ends == ["normal"]


async def test_empty_chunks_are_left_out(gateway: FakeGateway, client: Any) -> None:
    gateway.script = stream(b"1", b"", b"2")
    async with client.stream("POST", CHAT, json={}) as answer:
        assert [chunk async for chunk in answer.aiter_raw()] == [b"1", b"2"]


# ---- leaving -----------------------------------------------------------------------------------------------------


async def test_closing_the_body_half_way_leaves_the_gateway(
    gateway: FakeGateway, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.script = stream(b"1", b"2", then=forever)
    async with client.stream("POST", CHAT, json={}) as answer:
        chunks = answer.aiter_raw()
        assert await anext(chunks) == b"1"
        assert gateway.ends == [None]
        await answer.aclose()
        assert gateway.ends == ["gone"]
        await chunks.aclose()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_never_touching_the_body_leaves_the_gateway(gateway: FakeGateway, client: Any) -> None:
    gateway.script = stream(b"1", then=forever)
    async with client.stream("POST", CHAT, json={}):
        pass
    assert gateway.ends == ["gone"]


async def test_a_body_may_be_closed_in_another_task(gateway: FakeGateway, client: Any) -> None:
    gateway.script = stream(b"1", b"2", then=forever)
    answers: list[Any] = []

    async def opens() -> None:
        answers.append(await client.send(client.build_request("POST", CHAT, json={}), stream=True))

    async def reads() -> None:
        chunks = answers[0].aiter_raw()
        assert await anext(chunks) == b"1"
        answers.append(chunks)

    async def closes() -> None:
        await answers[0].aclose()
        await answers[1].aclose()

    for step in (opens, reads, closes):
        async with anyio.create_task_group() as group:
            group.start_soon(step)
    assert gateway.ends == ["gone"]


async def test_a_body_closed_under_its_reader_does_not_end_cleanly(gateway: FakeGateway, lib: Lib, client: Any) -> None:
    class Closable:
        """What the engine promises of chunks: `aclose` in any task ends the waiting."""

        def __init__(self) -> None:
            self._closed = anyio.Event()

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            reading.set()
            await self._closed.wait()
            raise StopAsyncIteration

        async def aclose(self) -> None:
            self._closed.set()

    async def script(seen: Seen) -> Reply:
        return Reply(200, (), Closable())

    reading = anyio.Event()
    gateway.script = script
    async with client.stream("POST", CHAT, json={}) as answer, anyio.create_task_group() as group:

        async def reads() -> None:
            with pytest.raises(LIBRARIES[lib].RemoteProtocolError, match="closed"):
                await answer.aread()

        group.start_soon(reads)
        await reading.wait()
        await answer.aclose()
    assert gateway.ends == ["gone"]


class Counting(AbstractAsyncContextManager[Reply]):
    """An engine of another make: a class, which raises what it was left by."""

    def __init__(self, inner: AbstractAsyncContextManager[Reply], left: list[BaseException | None]) -> None:
        self._inner, self._left = inner, left

    async def __aenter__(self) -> Reply:
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.append(error)
        await self._inner.__aexit__(kind, error, trace)
        if error is not None:
            raise error


@pytest.mark.parametrize("whole_body", [True, False])
async def test_the_gateway_is_left_once(whole_body: bool, caplog: pytest.LogCaptureFixture) -> None:
    left: list[BaseException | None] = []

    class Other(FakeGateway):
        def answer(self, *arguments: Any, **named: Any) -> Counting:  # type: ignore[override]
            return Counting(super().answer(*arguments, **named), left)

    gateway = Other()
    gateway.script = stream(b"1", b"2")
    async with httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        answer = await client.send(client.build_request("POST", CHAT, json={}), stream=True)
        body = answer.stream
        assert isinstance(body, httpx.AsyncByteStream)
        if whole_body:
            assert await answer.aread() == b"12"
        for _ in range(2):
            await body.aclose()
    assert [type(error) for error in left] == [type(None) if whole_body else ClientGone]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_cancelling_before_the_headers_leaves_the_gateway(gateway: FakeGateway, client: Any) -> None:
    gateway.script = after(Gate(), whole())
    async with anyio.create_task_group() as group:
        group.start_soon(partial(client.post, CHAT, json={}))
        while not gateway.seen:
            await anyio.lowlevel.checkpoint()
        assert gateway.ends == [None]
        group.cancel_scope.cancel()
    assert gateway.ends == ["cancelled"]


async def test_cancelling_after_the_headers_leaves_the_gateway(gateway: FakeGateway, client: Any) -> None:
    with anyio.CancelScope() as scope:

        async def stalls() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        gateway.script = stream(b"1", then=stalls)
        async with client.stream("POST", CHAT, json={}) as answer:
            await answer.aread()
    assert scope.cancelled_caught
    assert gateway.ends == ["gone"]


async def test_the_clients_read_timeout_counts(gateway: FakeGateway, lib: Lib, client: Any) -> None:
    timeout = LIBRARIES[lib].Timeout(None, read=0.01)
    gateway.script = after(Gate(), whole())
    with pytest.raises(LIBRARIES[lib].ReadTimeout):
        await client.post(CHAT, json={}, timeout=timeout)
    gateway.script = stream(b"1", then=forever)
    with pytest.raises(LIBRARIES[lib].ReadTimeout):
        await client.post(CHAT, json={}, timeout=timeout)
    assert gateway.ends == ["cancelled", "gone"]


# ---- faults ------------------------------------------------------------------------------------------------------


async def test_a_fault_before_the_answer_is_the_500_of_a_socket(
    gateway: FakeGateway, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.script = failing(KeyError("secret"))
    answer = await client.post(CHAT, json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "KeyError at fake.py" in caplog.text
    assert "secret" not in caplog.text + answer.text


async def test_a_fault_in_a_stream_breaks_it_off(
    gateway: FakeGateway, lib: Lib, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.script = stream(b"1", then=fails(KeyError("secret")))
    async with client.stream("POST", CHAT, json={}) as answer:
        chunks = answer.aiter_raw()
        assert await anext(chunks) == b"1"
        with pytest.raises(LIBRARIES[lib].RemoteProtocolError) as caught:
            await anext(chunks)
    assert gateway.ends == ["KeyError"]
    assert "KeyError at fake.py" in caplog.text
    assert "secret" not in caplog.text + str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_fault_while_it_is_left_is_logged_only(
    gateway: FakeGateway, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.fails_to_leave = KeyError("secret")
    answer = await client.post(CHAT, json={})
    assert answer.status_code == 200
    assert "KeyError at fake.py" in caplog.text
    assert "secret" not in caplog.text


# ---- bodies that stream ------------------------------------------------------------------------------------------


class Parts:
    """A request's body in parts. `closed`: whether somebody cared for its end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            yield b"a"
            if self.error is not None:
                raise self.error
            yield b"b"
        finally:
            self.closed = True


async def test_a_body_that_streams(gateway: FakeGateway, client: Any) -> None:
    await client.post(CHAT, content=aiter(Parts()))
    assert gateway.seen[0].body == b"ab"


async def test_a_body_that_nobody_wanted_whole_is_closed(gateway: FakeGateway) -> None:
    """With httpx2: httpx closes its own generator around the caller's, and leaves that one to the collector."""

    async def enough(seen: Seen) -> Reply:
        assert await anext(seen.read()) == b"a"
        return Reply.whole(413, b"")

    gateway.reads = False
    gateway.script = enough
    parts = Parts()
    async with httpx2.AsyncClient(transport=transport(gateway, lib="httpx2"), base_url="http://narrows") as client:
        assert (await client.post(CHAT, content=aiter(parts))).status_code == 413
    assert parts.closed


async def test_what_the_clients_own_generator_raises_is_the_clients(
    gateway: FakeGateway, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        await client.post(CHAT, content=aiter(Parts(error)))
    assert caught.value is error
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# ---- libraries ---------------------------------------------------------------------------------------------------


async def test_another_library_is_refused(gateway: FakeGateway) -> None:
    name: Any = "requests"
    with pytest.raises(ValueError, match="httpx, httpx2"):
        transport(gateway, lib=name)


async def test_a_request_of_another_library_is_refused(gateway: FakeGateway) -> None:
    request: Any = Inbound("GET", "/", ())
    with pytest.raises(TypeError, match="Inbound"):
        await transport(gateway).handle_async_request(request)


WITHOUT = """
import sys
sys.modules["httpx2"] = None
import narrows.server
narrows.server.transport(None)
try:
    narrows.server.transport(None, lib="httpx2")
except ImportError as error:
    print(error)
print(sorted({"openai", "fastapi", "httpx2"} & {name for name, module in sys.modules.items() if module}))
"""


def test_nothing_needs_httpx2() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["a transport for httpx2 needs the package: pip install httpx2", "[]"]
