"""A32 (BerriAI/litellm PR#39136): each misspelt model name minted new series."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from narrows import Inbound
from tests.e2e.fixtures import serve_once
from tests.e2e.support import CHAT, Serve, Stage, staged
from tests.support.metrics import Scrape
from tests.surface.support import JSON, Inside, opened

__all__ = ["serve_once"]

UNKNOWN = 5_000
TEXT = """
[attributes.tag]
values = ["a", "b"]
header = "x-tag"

[providers.vendor]
kind = "openai_compatible"
base_url = "{url}"

[targets.p]
provider = "vendor"
model = "p"

[routes.chat]
targets = ["p"]
"""


def test_a32_no_model_name_mints_a_series() -> None:
    with opened("asyncio", TEXT) as site:
        assert isinstance(site, Inside)
        scraped = partial(site.answer, Inbound("GET", "/metrics", (), "127.0.0.1"), b"")
        inbound = Inbound("POST", CHAT, (JSON,))

        def ask(model: str) -> int:
            return site.answer(inbound, json.dumps({"model": model, "messages": [MESSAGE]}).encode())[0]

        assert (ask("chat"), ask("chaat")) == (200, 404)  # every series of these two kinds is there now
        before = Scrape(scraped()[2].decode())
        for number in range(UNKNOWN):
            assert ask(f"chat-{number}") == 404
        after = Scrape(scraped()[2].decode())

        assert after.values.keys() == before.values.keys()
        assert after("requests_total", route="other", code="unknown_model") == UNKNOWN + 1
        assert after("requests_total", route="chat", code="ok") == 1
        assert "chat-1" not in after.text
        assert site.provider.count() == 1


MESSAGE = {"role": "user", "content": "hello"}


@pytest.fixture(scope="module")
def stage(serve_once: Serve) -> Iterator[Stage]:
    with staged(serve_once, TEXT, {}) as found:
        yield found


def test_a32_nor_does_anything_else_that_a_caller_says(stage: Stage) -> None:
    def scrape() -> Scrape:
        return Scrape(stage.client.get("/metrics").text)

    def ask(word: str) -> None:
        said = {"x-request-id": word, "x-narrows-session": word, "user-agent": word}
        stage.decision(stage.ask("chat", said, user=word, metadata={"key": word}))
        stage.decision(stage.ask(word, {"x-tag": word}))
        stage.decision(stage.ask("chat", {"x-tag": word}))
        stage.client.request(word.upper(), f"/{word}")

    ask("first")
    before = scrape()
    for number in range(20):
        ask(f"word{number}")
    after = scrape()
    assert after.values.keys() == before.values.keys()
    assert after("requests_total", route="chat", code="ok") == before("requests_total", route="chat", code="ok") + 20
    assert "word1" not in after.text
