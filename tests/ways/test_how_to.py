"""docs/how-to/mount-in-fastapi.md: every block of Python on that page runs, and does what the page says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import anyio.to_thread
import openai
import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient
from starlette.types import Message

from narrows.testing import Hold, RecordingProvider, Stream, stream_events
from tests.conftest import Serve
from tests.support.http import http_client

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "mount-in-fastapi.md"
CHAT = "/v1/chat/completions"
BODY = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
STREAM = {**BODY, "stream": True}
BATCH = {"authorization": "Bearer nrw_example_batch"}
"""A caller of the page's file."""

EU = "large-2"
Names = dict[str, Any]


def blocks(text: str, language: str) -> list[tuple[str, str]]:
    """The fenced blocks of that language, each with the heading that it stands under."""
    found: list[tuple[str, str]] = []
    heading = ""
    # a fence first: a line inside it that begins with # is no heading
    for fence, source, title in re.findall(r"^```(\w*)\n(.*?)^```$|^#{1,3} ([^\n]*)$", text, re.DOTALL | re.MULTILINE):
        heading = title.replace("`", "") or heading
        if fence == language:
            found.append((heading, source))
    return found


BLOCKS = blocks(PAGE.read_text("utf-8"), "python")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: RecordingProvider) -> Callable[[str], Names]:
    """Runs the block under that heading, beside the file that the page speaks of. Gives back what it defined."""
    (file, *_) = blocks((DOCS / "explanation" / "questions.md").read_text("utf-8"), "toml")
    text = file[1].replace("http://127.0.0.1:9901/v1", provider.base_url)
    assert provider.base_url in text
    (tmp_path / "narrows.toml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)

    def run(heading: str) -> Names:
        (source,) = [source for title, source in BLOCKS if title == heading]
        names: Names = {"__name__": "page"}
        exec(compile(source, f"{PAGE.name}: {heading}", "exec"), names)  # noqa: S102 - our own page
        return names

    return run


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


# ---- one exercise for each block ---------------------------------------------------------------------------------


def below_a_path(names: Names, provider: RecordingProvider, backend: Any) -> None:
    """The gateway answers below the path, for callers with a key; elsewhere the application does."""
    with TestClient(names["app"], backend=backend) as client:
        assert client.post(f"/llm{CHAT}", json=BODY).status_code == 401
        assert client.get("/openapi.json").status_code == 200
        assert provider.count() == 0
        assert client.post(f"/llm{CHAT}", json=BODY, headers=BATCH).status_code == 200
        assert provider.count(EU) == 1


def summary(names: Names, provider: RecordingProvider, backend: Any) -> None:
    """The handler's client asks for its caller, whose key counts, and not for itself."""
    with TestClient(names["app"], backend=backend) as client:
        with pytest.raises(openai.AuthenticationError):
            client.post("/summary", content="A long text.")
        assert provider.count() == 0
        answer = client.post("/summary", content="A long text.", headers=BATCH)
        assert answer.json() == {"summary": f"Answered by {EU}."}
        assert "A long text." in provider.calls[0].body.decode()
        assert provider.count() == 1


def passed_on(names: Names, provider: RecordingProvider, backend: Any) -> None:
    """A stream and a refusal arrive as they are."""
    with TestClient(names["app"], backend=backend) as client:
        answer = client.post("/ask", json=STREAM, headers=BATCH)
        assert answer.content == b"".join(stream_events(EU, number=1))
        assert answer.headers["x-narrows-target"] == "eu-large"
        refused = client.post("/ask", json={**BODY, "provider": "mine"}, headers=BATCH)
        assert (refused.status_code, refused.headers["x-narrows-code"]) == (400, "field_refused")
        assert provider.count() == 1


def nightly(names: Names, provider: RecordingProvider, backend: Any) -> None:
    """A job runs under the key that it names."""
    anyio.run(names["nightly"], backend=backend)
    assert (provider.count(EU), provider.count()) == (1, 1)


EXERCISES: Mapping[str, Callable[[Names, RecordingProvider, Any], None]] = MappingProxyType(
    {
        "Below a path: attach": below_a_path,
        "As a middleware: NarrowsMiddleware": below_a_path,
        "As a client without a socket": summary,
        "Pass a stream on": passed_on,
        "Outside a request": nightly,
    }
)


@pytest.mark.parametrize("heading", EXERCISES)
def test_the_block_runs_and_does_what_the_page_says(
    heading: str, page: Callable[[str], Names], provider: RecordingProvider, backend: Any
) -> None:
    EXERCISES[heading](page(heading), provider, backend)


def test_every_block_has_an_exercise() -> None:
    assert [heading for heading, _ in BLOCKS] == list(EXERCISES)


# ---- the answer that is passed on is closed however it ends ------------------------------------------------------


@pytest.fixture
def held(provider: RecordingProvider) -> RecordingProvider:
    """The upstream begins a stream and never goes on."""
    first, *others = stream_events(EU)
    provider.script(EU, Stream((first, Hold(), *others)))
    return provider


def test_a_caller_that_leaves_in_the_middle_ends_the_call(
    page: Callable[[str], Names], held: RecordingProvider, serve: Serve
) -> None:
    async def leave(url: str) -> None:
        async with http_client(url) as client, client.stream("POST", "/ask", json=STREAM, headers=BATCH) as answer:
            assert b"data:" in await anext(answer.aiter_raw())
            assert held.closed == 0

    with serve(page("Pass a stream on")["app"]) as server:
        anyio.run(leave, server.url)
        held.wait_closed(1, 1.0)


@pytest.mark.anyio
@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
async def test_a_caller_that_left_before_the_first_byte_ends_the_call_too(
    page: Callable[[str], Names], held: RecordingProvider, spec_version: str
) -> None:
    """Servers say it in two ways: `receive` tells of it, or (since 2.4) `send` raises."""
    app: FastAPI = page("Pass a stream on")["app"]
    body = [{"type": "http.request", "body": b'{"model": "chat", "stream": true, "messages": [{"role": "user"}]}'}]
    sent: list[Message] = []

    async def receive() -> Message:
        return body.pop() if body else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if spec_version == "2.4":
            raise OSError("the caller has gone")
        sent.append(message)
        await anyio.sleep_forever()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": spec_version},
        "http_version": "1.1",
        "method": "POST",
        "path": "/ask",
        "raw_path": b"/ask",
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in BATCH.items()],
        "client": ("192.0.2.7", 4711),
        "server": ("192.0.2.1", 80),
    }
    async with app.router.lifespan_context(app):
        with suppress(ClientDisconnect):  # starlette's, on its way to a server that knows it
            await app(scope, receive, send)
        assert held.count() == 1  # it was open
        await anyio.to_thread.run_sync(held.wait_closed, 1, 1.0)
    assert not any(message["type"] == "http.response.body" for message in sent)
